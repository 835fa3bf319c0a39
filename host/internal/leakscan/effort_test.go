//go:build !race

// Under the race detector these tests take long, and nothing in them runs concurrently. make test runs them without it.

package leakscan

import (
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// A search ends with ErrEffort if an API repeats, with escapes, a part of a credential that consists of many equal
// parts. A plugin may make such a credential. The credential may begin at each of the parts. threats.md 81
func TestCostlySearchEnds_threats_81(t *testing.T) {
	credential := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 15_000) + "the end of it"))
	f := New([]string{credential})
	for name, part := range map[string]string{"with escapes": "%59WFh", "as JSON": `\u0059WFh`} {
		t.Run(name, func(t *testing.T) {
			source := &endless{part: part}
			n, err := io.Copy(io.Discard, f.Body(source, func(err error) error { return err }))
			if !errors.Is(err, ErrEffort) || n != 0 || source.read > 8<<20 || !source.closed {
				t.Errorf("%d bytes of %d came, closed %t: %v", n, source.read, source.closed, err)
			}
		})
	}
	if !f.Holds(strings.Repeat("%59WFh", 100_000)) {
		t.Error("a text that takes too long is not taken for one that holds it")
	}
}

// A search without enough budget takes any data for a match. So it passes on no text, however little budget is left, and
// stops no other data if the budget suffices. threats.md 81
func TestExactBudget_threats_81(t *testing.T) {
	const text = "the-token"
	f := New([]string{text})
	found := func(data string, left budget) (found bool, needed budget) {
		before := left
		found, _ = f.scan([]byte(data), 0, true, &left)
		return found, before - left
	}
	for way, write := range escapes {
		data := "the-toke and " + write(text)
		_, enough := found(data, 1<<20)
		for left := range enough + 1 {
			if got, _ := found(data, left); !got {
				t.Errorf("%s: it is not found with a budget of %d", way, left)
			}
		}
	}
	for _, data := range []string{"is the-toke", "is the-tok%65", "is the-tok%65x", `is \u0074he-tokx`, "is the&#45;tokx", strings.Repeat("A", 40) + "dGhl\nLXRva2V"} {
		_, needed := found(data, 1<<20)
		for left := range 2 * needed {
			if got, _ := found(data, left); got != (left < needed) {
				t.Errorf("%q is taken for a match with a budget of %d: %t, and the search needs %d", data, left, got, needed)
			}
		}
	}
}

// A long text may take more steps than the savings, because each of its bytes earns some. threats.md 81
func TestBytesOfATextEarnSteps_threats_81(t *testing.T) {
	f := New([]string{"the-token"})
	for name, text := range map[string]string{
		"nearly no steps":         strings.Repeat("\x00", 1<<18) + "the-toke",
		"more than the savings":   strings.Repeat("%74%68", 1<<18),
		"the last one is escaped": strings.Repeat("\x00", 1<<18) + "the-tok%65",
	} {
		if f.Holds(text) {
			t.Errorf("%s: it is taken for a match", name)
		}
	}
	if got, _ := work(f, []byte(strings.Repeat("%74%68", 1<<18))); got <= savings {
		t.Errorf("it takes only %d steps: the test shows nothing", got)
	}
}

