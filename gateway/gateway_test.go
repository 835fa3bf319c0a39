package gateway_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/gateway"
	"github.com/keywright/keywright/host"
)

const secret = "s3cr3t-of-the-api-0123456789"

// world is a gateway with one connector, before an API that writes down what it gets.
type world struct {
	t       *testing.T
	host    *host.Host
	gateway *gateway.Gateway
	server  *httptest.Server // the gateway
	api     *httptest.Server
	secrets host.MapSecrets
	failing atomic.Pointer[error] // of the secrets

	mu     sync.Mutex
	got    []*http.Request // what the API received
	bodies []string
	answer http.HandlerFunc
	log    bytes.Buffer
}

type change func(*options, *gateway.Definition)

type options struct {
	gateway.Config
	gateway.Setup
}

func newWorld(t *testing.T, changes ...change) *world {
	t.Helper()
	w := &world{t: t, secrets: host.MapSecrets{"key": secret}, answer: func(http.ResponseWriter, *http.Request) {}}
	w.api = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.got, w.bodies = append(w.got, r.Clone(context.Background())), append(w.bodies, string(body))
		answer := w.answer
		w.mu.Unlock()
		answer(rw, r)
	}))
	t.Cleanup(w.api.Close)
	h, err := host.New(t.Context(), host.Config{
		Secrets: w, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}, Variables: map[string]string{"region": "eu"},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.host = h
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	o := &options{Config: gateway.Config{Logger: slog.New(slog.NewJSONHandler(&w.log, nil))}}
	d := gateway.Definition{
		Name: "Weather", Permalink: "weather", URL: w.api.URL + "/v1",
		Auth: host.Auth{Type: "api_key", Config: map[string]any{"key": "X-API-Key", "value": "{{ get_secret('key') }}", "in": "header"}},
	}
	for _, c := range changes {
		c(o, &d)
	}
	w.gateway = gateway.New(o.Config)
	o.Connectors = []*gateway.Connector{w.connector(d)}
	w.gateway.Use(o.Setup)
	t.Cleanup(func() { // once no handler writes to it any more
		if strings.Contains(w.log.String(), secret) {
			t.Error("the log holds the credential")
		}
	})
	w.server = httptest.NewServer(w.gateway.Handler())
	t.Cleanup(w.server.Close)
	return w
}

// Secret implements [host.Secrets].
func (w *world) Secret(ctx context.Context, name string) (string, error) {
	if err := w.failing.Load(); err != nil {
		return "", *err
	}
	return w.secrets.Secret(ctx, name)
}

func (w *world) connector(d gateway.Definition) *gateway.Connector {
	w.t.Helper()
	connected, err := w.host.Connect(w.t.Context(), host.Connector{Name: d.Permalink, Origins: []string{w.api.URL}, Auth: d.Auth})
	if err != nil {
		w.t.Fatal(err)
	}
	c, problems := gateway.Compile(w.host, connected, d)
	if len(problems) > 0 {
		w.t.Fatal(problems)
	}
	return c
}

// answer is what a caller got.
type answer struct {
	status int
	header http.Header
	body   string
	kind   string // of a problem
}

func (w *world) do(r *http.Request) answer {
	w.t.Helper()
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	a := answer{status: response.StatusCode, header: response.Header, body: string(body)}
	if response.Header.Get("Content-Type") == "application/problem+json" {
		var p struct{ Type string }
		if err := json.Unmarshal(body, &p); err != nil {
			w.t.Error(err)
		}
		a.kind = p.Type[strings.LastIndex(p.Type, ":")+1:]
	}
	return a
}

// request makes one; headers are names and values by turns.
func (w *world) request(method, path, body string, headers ...string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	return r
}

func (w *world) get(path string, headers ...string) answer {
	w.t.Helper()
	return w.do(w.request(http.MethodGet, path, "", headers...))
}

