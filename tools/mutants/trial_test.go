package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	source = `package p

import "time"

const one = 2 - 1

// Sum has a loop.
func Sum(n int) (sum int) {
	for i := 0; i < n; i++ {
		sum += i
	}
	if sum < 0 {
		panic("too small")
	}
	return sum * one
}

type flag bool

// All has all operators.
func All(m map[string]int, list []int, d time.Duration) string {
	m["a"]--
	list[len(list)-1]++
	half := -(d % time.Second) / 2
	if list[0] != 1 && (half >= 0 || // no text
		len(list) <= 4 && !bool(flag(d == 0))) {
		return "a" + half.String()
	}
	return ""
}
`
	innerTest = `package p

import "testing"

func TestInner(t *testing.T) {
	if Sum(0) != 0 {
		t.Error("not empty")
	}
}
`
	sourceTest = `package p_test

import (
	"testing"
	"time"

	"github.com/keywright/keywright/x/p"
)

func TestEmpty(t *testing.T) {
	if p.Sum(0) != 0 {
		t.Error("not empty")
	}
}

func TestSum(t *testing.T) {
	if p.Sum(3) != 3 {
		t.Error("wrong")
	}
}

func TestAll(t *testing.T) {
	m, list := map[string]int{}, []int{2, 3, 4, 5}
	if text := p.All(m, list, 3500*time.Millisecond); text != "a-250ms" || m["a"] != -1 || list[3] != 6 {
		t.Error(text, m, list)
	}
	if text := p.All(m, []int{1, 3}, 0); text != "" {
		t.Error(text)
	}
	if text := p.All(m, []int{0, 1, 2, 3, 4}, 7*time.Second); text != "a0s" {
		t.Error(text)
	}
	if text := p.All(m, []int{0, 1, 2, 3, 4}, 7300*time.Millisecond); text != "" {
		t.Error(text)
	}
}
`
)

// module is a module with the package p, on which measure has run.
type module struct{ root, state, original, file string }