// A header's name that nearly repeats a credential is searched in less than a tenth of a second. A search that begins
// anew at each byte would take minutes. threats.md 81
func TestNearRepeatedName_threats_81(t *testing.T) {
	f := New([]string{strings.Repeat("a", 120_000) + "b"})
	name, began := strings.Repeat("A", 1<<20), time.Now()
	if f.HoldsFolded(name) || !f.HoldsFolded(name+"B") {
		t.Error("a name is found, or is not")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestFoldedNames(t *testing.T) {
	f := New([]string{"sk-Live_0123456789"})
	for name, want := range map[string]bool{
		"Sk-Live_0123456789": true, "X-SK-LIVE_0123456789-Y": true, strings.ToUpper("736b2d4c6976655f30313233343536373839"): true,
		"Sk-Live_012345678": false, "": false,
	} {
		if f.HoldsFolded(name) != want {
			t.Errorf("%q is found: %t", name, !want)
		}
	}
	if New(nil).HoldsFolded("Sk-Live_0123456789") {
		t.Error("a scanner of nothing finds something")
	}
}

// endless is a body that repeats part without end.
type endless struct {
	part   string
	read   int
	closed bool
}

func (e *endless) Read(p []byte) (n int, err error) {
	for i := range p {
		p[i] = e.part[(e.read+i)%len(e.part)]
	}
	e.read += len(p)
	return len(p), nil
}

func (e *endless) Close() error {
	e.closed = true
	return nil
}

// The search for many long credentials takes not many more steps than that for one short credential, in whatever way the
// answer is written, and also if its author knows the credentials. threats.md 81
func TestLongCredentialsMakeNoMoreWork_threats_81(t *testing.T) {
	const size = 1 << 13
	few, one := map[string]budget{}, New(credentials(1, 20))
	answers(credentials(1, 20), size, func(name string, data []byte) {
		few[name], _ = work(one, data)
	})
	many := New(credentials(16, 4000))
	answers(credentials(16, 4000), size, func(name string, data []byte) {
		got, stopped := work(many, data)
		if got > max(3*few[name], 2*size) || got > 6*size || got < size/maxWindow || stopped {
			t.Errorf("%s: %.2f steps for each byte, %.2f for a short credential, stopped %t", name, float64(got)/size, float64(few[name])/size, stopped)
		}
	})
}

// An author of both the credential and the answer can make every byte a possible beginning of a match. Such an answer is
// stopped when its budget is used up. threats.md 81
func TestWorkHasABound_threats_81(t *testing.T) {
	texts := map[string]string{
		"one character": strings.Repeat("a", 999) + "b", "two": strings.Repeat("ab", 500) + "c", "percent": strings.Repeat("%25%", 250) + "x",
		"backslashes": strings.Repeat(`\`, 999) + "x", "references": strings.Repeat("&amp;", 200) + "x", "lines": strings.Repeat("\x00\x10\x83", 300) + "x",
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			f := New([]string{text})
			for _, way := range []string{"as it is", "percent", "JSON", "HTML, decimal", "octal", "Base64, lines"} {
				data := escapes[way](strings.Repeat(text[:len(text)-1], 1+1<<13/len(text)))[:1<<13]
				expectBounded(t, f, way, data, 100)
				if err := expectBounded(t, f, way, data, 32<<10); (name == "one character" || name == "two") && err == nil {
					t.Errorf("%s: every byte may be the beginning of the text, and it is passed on: %v", way, err)
				}
				expectBounded(t, f, way, data[:1<<10], 1)
			}
		})
	}
}

func expectBounded(t *testing.T, f *Scanner, way, data string, chunk int) error {
	t.Helper()
	b := f.Body(&chunks{rest: split(data, chunk), end: io.EOF}, same).(*body)
	b.effort = 0 // only what the bytes earn
	_, err := io.Copy(io.Discard, b)
	if err != nil && !errors.Is(err, ErrFound) && !errors.Is(err, ErrEffort) {
		t.Errorf("%s, by %d: %v", way, chunk, err)
	}
	if b.effort < -1000 {
		t.Errorf("%s, by %d: %d steps more than there were", way, chunk, -b.effort)
	}
	return err
}

// An answer that holds most of a credential once is passed on, in pieces of any size.
func TestPartialCredentialPassed(t *testing.T) {
	text := credentials(1, 1000)[0]
	f := New([]string{text})
	for way, encode := range escapes {
		sent := encode(text[:990]) + "~" + encode("and more")
		for _, chunk := range []int{150, 1400} {
			var got strings.Builder
			if _, err := io.Copy(&got, f.Body(&chunks{rest: split(sent, chunk), end: io.EOF}, same)); err != nil || got.String() != sent {
				t.Errorf("%s, by %d: %d bytes of %d, %v", way, chunk, got.Len(), len(sent), err)
			}
		}
	}
}