// last is the only request that the API received.
func (w *world) last() *http.Request {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.got) != 1 {
		w.t.Fatalf("the API received %d requests, want 1", len(w.got))
	}
	return w.got[0]
}

func (w *world) received() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.got)
}

func TestRequestIsAuthenticatedOnTheServer(t *testing.T) {
	w := newWorld(t)
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("X-Account", "internal")
		_, _ = io.WriteString(rw, `{"sun":true}`)
	}
	got := w.get("/connectors/weather")
	if got.status != http.StatusOK || got.body != `{"sun":true}` || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("the caller got %+v", got)
	}
	sent := w.last()
	if sent.Header.Get("X-Api-Key") != secret || sent.URL.String() != "/v1" || sent.Header.Get("Accept-Encoding") != "identity" {
		t.Errorf("the API received %s with %v", sent.URL, sent.Header)
	}
	for name, values := range got.header {
		if strings.Contains(strings.Join(values, ""), secret) || name == "X-Account" {
			t.Errorf("the caller got %s: %v", name, values)
		}
	}
	if id := got.header.Get("X-Request-Id"); len(id) != 32 {
		t.Errorf("the request has the id %q", id)
	}
	if timing := got.header.Get("Server-Timing"); !strings.Contains(timing, "auth;dur=") || !strings.Contains(timing, "upstream;dur=") {
		t.Errorf("Server-Timing is %q", timing)
	}
}

// threats.md 43, 40: nothing of what a caller sends gets to the API but what the definition names.
func TestWhatCallersSendIsDropped(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Headers = []gateway.Parameter{{Name: "X-Lang", Value: "en", Overridable: true}, {Name: "X-Region", Value: "{{ get_variable('region') }}"}}
		d.Query = []gateway.Parameter{{Name: "units", Value: "metric", Overridable: true}, {Name: "v", Value: "2"}}
	})
	got := w.get("/connectors/weather?units=us&units2=x&v=9&key=mine",
		"Authorization", "Bearer mine", "Cookie", "a=b", "Proxy-Authorization", "x", "X-Forwarded-For", "1.2.3.4", "X-Forwarded-Email", "a@b.c",
		"X-Api-Key", "mine", "X-Lang", "de", "X-Region", "us", "Connection", "x-api-key, authorization", "Accept", "text/plain", "Forwarded", "for=1.2.3.4")
	if got.status != http.StatusOK {
		t.Fatalf("the caller got %+v", got)
	}
	sent := w.last()
	want := map[string]string{"X-Api-Key": secret, "X-Lang": "de", "X-Region": "eu", "Accept": "text/plain", "Accept-Encoding": "identity"}
	for name, values := range sent.Header {
		if want[name] != strings.Join(values, "|") {
			t.Errorf("the API received %s: %q", name, values)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("the API did not receive %v", want)
	}
	if sent.URL.RawQuery != "units=us&v=2" {
		t.Errorf("the API received the query %s", sent.URL.RawQuery)
	}
}

