// Package faults tests the gateway while servers that it depends on are slow, broken or down.
package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

const (
	secret = "s3cr3t-of-the-client-0123456789"
	token  = "t0ken-of-the-api-0123456789"
	slack  = 10 * time.Second // for a busy machine
)

// A backend is a server that the gateway depends on, behind a proxy that can fail.
type backend struct {
	t       *testing.T
	proxy   *toxiproxy.Proxy
	url     string // URL of the proxy
	garbage atomic.Bool
	asked   atomic.Int64
}

func newBackend(t *testing.T, handler http.HandlerFunc) *backend {
	t.Helper()
	b := &backend{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.asked.Add(1)
		if !b.garbage.Load() {
			handler(w, r)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.9\r\n"+strings.Repeat("\x00\xff", 500))
			_ = conn.Close()
		}
	}))
	t.Cleanup(server.Close)
	b.proxy = toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "backend", "127.0.0.1:0", server.Listener.Addr().String())
	testworld.Check(t, b.proxy.Start())
	t.Cleanup(b.proxy.Stop)
	b.url = "http://" + b.proxy.Listen
	return b
}

// A fault is one way to fail.
type fault struct {
	name    string
	toxic   string // toxic of toxiproxy for the backend's responses, as JSON
	garbage bool
	down    bool
	late    bool // only a timeout ends the request
}

var faults = []fault{
	{name: "slow", toxic: `{"type":"latency","attributes":{"latency":60000}}`, late: true},
	{name: "silent", toxic: `{"type":"timeout","attributes":{"timeout":0}}`, late: true},
	{name: "trickling", toxic: `{"type":"slicer","attributes":{"average_size":1,"size_variation":0,"delay":200000}}`, late: true},
	{name: "cut before the header", toxic: `{"type":"limit_data","attributes":{"bytes":0}}`},
	{name: "cut in the header", toxic: `{"type":"limit_data","attributes":{"bytes":30}}`},
	{name: "cut in the body", toxic: `{"type":"limit_data","attributes":{"bytes":2000}}`},
	{name: "reset", toxic: `{"type":"reset_peer","attributes":{"timeout":0}}`},
	{name: "garbage", garbage: true},
	{name: "down", down: true},
}

// timeout returns the timeout for definitions and for the store of secrets. If the fault fails without it, it is long enough
// for a busy machine. Toxics take a minute.
func (f fault) timeout() time.Duration {
	if f.late {
		return 2 * time.Second
	}
	return 30 * time.Second
}

// within returns the time limit of a request while the backend fails.
func (f fault) within() time.Duration {
	if f.late {
		return f.timeout() + slack
	}
	return slack
}

// fail makes the backend fail until mend is called.
func (b *backend) fail(f fault) (mend func()) {
	b.t.Helper()
	b.garbage.Store(f.garbage)
	switch {
	case f.down:
		b.proxy.Stop()
	case f.toxic != "":
		toxic := strings.Replace(f.toxic, "{", `{"name":"fault","stream":"downstream",`, 1)
		testworld.Must(b.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)))(b.t)
	}
	return func() {
		b.t.Helper()
		b.garbage.Store(false)
		switch {
		case f.down:
			testworld.Check(b.t, b.proxy.Start())
		case f.toxic != "":
			testworld.Check(b.t, b.proxy.Toxics.RemoveToxic(context.Background(), "fault"))
		}
	}
}

// deployment holds a gateway that runs from a file, with an API and a token endpoint.
type deployment struct {
	t               *testing.T
	api, login      *backend
	callers         string
	unauthenticated atomic.Int64 // requests without a credential that the API received
	log             testworld.Log
}

// body is the API's response. It is long enough to be cut.
var body = strings.Repeat("0123456789", 1000)

// codeCache is the code cache of all gateways.
var codeCache string

func TestMain(m *testing.M) { os.Exit(testworld.InSharedDir(&codeCache, m.Run)) }

