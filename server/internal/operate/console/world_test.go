package console_test

import (
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/console"
)

// codeCache is the code cache of all worlds.
var codeCache string

func TestMain(m *testing.M) { os.Exit(testworld.InSharedDir(&codeCache, m.Run)) }

// now is the time at which a world begins.
var now = time.Date(2026, 5, 4, 10, 20, 30, 0, time.UTC)

// world has a gateway with the connectors of a file, and its console. Every page is searched for the secrets.
type world struct {
	*testworld.Canaries
	t       *testing.T
	clock   *testworld.Clock
	log     testworld.Log
	secrets host.MapSecrets
	// servers answers requests of the gateway to APIs and token endpoints.
	servers  *testworld.Server
	gateway  *gateway.Gateway
	recorder *console.Recorder
	state    console.State
	console  http.Handler
}

// newWorld returns a world with the connectors of a file.
func newWorld(t *testing.T, file string) *world {
	t.Helper()
	w := &world{Canaries: testworld.NewCanaries(t), t: t, clock: testworld.NewClock(now), secrets: host.MapSecrets{}, servers: testworld.NewServer(testworld.Respond(http.StatusOK, "fine"))}
	w.secrets["key"] = w.Secret("key")
	w.recorder = console.NewRecorder(w.clock.Now)
	w.gateway = gateway.New(gateway.Config{Logger: w.log.Logger(), Clock: w.clock.Now, Base: w.servers, Observe: func(e gateway.Event) { w.recorder.Request(&e) }})
	set := testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte(file), connectors.Options{WithoutStore: true, Host: host.Config{
		Secrets: w.secrets, Clock: w.clock.Now, Logger: w.log.Logger(), Base: w.servers, CodeCache: codeCache,
		Observe: func(ctx context.Context, attempt host.Attempt) {
			w.recorder.Attempted(&attempt)
			gateway.Observe(ctx, attempt)
		},
	}}))(t)
	t.Cleanup(func() {
		_ = set.Close(context.Background()) // its calls have ended
		w.Out("log", w.log.String())
	})
	w.gateway.Use(gateway.Setup{Connectors: set.Connectors})
	w.state = console.State{File: "connectors.yaml", Set: set, Used: now}
	mux := http.NewServeMux()
	for pattern, handler := range console.New(console.Config{
		Version: "v1.2.3", Started: now, Clock: w.clock.Now, Logger: w.log.Logger(), Gateway: w.gateway, Recorder: w.recorder,
		State: func() console.State { return w.state },
		Fuel: func(authType string) console.Fuel {
			if authType != "api_key" {
				return console.Fuel{}
			}
			return console.Fuel{Runs: 3, Median: 10_000, Worst: 31_337}
		},
	}).Routes() {
		mux.Handle(pattern, handler)
	}
	w.console = mux
	return w
}

// answer is an answer of the console.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request to the console.
func (w *world) ask(r *http.Request) answer {
	w.t.Helper()
	recorder := httptest.NewRecorder()
	w.console.ServeHTTP(recorder, r)
	w.Out(r.Method+" "+r.URL.Path, recorder.Body.String())
	return answer{recorder.Code, recorder.Header(), recorder.Body.String()}
}

// get returns a page.
func (w *world) get(path string) answer {
	w.t.Helper()
	return w.ask(httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody))
}

// plain returns the text of a page without tags, and with single blanks.
func plain(page string) string {
	_, page, _ = strings.Cut(page, "<main")
	return strings.Join(strings.Fields(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " "))), " ")
}