func TestRefusals(t *testing.T) {
	everything := func(_ *options, d *gateway.Definition) {
		d.Paths, d.Methods = []string{"/users/*", "/open/**"}, []string{"GET", "POST"}
		d.Limits.RequestBytes = 10
		d.Headers = []gateway.Parameter{{Name: "X-Once", Value: "", Overridable: true}}
	}
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		kind               string
	}{
		"no connector":              {"GET", "/connectors/none", "", nil, 404, "unknown-connector"}, // threats.md 48
		"no path":                   {"GET", "/", "", nil, 404, "unknown-connector"},
		"method":                    {"DELETE", "/connectors/weather", "", nil, 405, "method-not-allowed"},
		"TRACE":                     {"TRACE", "/connectors/weather", "", nil, 405, "method-not-allowed"}, // threats.md 41
		"upgrade":                   {"GET", "/connectors/weather", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 400, "upgrade-refused"},
		"h2c":                       {"GET", "/connectors/weather", "", []string{"Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "Http2-Settings", "x"}, 400, "upgrade-refused"},
		"path without a pattern":    {"GET", "/connectors/weather/admin", "", nil, 404, "unknown-path"},
		"path that is longer":       {"GET", "/connectors/weather/users/1/keys", "", nil, 404, "unknown-path"},
		"path with a slash escaped": {"GET", "/connectors/weather/users/1%2Fkeys", "", nil, 404, "unknown-path"},
		"slash escaped twice, a %":  {"GET", "/connectors/weather/users/1%252Fkeys%25", "", nil, 404, "unknown-path"},
		"path that goes up":         {"GET", "/connectors/weather/open/..%2f..%2fadmin", "", nil, 400, "bad-request"}, // threats.md 27
		"path that goes up twice":   {"GET", "/connectors/weather/open/%252e%252e/admin", "", nil, 400, "bad-request"},
		"header twice":              {"GET", "/connectors/weather", "", []string{"X-Once", "a", "X-Once", "b"}, 400, "bad-request"},
		"large body":                {"POST", "/connectors/weather", "eleven bytes", nil, 413, "body-too-large"},                         // threats.md 49
		"other page":                {"GET", "/connectors/weather", "", []string{"Origin", "https://evil.example"}, 403, "cross-origin"}, // threats.md 46
		"page of no origin":         {"POST", "/connectors/weather", "", []string{"Origin", "null"}, 403, "cross-origin"},
		"other page, no Origin":     {"GET", "/connectors/weather", "", []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross-origin"},
		"preflight of another page": {"OPTIONS", "/connectors/weather", "", []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "GET"}, 403, "cross-origin"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, everything)
			got := w.do(w.request(c.method, c.path, c.body, c.headers...))
			if got.status != c.status || got.kind != c.kind || got.header.Get("Cache-Control") != "no-store" || strings.Contains(got.body, secret) {
				t.Errorf("the caller got %d %s %s", got.status, got.kind, got.body)
			}
			if w.received() != 0 && c.status != 413 {
				t.Error("the API received a request")
			}
		})
	}
}

// A name counts with any port, unless it is given with one.
func TestHosts(t *testing.T) {
	w := newWorld(t, func(c *options, _ *gateway.Definition) {
		c.Hosts = []string{"gw.example.com", "Other.example.com:8080", "[::1]", "[::2]:80"}
	})
	for host, want := range map[string]int{
		"gw.example.com": 200, "GW.example.com": 200, "gw.example.com:9000": 200, "gw.example.com.": 421, "gw.example.com.evil.example": 421,
		"other.example.com:8080": 200, "other.example.com": 421, "other.example.com:80": 421,
		"[::1]": 200, "[::1]:9000": 200, "[::2]:80": 200, "[::2]": 421, "[::2]:90": 421, "127.0.0.1": 421, "localhost": 421,
	} {
		r := w.request("GET", "/connectors/weather", "")
		if r.Host = host; w.do(r).status != want {
			t.Errorf("%s: not %d", host, want)
		}
	}
}

func TestPathsThatAreAllowed(t *testing.T) {
	for path, want := range map[string]string{
		"/users/7":       "/v1/users/7",
		"/users/a%20b":   "/v1/users/a%20b",
		"/open/a/b%2Fc/": "/v1/open/a/b%2Fc/",
		"":               "/v1",
		"/":              "/v1",
	} {
		w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Paths = []string{"/users/*", "/open/**"} })
		if got := w.get("/connectors/weather" + path); got.status != http.StatusOK || w.last().URL.RequestURI() != want {
			t.Errorf("%s: %d, and the API received %s", path, got.status, w.last().URL.RequestURI())
		}
	}
}

