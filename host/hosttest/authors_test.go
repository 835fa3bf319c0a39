package hosttest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/sdk"
)

// A plugin with the grant reveal may have revealed values, and what it makes of them, in its memory.
func TestGrantReveal(t *testing.T) {
	wasm := leakyModule(t)
	got := complaints(func(tb TB) {
		h := leakyHarness(tb, wasm)
		h.Authenticate(Config{"value": "{{ get_secret('crm') }}"}, GET("https://api.test"))
	})
	if len(got) != 0 {
		t.Errorf("complaints: %q", got)
	}
}

func TestMemoryAfterReveal(t *testing.T) {
	const memory = "revealed-secret another-secret composed-credential"
	var e evidence
	e.begin()
	e.secret(`secret "a"`, "revealed-secret")
	e.secret(`secret "b"`, "another-secret")
	e.reveal("revealed-secret")
	e.noteRequest(http.Header{"Authorization": {"Acme composed-credential"}}, nil)
	e.memory([]byte(memory), nil)
	e.end()
	e.text("a log line", "revealed-secret composed-credential")
	want := `a log line holds secret "a", as it is; a log line holds the credential of an Authorization header, as it is; ` +
		`the guest's memory holds secret "b", as it is`
	if got := strings.Join(e.leaks(), "; "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestBuiltInType(t *testing.T) {
	got := complaints(func(tb TB) { nativeHarness(tb, taken{}).Description() })
	wantComplaint(t, got, `"apikey" is one of the host's own`, "give it another")
}

// taken is a plugin with an alias of a built-in type.
type taken struct{ scripted }

func (taken) Describe() sdk.Description {
	return sdk.Description{ABI: sdk.ABI, Type: "acme", Aliases: []string{"apikey"}, Version: "1.0.0", Summary: "Takes another's name."}
}

// threats.md 71: a native plugin that runs for ever fails the test, whether it calls host functions or not.
func TestEndlessNativePlugin(t *testing.T) {
	for name, test := range map[string]struct {
		turn func(c *sdk.Call)
		at   string
	}{
		"on its own":          {func(*sdk.Call) {}, "loopForEver"},
		"asking for the time": {func(c *sdk.Call) { c.Now() }, "loopForEver"},
	} {
		t.Run(name, func(t *testing.T) {
			var stop atomic.Bool
			defer stop.Store(true)
			looping := make(chan time.Time, 1)
			got := complaints(func(tb TB) {
				plugin := newNative(tb, scripted(func(c *sdk.Call) (sdk.Mutation, error) {
					var once sync.Once
					loopForEver(&stop, func() {
						once.Do(func() { looping <- time.Now() })
						test.turn(c)
					})
					return sdk.Mutation{}, nil
				}), callTimeout)
				calls := 0
				plugin.expired = func() <-chan time.Time {
					if calls++; calls == 1 { // describe
						return nil
					}
					return looping
				}
				h := newHarness(tb, "", testhook.NativePlugin("native", plugin, nil).(host.Plugin), false)
				h.Canary("crm")
				err := h.AuthenticateError(Config{"value": "{{ get_secret('crm') }}"}, GET("https://api.test"))
				if !strings.Contains(err.Error(), "did not end") {
					t.Errorf("error %v", err)
				}
			})
			wantComplaint(t, got, "the plugin did not end", "authenticate runs for ever", test.at, "hosttest_test.go:")
		})
	}
}

func loopForEver(stop *atomic.Bool, turn func()) {
	for !stop.Load() {
		turn()
	}
}

// shown is a testing.TB that records what is logged.
type shown struct {
	testing.TB
	lines []string
}

func (s *shown) Logf(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// The error of a trap does not hold the text of a panic. The test's log has it.
func TestSandboxPanicLog(t *testing.T) {
	wasm, err := exec.Command("wat2wasm", "--output=-", filepath.Join("testdata", "panics.wat")).Output()
	if err != nil {
		t.Fatalf("wat2wasm (install wabt): %v", err)
	}
	s := &shown{TB: t}
	h := newHarness(s, "", host.Plugin{Name: "panics.wasm", Wasm: wasm}, false)
	h.Canary("crm")
	failure := h.AuthenticateError(Config{"value": "{{ get_secret('crm') }}"}, GET("https://api.test"))
	if got := strings.Join(s.lines, "; "); !strings.Contains(got, "panic: no such key") || strings.Contains(failure.Error(), "no such key") {
		t.Errorf("the test's log is %q, after the error %v", got, failure)
	}
}

// A panic of a native plugin is reported like a trap in the sandbox. A host function that ends the call also panics,
// but not as a failure of the plugin.
func TestNativePanic(t *testing.T) {
	got := complaints(func(tb TB) {
		h := nativeHarness(tb, scripted(func(*sdk.Call) (sdk.Mutation, error) { panic("oh") }))
		h.Canary("crm")
		err := h.AuthenticateError(config, GET("https://api.test"))
		if err.Stage != host.StagePlugin || !errors.Is(err, sandbox.ErrTrap) {
			t.Errorf("stage %s: %v", err.Stage, err)
		}
	})
	if len(got) != 0 {
		t.Errorf("complaints: %q", got)
	}
	got = complaints(func(tb TB) {
		h := nativeHarness(tb, scripted(func(c *sdk.Call) (sdk.Mutation, error) {
			c.Reveal(c.Config("value"))
			t.Error("a call without the grant went on")
			return sdk.Mutation{}, nil
		}))
		h.Canary("crm")
		err := h.AuthenticateError(config, GET("https://api.test"))
		if err.Stage != host.StagePlugin || errors.Is(err, sandbox.ErrTrap) || !strings.Contains(err.Error(), `"reveal"`) {
			t.Errorf("stage %s: %v", err.Stage, err)
		}
	})
	if len(got) != 0 {
		t.Errorf("complaints: %q", got)
	}
}

// challenged is a plugin that gets the status of a refusal.
type challenged struct{ scripted }

func (p challenged) Describe() sdk.Description {
	d := p.scripted.Describe()
	d.Challenge = &sdk.Challenge{Statuses: []int{http.StatusForbidden}}
	return d
}

// A verbose test shows that the plugin passes the API's answer on.
func TestVerboseLogsPass(t *testing.T) {
	run := &testworld.Collector{}
	h := nativeHarness(run, challenged{func(c *sdk.Call) (sdk.Mutation, error) {
		if c.Challenge().Status != 0 {
			return sdk.Mutation{Pass: true}, nil
		}
		return sdk.Bearer(c.Config("value")), nil
	}})
	h.verbose = true
	h.Canary("crm")
	h.API(JSON(http.StatusForbidden, "{}"))
	h.Authenticate(config, GET("https://api.test"))
	const want = "auth type scripted\nthe caller gets the API's answer\n"
	if log := strings.Join(run.Logs(), "\n"); !strings.HasSuffix(log, want) {
		t.Errorf("the log is\n%s\nwant the end %s", log, want)
	}
}

// A module that is missing or stale fails the test, which says how to build it.
func TestStaleModules(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p")
	testworld.Check(t, os.Mkdir(dir, 0o700))
	for name, text := range map[string]string{"go.mod": "module example.test/p\n", "main.go": "package main\n\nfunc main() {}\n"} {
		testworld.Check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	current := testworld.Must(sourceDigest(dir))(t)
	for _, test := range []struct {
		name   string
		module []byte
		fromGo bool
		texts  []string // the texts of the failure; nil if there must be no failure
	}{
		{"missing", nil, true, []string{"is missing", "tools/plugin build " + dir, "make plugins"}},
		{"missing, not of Go", nil, false, []string{"is missing"}},
		{"stale", withDigest(strings.Repeat("0", 64)), true, []string{"is stale", "`keywright plugin build " + dir, "tools/plugin build " + dir, "make plugins"}},
		{"made by other means", withDigest(""), true, []string{"is not known", "tools/plugin build " + dir}},
		{"current", withDigest(current), true, nil},
		{"not of Go", withDigest(""), false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(dir, "p.wasm")
			_ = os.Remove(path)
			if test.module != nil {
				testworld.Check(t, os.WriteFile(path, test.module, 0o600))
			}
			got := complaints(func(tb TB) {
				if module := readModule(tb, path, test.fromGo); string(module) != string(test.module) {
					t.Error("the module is not what the file has")
				}
			})
			if test.texts != nil {
				wantComplaint(t, got, test.texts...)
			} else if len(got) != 0 {
				t.Errorf("complaints: %q", got)
			}
		})
	}
}

// The tool names a module after its directory. A test that uses another name fails with the name to use.
func TestModuleName(t *testing.T) {
	dir := t.TempDir()
	got := complaints(func(tb TB) { readModule(tb, filepath.Join(dir, "acme.wasm"), true) })
	built := filepath.Join(dir, filepath.Base(dir)+".wasm")
	wantComplaint(t, got, "acme.wasm is missing", "tools/plugin build "+dir, "but as "+built+": test that file, or call the directory acme")
}

// withDigest returns an empty module with a recorded digest of sources.
func withDigest(digest string) []byte {
	module := "\x00asm\x01\x00\x00\x00"
	if digest != "" {
		const section = "keywright.sources"
		module += "\x00" + string(rune(1+len(section)+len(digest))) + string(rune(len(section))) + section + digest
	}
	return []byte(module)
}

// A test can send the request of a specification's example: with its scheme, its time and its random text.
func TestExamplesOfSpecifications(t *testing.T) {
	h := nativeHarness(t, scripted(func(c *sdk.Call) (sdk.Mutation, error) {
		return sdk.Mutation{Headers: []sdk.Pair{{Name: "X-Nonce", Value: c.Random(4)}, {Name: "X-Key", Value: c.Config("value")}}}, nil
	}))
	h.AllowHTTP()
	h.Canary("crm")
	h.Random("chapoH")
	h.Advance(time.Unix(137131202, 0).Sub(h.Now()))
	got := h.Authenticate(config, GET("http://photos.example.net/photos"))
	if nonce := got.Header("X-Nonce"); nonce != "chapoH" || h.Now().Unix() != 137131202 {
		t.Errorf("%s at %s", nonce, h.Now())
	}
	h.Random("")
	if nonce := h.Authenticate(config, GET("http://photos.example.net/photos")).Header("X-Nonce"); len(nonce) != 8 {
		t.Errorf("%q is no random text", nonce)
	}
}
