package hosttest

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/testhook"
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