// serve runs a gateway from a file. It returns the URL for callers, and a function that ends the gateway.
func serve(t *testing.T, file string, log io.Writer, secrets host.Secrets) (callers string, end func() error) {
	t.Helper()
	config := daemon.Config{
		File: file, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: slog.New(slog.NewJSONHandler(log, nil)),
		Options: connectors.Options{Host: host.Config{Secrets: secrets, CodeCache: codeCache, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}}},
	}
	callers, _, end = testworld.Serve(t, &config.Started, func(ctx context.Context) error { return daemon.Run(ctx, config) })
	return callers, end
}

// newDeployment runs a gateway from a file. In text, API and LOGIN stand for URLs, and TIMEOUT for the timeout of the fault.
func newDeployment(t *testing.T, f fault, text string, secrets host.Secrets) *deployment {
	t.Helper()
	w := &deployment{t: t}
	w.api = newBackend(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token && r.Header.Get("X-Key") != secret {
			w.unauthenticated.Add(1)
		}
		if r.URL.Path != "/v1/long" {
			rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
			_, _ = io.WriteString(rw, body)
			return
		}
		_, _ = io.WriteString(rw, strings.Repeat(body, 20))
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done() // sends nothing more
	})
	w.login = newBackend(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.FormValue("client_secret") != secret {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(rw, `{"access_token":%q,"token_type":"Bearer","expires_in":3600%s}`, token, strings.Repeat(" ", 5000))
	})
	text = strings.NewReplacer("API", w.api.url, "LOGIN", w.login.url, "TIMEOUT", f.timeout().String()).Replace(text)
	t.Cleanup(func() {
		if n := w.unauthenticated.Load(); n > 0 {
			t.Errorf("the API received %d requests that were not authenticated", n)
		}
		if log := w.log.String(); strings.Contains(log, secret) || strings.Contains(log, token) {
			t.Error("the log holds a credential")
		}
	})
	w.callers, _ = serve(t, testworld.File(t, "connectors.yaml", text), &w.log, secrets)
	return w
}

// An answer is a response that a caller received.
type answer struct {
	status      int
	kind, stage string // type and stage of a problem
	body        string
	broken      error // error of reading the body
	took        time.Duration
}

func (w *deployment) get(path string) answer {
	w.t.Helper()
	r := testworld.Must(http.NewRequestWithContext(context.Background(), http.MethodGet, w.callers+path, nil))(w.t)
	began := time.Now()
	transport := &http.Transport{DisableKeepAlives: true}
	response := testworld.Must(transport.RoundTrip(r))(w.t)
	defer response.Body.Close()
	a := answer{status: response.StatusCode}
	content, err := io.ReadAll(response.Body)
	a.body, a.broken, a.took = string(content), err, time.Since(began)
	if response.Header.Get("Content-Type") == "application/problem+json" {
		var p struct{ Type, Stage string }
		testworld.Check(w.t, json.Unmarshal(content, &p))
		a.kind, a.stage = p.Type[strings.LastIndex(p.Type, ":")+1:], p.Stage
	}
	if strings.Contains(a.body, secret) || strings.Contains(a.body, token) {
		w.t.Error("the caller got a credential")
	}
	return a
}

// wantProblem sends a request, and checks that it gets a problem in time.
func (w *deployment) wantProblem(f fault, path, kind, stage string) {
	w.t.Helper()
	a := w.get(path)
	if a.status != http.StatusBadGateway || a.kind != kind || a.stage != stage || a.broken != nil {
		w.t.Errorf("the caller got %d %s at %q, want 502 %s at %q (%v)", a.status, a.kind, a.stage, kind, stage, a.broken)
	}
	if a.took > f.within() {
		w.t.Errorf("it took %v", a.took)
	}
}

func (w *deployment) wantBody(path string) {
	w.t.Helper()
	if a := w.get(path); a.status != http.StatusOK || a.body != body || a.broken != nil {
		w.t.Errorf("the caller got %d %s at %q with %d bytes (%v), want all of the answer", a.status, a.kind, a.stage, len(a.body), a.broken)
	}
}
