package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// memories holds what guests had in their memory at the end of their runs.
type memories struct {
	mu  sync.Mutex
	all []string
}

// observe returns a context for a host whose guests' memory is kept, and whose random numbers for guests are known.
func (m *memories) observe() context.Context {
	return testhook.With(context.Background(), testhook.Hooks{
		Memory: func(memory, blocks []byte) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.all = append(m.all, testworld.Wide([]byte(strings.TrimRight(string(memory), "\x00"))), testworld.Wide(blocks))
		},
		Random: func(int64) string { return strings.Repeat("5a", 16) },
	})
}

// canaryWorld is a world with one auth type, whose guests' memory is searched.
type canaryWorld struct {
	*world
	t         *testing.T
	authType  string
	connector *host.Connector
	// searched counts the requests whose parts are hidden.
	searched [2]int
}

// step sends a request. Then it hides what was sent, except what the explanation of the same request shows.
func (w *canaryWorld) step(guarded bool) error {
	w.t.Helper()
	transport := w.connector.Transport(nil)
	if guarded {
		transport = w.connector.GuardedTransport(nil)
	}
	trace := &host.Trace{}
	response, err := transport.RoundTrip(get(host.WithTrace(context.Background(), trace)))
	w.OutError("the request's error", err)
	w.Out("the trace", traced(trace))
	if err == nil {
		body, err := io.ReadAll(response.Body)
		w.OutError("the answer's error", err)
		if guarded {
			w.Out("a guarded answer", fmt.Sprint(response.Status, response.Header, string(body)))
		}
		_ = response.Body.Close()
	}
	if e, _ := w.explain(w.connector, get(context.Background())); e != nil {
		text := explained(e)
		w.Out("the text of the explanation", text)
		for i, server := range []*testworld.Server{w.login, w.api} {
			received := server.Received()
			for _, r := range received[w.searched[i]:] {
				w.HideSent(r, e.URL+text)
			}
			w.searched[i] = len(received)
		}
	}
	return err
}

// threats.md 15, 18, 230: whatever becomes of a request, no credential is in the memory of the guest, in the log, in an error, in an
// explanation, in a trace, in a span or in what Observe gets, for any auth type.
func TestNoCanaryComesOut(t *testing.T) {
	configs := testworld.AuthTypes(tokenURL)
	for _, plugin := range allBuiltIns(t) {
		t.Run(plugin.Name, func(t *testing.T) {
			var seen memories
			store := &failingStore{}
			made := &spans{}
			world := newWorldIn(seen.observe(), t, withState(t, store), withTracer(made), func(c *host.Config) { c.BuiltIns = []host.Plugin{plugin} })
			authType := world.host.Plugins()[0].Type
			world.keys()
			world.canary("s")
			world.canary("seed")
			w := &canaryWorld{world: world, t: t, authType: authType, connector: world.connect(authType, configs[authType])}
			w.login.Answer(w.Issued(w.Now))
			if w.connector.NeedsConsent() {
				request := begin(t, w.connector, host.User{})
				w.Hide("the state of the consent", request.Get("state"))
				check(t, finish(t, world, w.connector, host.User{}, back(request, w.Secret("the code"))))
				w.Hide("the code verifier", w.login.Last().Form().Get("code_verifier"))
				w.searched[0] = w.login.Count() // the redirect URI of that request is no secret
			}
			w.run()
			for _, attempt := range w.calls {
				w.Out("what Observe gets", fmt.Sprintf("%+v", attempt))
			}
			w.Out("the spans", made.whole())
			if n := len(made.all); n < 16 { // eight requests, each with an attempt
				t.Errorf("there are %d spans", n)
			}
			for _, text := range store.held {
				w.Out("the store of state", text)
			}
			sealed := false
			for _, memory := range seen.all {
				w.Out("the guest's memory", memory)
				sealed = sealed || strings.Contains(memory, contract.SealedPrefix)
			}
			if !sealed && authType != "none" {
				t.Error("the memory that is searched is not that of the guest: there is no sealed value in it")
			}
		})
	}
}

// run takes a connector through all that can become of a request.
func (w *canaryWorld) run() {
	once := false
	challenge, ok := w.Challenged(), status(http.StatusOK)
	for _, c := range []struct {
		name           string
		api            answer
		guarded, fails bool
	}{
		{"success", ok, false, false},
		{"success with what is cached", ok, false, false},
		{"a challenge", func(r *http.Request) (*http.Response, error) {
			if once = !once; once {
				return challenge(r)
			}
			return ok(r)
		}, false, false},
		{"challenges without end", challenge, false, false},
		{"an echo", testworld.Refused, true, false},
		{"an API that cannot be reached", func(*http.Request) (*http.Response, error) { return nil, errors.New("no network") }, false, true},
	} {
		w.api.Answer(c.api)
		if err := w.step(c.guarded); (err != nil) != c.fails {
			w.t.Errorf("%s: err = %v", c.name, err)
		}
	}
	w.api.Answer(ok)
	w.login.Answer(testworld.Refused)
	w.Advance(2 * time.Hour)
	asks := w.login.Count() > 0
	if err := w.step(false); (err != nil) != asks {
		w.t.Errorf("the endpoint refuses: %v", err)
	}
	for _, name := range []string{"s", "rsa", "ed", "jws"} {
		w.setSecret(name, "")
	}
	if err := w.step(false); (err != nil) != (w.authType != "none") {
		w.t.Errorf("the secret is missing: %v", err)
	}
}