// threats.md 48: a request that cannot be authenticated is not sent, and its caller learns nothing of why.
func TestFailureToAuthenticate(t *testing.T) {
	w := newWorld(t)
	delete(w.secrets, "key")
	got := w.get("/connectors/weather")
	if got.status != http.StatusBadGateway || got.kind != "authentication-failed" || w.received() != 0 {
		t.Errorf("the caller got %+v, and the API received %d requests", got, w.received())
	}
	var p map[string]any
	if err := json.Unmarshal([]byte(got.body), &p); err != nil || p["stage"] != "template" || p["connector"] != "weather" || p["request_id"] != got.header.Get("X-Request-Id") {
		t.Errorf("the problem is %s", got.body)
	}
	if strings.Contains(got.body, "secret") || !strings.Contains(w.log.String(), "the secret is not found") {
		t.Errorf("the caller learns %s, the log %s", got.body, &w.log)
	}
}

// Expressions know of the caller's request, also those over the answer: the one that was sent has secrets in its query.
func TestExpressionsKnowTheCallersRequest(t *testing.T) {
	const known = "request.method + ' ' + request.path + ' ' + (request.query.page ?? '-') + ' ' + (request.query.token ?? '-') + ' ' + (request.query.key ?? '-')"
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Paths = []string{"/today"}
		d.Auth.Config["in"], d.Auth.Config["key"] = "query", "key"
		d.Query = []gateway.Parameter{{Name: "token", Value: "{{ get_secret('key') }}"}, {Name: "page", Value: "1", Overridable: true}}
		d.Request, d.Response.Body = "{{ "+known+" }}", known
	})
	const want = "GET /connectors/weather/today 7 - -"
	if got := w.get("/connectors/weather/today?page=7"); got.body != want || w.bodies[0] != want {
		t.Errorf("of the answer: %s, of the request: %s, want %s", got.body, w.bodies[0], want)
	}
	if sent := w.got[0].URL.Query(); sent.Get("token") != secret || sent.Get("key") != secret {
		t.Errorf("the API was asked with %v", sent)
	}
}

// threats.md 47: what is one user's is in no cache that others share.
func TestAnswersArePrivate(t *testing.T) {
	w := newWorld(t)
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Cache-Control", "public, max-age=60, s-maxage=600")
		rw.Header().Set("Set-Cookie", "session=of-the-api")
	}
	got := w.get("/connectors/weather")
	if cache := got.header.Get("Cache-Control"); cache != "private, max-age=60" {
		t.Errorf("Cache-Control is %q", cache)
	}
	if vary := strings.Join(got.header["Vary"], ", "); !strings.Contains(vary, "Authorization, Cookie") || got.header.Get("Set-Cookie") != "" {
		t.Errorf("Vary is %q, Set-Cookie %q", vary, got.header.Get("Set-Cookie"))
	}
}

func TestPagesOfConfiguredOrigins(t *testing.T) {
	const page = "https://app.example.com"
	w := newWorld(t, func(c *options, d *gateway.Definition) {
		c.Origins = []string{page}
		d.Methods = []string{"POST"}
	})
	pre := w.do(w.request("OPTIONS", "/connectors/weather", "", "Origin", page, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type"))
	if pre.status != http.StatusNoContent || pre.header.Get("Access-Control-Allow-Origin") != page || pre.header.Get("Access-Control-Allow-Headers") != "content-type" {
		t.Errorf("the preflight got %+v", pre)
	}
	got := w.do(w.request("POST", "/connectors/weather", "x", "Origin", page))
	if got.status != http.StatusOK || got.header.Get("Access-Control-Allow-Origin") != page || got.header.Get("Access-Control-Allow-Credentials") != "true" {
		t.Errorf("the page got %+v", got)
	}
	if own := w.do(w.request("POST", "/connectors/weather", "x", "Origin", w.server.URL)); own.status != http.StatusOK || own.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a page of the gateway itself got %+v", own)
	}
}

func TestUpstreamThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Timeout = time.Millisecond })
	release := make(chan struct{})
	w.answer = func(http.ResponseWriter, *http.Request) { <-release }
	got := w.get("/connectors/weather")
	close(release)
	if got.status != http.StatusBadGateway || got.kind != "upstream-timeout" {
		t.Errorf("the caller got %+v", got)
	}
	w.api.CloseClientConnections()
	w.api.Close()
	if got := w.get("/connectors/weather"); got.status != http.StatusBadGateway || got.kind != "upstream-failed" && got.kind != "upstream-timeout" {
		t.Errorf("without the API: %+v", got)
	}
}