func newModule(t *testing.T) *module {
	t.Helper()
	m := &module{root: t.TempDir(), state: t.TempDir(), original: t.TempDir()}
	m.file = filepath.Join(m.root, "p", "p.go")
	for name, text := range map[string]string{
		filepath.Join(m.root, "go.mod"): "module " + rootModule + "/x\n\ngo 1.26.0\n", m.file: source, filepath.Join(m.root, "p", "p_test.go"): sourceTest,
		filepath.Join(m.root, "p", "inner_test.go"): innerTest,
		filepath.Join(m.original, "p.go"):           source,
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	command, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(realGo, command)
	t.Setenv(realPath, os.Getenv("PATH"))
	t.Setenv(stateName, m.state)
	t.Setenv(origName, m.original)
	t.Chdir(m.root)
	profile := filepath.Join(m.root, "profile")
	if err := measure(t.Context(), []string{"test", "-cover", "-coverprofile", profile}, "./p"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(profile); err != nil || !strings.Contains(string(text), "p.go:") {
		t.Fatalf("the profile is %q, %v", text, err)
	}
	return m
}

// mutate runs a trial with a mutation of the source.
func (m *module) mutate(t *testing.T, from, to string) (*trial, error) {
	t.Helper()
	if strings.Count(source, from) != 1 {
		t.Fatalf("%q is not once in the source", from)
	}
	if err := os.WriteFile(m.file, []byte(strings.Replace(source, from, to, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	trial := newTrial(m.root, "p", "p.go")
	if err := trial.choose(); err != nil {
		t.Fatal(err)
	}
	trial.limit = time.Second // of processor time; the tests take some milliseconds
	return trial, trial.run(t.Context())
}

// A mutation is noticed if a test fails, panics or uses up its processor time. It is no mutation if it does not compile. All
// mutations are compiled once, but for those of constants, texts and elements of maps.
func TestTrialOfAMutation(t *testing.T) {
	m := newModule(t)
	for _, tt := range []struct {
		name, from, to           string
		noticed, alone, unviable bool
	}{
		{name: "a test fails", from: "i < n", to: "i <= n", noticed: true},
		{name: "a test panics", from: "sum < 0", to: "sum >= 0", noticed: true},
		{name: "an endless loop", from: "i++", to: "i--", noticed: true},
		{name: "a constant", from: "2 - 1", to: "2 + 1", noticed: true, alone: true},
		{name: "an element of a map", from: `m["a"]--`, to: `m["a"]++`, noticed: true, alone: true},
		{name: "an element of a list", from: "-1]++", to: "-1]--", noticed: true},
		{name: "minus", from: "len(list)-1", to: "len(list)+1", noticed: true},
		{name: "a negative number", from: "-(d", to: "+(d", noticed: true},
		{name: "the rest", from: "d % time.Second", to: "d * time.Second", noticed: true},
		{name: "divided by", from: ") / 2", to: ") * 2", noticed: true},
		{name: "multiplied by, which nobody notices", from: "sum * one", to: "sum / one"},
		{name: "unlike", from: "list[0] != 1", to: "list[0] == 1", noticed: true},
		{name: "equal", from: "d == 0", to: "d != 0", noticed: true, alone: true}, // it is no bool
		{name: "at least", from: "half >= 0", to: "half < 0", noticed: true},
		{name: "the bound", from: "half >= 0", to: "half > 0", noticed: true},
		{name: "at most", from: "list) <= 4", to: "list) < 4", noticed: true},
		{name: "or", from: "|| // no text", to: "&& // no text", noticed: true},
		{name: "and, with parentheses", from: "4 && !bool(flag(d == 0))) {", to: "4 || !bool(flag(d == 0))) {", noticed: true},
		{name: "a text", from: `"a" +`, to: `"a" -`, noticed: true, alone: true, unviable: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trial, err := m.mutate(t, tt.from, tt.to)
			if noticed, unviable := err != nil, errors.Is(err, errNotGood); noticed != tt.noticed || unviable != tt.unviable {
				t.Errorf("noticed %t, unviable %t: %v", noticed, unviable, err)
			}
			if alone := trial.number < 0; alone != tt.alone {
				t.Errorf("compiled alone: %t", alone)
			}
			reach := trial.readTests("reached-" + strconv.Itoa(trial.number))["p"]
			if got := strings.Join(reach, " "); !tt.alone && got != "TestAll" && got != "TestSum" && got != "TestInner TestEmpty TestSum" {
				t.Errorf("reached by %s", got)
			}
		})
	}
	for name, want := range map[string]string{"noticed-p.go": "p TestSum\n", "endless": "p.go\n"} {
		if text, err := os.ReadFile(filepath.Join(m.state, name)); err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
}

// A package is not tried if its tests fail without a mutation, or for any change of its sources.
func TestFailingTests(t *testing.T) {
	for _, tt := range []struct{ name, file, text string }{
		{"a test fails", "p.go", strings.Replace(source, "2 - 1", "2 + 1", 1)},
		{"a test compares the sources", "size_test.go", `package p_test

import (
	"os"
	"testing"
)

func TestSize(t *testing.T) {
	if text, err := os.ReadFile("p.go"); err != nil || len(text) != ` + fmt.Sprint(len(source)) + ` {
		t.Error("the sources have changed")
	}
}
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newModule(t)
			if err := os.WriteFile(filepath.Join(m.root, "p", tt.file), []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(m.root)
			if err := measure(t.Context(), []string{"test"}, "./p"); err == nil {
				t.Error("it is tried")
			}
			if after, err := os.ReadFile(m.file); err != nil || string(after) != string(before) {
				t.Errorf("the source is %q, %v", after, err)
			}
		})
	}
}

// Tests that wait for each other do not end.
func TestStopIdle(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "kill -STOP $$")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopIdle(ctx, cmd.Process.Pid, time.Millisecond, stop)
	if err := cmd.Wait(); err == nil || ctx.Err() == nil {
		t.Errorf("it has ended with %v", err)
	}
}

func TestChangedFile(t *testing.T) {
	dir, original := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a.go", "b.go"} {
		write(dir, name, "package p\n")
		write(original, name, "package p\n")
	}
	if name, err := changedFile(dir, original); err == nil {
		t.Errorf("%q has changed", name)
	}
	write(dir, "b.go", "package q\n")
	if name, err := changedFile(dir, original); name != "b.go" || err != nil {
		t.Errorf("%q has changed, %v", name, err)
	}
}