// A token endpoint, or a store of secrets, that does not answer is not the API: nothing has been sent to that.
func TestTimeIsOverBeforeTheAPIIsAsked(t *testing.T) {
	late := fmt.Errorf("the store did not answer: %w", context.DeadlineExceeded)
	for name, change := range map[string]change{
		"auth": func(*options, *gateway.Definition) {},
		"header": func(_ *options, d *gateway.Definition) {
			d.Headers = []gateway.Parameter{{Name: "X-Key", Value: "{{ get_secret('key') }}"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change)
			w.failing.Store(&late)
			got := w.get("/connectors/weather")
			if got.status != http.StatusBadGateway || got.kind != "authentication-failed" || !strings.Contains(got.body, `"stage":"template"`) || w.received() > 0 {
				t.Errorf("the caller got %+v", got)
			}
		})
	}
}

// What streams is passed on as it comes.
func TestStreaming(t *testing.T) {
	w := newWorld(t)
	next := make(chan struct{})
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		for _, part := range []string{"one", "two"} {
			_, _ = io.WriteString(rw, part)
			rw.(http.Flusher).Flush()
			<-next
		}
	}
	response, err := http.DefaultTransport.RoundTrip(w.request("GET", "/connectors/weather", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for _, part := range []string{"one", "two"} {
		got := make([]byte, 3)
		if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != part {
			t.Fatalf("got %q: %v", got, err)
		}
		next <- struct{}{}
	}
}

type users func(*http.Request) (host.User, error)

func (u users) User(r *http.Request) (host.User, error) { return u(r) }

func TestUsers(t *testing.T) {
	byName := users(func(r *http.Request) (host.User, error) {
		switch name := r.Header.Get("Authorization"); name {
		case "":
			return host.User{}, gateway.ErrUnauthenticated
		case "down":
			return host.User{}, errors.Join(gateway.ErrUnavailable, errors.New("of a cause"))
		default:
			return host.User{ID: name, Email: name + "@example.com"}, nil
		}
	})
	w := newWorld(t, func(c *options, d *gateway.Definition) {
		c.Users, c.Clock = byName, func() time.Time { return time.Unix(1e9, 0) }
		d.Headers = []gateway.Parameter{{Name: "X-User", Value: "{{ user.email }}"}}
		d.Limits.PerUser = 2
	})
	if got := w.get("/connectors/weather"); got.status != http.StatusUnauthorized || got.kind != "unauthenticated" {
		t.Errorf("without a session: %+v", got)
	}
	if got := w.get("/connectors/weather", "Authorization", "down"); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("while sessions cannot be verified: %+v", got)
	}
	if got := w.get("/connectors/weather", "Authorization", "ann", "X-User", "bob@example.com"); got.status != http.StatusOK || w.last().Header.Get("X-User") != "ann@example.com" {
		t.Errorf("%+v, as %s", got, w.last().Header.Get("X-User"))
	}
	for i, want := range []int{200, 429, 429} {
		if got := w.get("/connectors/weather", "Authorization", "ann"); got.status != want {
			t.Errorf("request %d of a user in a second: %d", i+2, got.status)
		}
	}
	if got := w.get("/connectors/weather", "Authorization", "bob"); got.status != http.StatusOK {
		t.Errorf("another user: %d", got.status)
	}
}

func TestDefinitionsThatAreWrong(t *testing.T) {
	w := newWorld(t)
	connected, err := w.host.Connect(t.Context(), host.Connector{Name: "x", Origins: []string{w.api.URL}, Auth: host.Auth{Type: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	_, problems := gateway.Compile(w.host, connected, gateway.Definition{
		URL: "https://a.test/{{ get_secret('s') }}", Methods: []string{"get", "TRACE", "GET", "GET"}, Paths: []string{"users", "/a*", "/**/b", "/../x"},
		Headers: []gateway.Parameter{{Name: "Host", Value: "x"}, {Name: "X-A", Value: "{{ nope }}"}, {Name: "x-a", Value: "1"}, {Name: "X-Key", Value: "{{ get_secret('s') }}", Overridable: true}},
		Query:   []gateway.Parameter{{Value: "x"}}, Timeout: -1, Limits: gateway.Limits{Total: -1}, Response: gateway.Response{ContentType: "text"},
	})
	got := map[string]bool{}
	for _, p := range problems {
		got[p.Path] = true
	}
	for _, path := range []string{
		"url", "method[0]", "method[1]", "method[3]", "paths[0]", "paths[1]", "paths[2]", "paths[3]",
		"headers[0].name", "headers[1].value", "headers[2].name", "headers[3].overridable", "query[0].name", "timeout", "limits.total", "response.content_type",
	} {
		if !got[path] {
			t.Errorf("%s is not complained of", path)
		}
		delete(got, path)
	}
	if len(got) > 0 {
		t.Errorf("complained of are also %v", got)
	}
}

func TestBodiesAreShaped(t *testing.T) {
	w := newWorld(t, func(c *options, d *gateway.Definition) {
		c.Users = users(func(*http.Request) (host.User, error) { return host.User{Email: "ann@example.com"}, nil })
		d.Methods = []string{"POST"}
		d.Request = `{"who":{{ json_encode(user.email) }},"q":{{ json_encode(from_json(body_text).query) }}}`
		d.Response = gateway.Response{
			Filter: "record.owner == user.email", Body: "{count: len(response.body), first: response.body[0].id}",
		}
	})
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json; charset=utf-8")
		rw.Header().Set("Etag", `"of all"`)
		_, _ = io.WriteString(rw, `[{"id":1,"owner":"bob@example.com"},{"id":2,"owner":"ann@example.com"}]`)
	}
	got := w.do(w.request("POST", "/connectors/weather", `{"query":"a\"b"}`, "Content-Type", "application/json"))
	if got.status != http.StatusOK || got.body != `{"count":1,"first":2}` || got.header.Get("Content-Type") != "application/json" || got.header.Get("Etag") != "" {
		t.Errorf("the caller got %+v", got)
	}
	if w.bodies[0] != `{"who":"ann@example.com","q":"a\"b"}` || w.last().ContentLength != int64(len(w.bodies[0])) {
		t.Errorf("the API received %s", w.bodies[0])
	}
	if bad := w.do(w.request("POST", "/connectors/weather", `no JSON`)); bad.status != http.StatusBadRequest || bad.kind != "request-not-shaped" {
		t.Errorf("a body that cannot be shaped: %+v", bad)
	}
}

// What a filter was to look at does not pass unlooked at.
func TestFilterLetsNothingPass(t *testing.T) {
	for name, c := range map[string]struct {
		status      int
		kind, body  string
		wantStatus  int
		wantProblem string
		wantBody    string
	}{
		"records":             {200, "application/json", `[{"mine":true},{"mine":false}]`, 200, "", `[{"mine":true}]`},
		"no records":          {200, "application/json", `{"error":"secret things"}`, 502, "answer-not-shaped", ""},
		"no JSON":             {200, "text/plain", `secret things`, 502, "answer-not-shaped", ""},
		"records without it":  {200, "application/json", `[{"mine":true},{"other":1}]`, 502, "answer-not-shaped", ""},
		"a failure":           {403, "application/json", `[{"secret":"things"}]`, 403, "", ""},
		"nothing":             {204, "", ``, 204, "", ""},
		"more than is looked": {200, "application/json", `[` + strings.Repeat(`{"mine":true},`, 100) + `{"mine":true}]`, 502, "answer-not-shaped", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(_ *options, d *gateway.Definition) {
				d.Response.Filter, d.Limits.ResponseBytes = "record.mine", 1000
			})
			w.answer = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", c.kind)
				rw.WriteHeader(c.status)
				_, _ = io.WriteString(rw, c.body)
			}
			got := w.get("/connectors/weather")
			if got.status != c.wantStatus || got.kind != c.wantProblem || c.wantProblem == "" && got.body != c.wantBody || strings.Contains(got.body, "things") {
				t.Errorf("the caller got %d %s %s", got.status, got.kind, got.body)
			}
		})
	}
}

func TestExpressionsThatAreWrong(t *testing.T) {
	w := newWorld(t)
	connected, err := w.host.Connect(t.Context(), host.Connector{Name: "x", Origins: []string{w.api.URL}, Auth: host.Auth{Type: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	_, problems := gateway.Compile(w.host, connected, gateway.Definition{URL: w.api.URL, Request: "{{ get_secret('s') }}", Response: gateway.Response{Filter: "record.(", Body: "nope"}})
	var paths []string
	for _, p := range problems {
		paths = append(paths, p.Path)
	}
	if strings.Join(paths, " ") != "request response.filter response.body" {
		t.Errorf("the problems are %+v", problems)
	}
}

// Who began before other connectors came into use finishes on what was there then, and its host is not closed before.
func TestUseWaitsForRequestsInFlight(t *testing.T) {
	w := newWorld(t)
	there, release := make(chan struct{}), make(chan struct{})
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		close(there)
		<-release
		_, _ = io.WriteString(rw, "late")
	}
	got := make(chan answer)
	go func() { got <- w.get("/connectors/weather") }()
	<-there
	wait := w.gateway.Use(gateway.Setup{})
	if after := w.get("/connectors/weather"); after.status != http.StatusNotFound {
		t.Errorf("a request after it: %d", after.status)
	}
	over := make(chan struct{})
	go func() { wait(); close(over) }()
	select {
	case <-over:
		t.Error("nobody waited for the request in flight")
	default:
	}
	close(release)
	if early := <-got; early.body != "late" {
		t.Errorf("the request in flight got %+v", early)
	}
	<-over
}

// threats.md 45: an API that sends the credential back does not give it to the caller.
func TestEcho(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte("user:" + secret))
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   string // "" when the answer is cut off
	}{
		"short":        {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "you sent "+secret) }, "credential-echoed"},
		"Base64":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, encoded) }, "credential-echoed"},
		"other header": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "X-Second: "+secret+"-second") }, "credential-echoed"},
		"encoded": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "\x1f\x8b...")
		}, "answer-refused"},
		"redirect": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://elsewhere.example/?key="+secret)
			w.WriteHeader(http.StatusFound)
		}, "credential-echoed"},
		"in a stream": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "begins, "+secret[:9])
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, secret[9:])
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(_ *options, d *gateway.Definition) {
				d.Headers = []gateway.Parameter{{Name: "X-Second", Value: "{{ get_secret('second') }}"}}
			})
			w.secrets["second"] = secret + "-second"
			w.answer = c.answer
			response, err := http.DefaultTransport.RoundTrip(w.request("GET", "/connectors/weather", ""))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if strings.Contains(string(body), secret[:9]) || strings.Contains(response.Header.Get("Location"), secret) {
				t.Errorf("the caller got %s", body)
			}
			if c.kind == "" && err == nil || c.kind != "" && (response.StatusCode != http.StatusBadGateway || !strings.Contains(string(body), ":"+c.kind+`"`)) {
				t.Errorf("the caller got %d %s (%v)", response.StatusCode, body, err)
			}
		})
	}
}
