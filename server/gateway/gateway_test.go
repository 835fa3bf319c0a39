package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// specification.md 1.2, 5.1 and 5.5: the gateway adds the credential, and the caller never sees it.
func TestServerAuthentication(t *testing.T) {
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

// specification.md "what callers send", threats.md 43, 40: only the parts of a caller's request that the definition names reach
// the API.
func TestDroppedCallerHeaders(t *testing.T) {
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
	want := map[string]string{"X-Api-Key": secret, "X-Lang": "de", "X-Region": "eu", "Accept": "text/plain", "Accept-Encoding": "identity", "User-Agent": agent}
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
	w.get("/connectors/weather?late=1") // the log has the parameters of the first request only
	if log := w.log.String(); strings.Count(log, "not passed on") != 1 || !strings.Contains(log, `"names":["key","units2","v"]`) || strings.Contains(log, "mine") {
		t.Errorf("the log is %s", log)
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
		"no connector":               {"GET", "/connectors/none", "", nil, 404, "unknown-connector"}, // threats.md 48
		"no path":                    {"GET", "/", "", nil, 404, "unknown-connector"},
		"method":                     {"DELETE", "/connectors/weather", "", nil, 405, "method-not-allowed"},
		"TRACE":                      {"TRACE", "/connectors/weather", "", nil, 405, "method-not-allowed"}, // threats.md 41
		"upgrade":                    {"GET", "/connectors/weather", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 400, "upgrade-refused"},
		"h2c":                        {"GET", "/connectors/weather", "", []string{"Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "Http2-Settings", "x"}, 400, "upgrade-refused"},
		"connection to upgrade":      {"GET", "/connectors/weather", "", []string{"Connection", "keep-alive, UPGRADE"}, 400, "upgrade-refused"},
		"upgrade without connection": {"GET", "/connectors/weather", "", []string{"Upgrade", "h2c"}, 400, "upgrade-refused"},
		"path without a pattern":     {"GET", "/connectors/weather/admin", "", nil, 404, "unknown-path"},
		"path that is longer":        {"GET", "/connectors/weather/users/1/keys", "", nil, 404, "unknown-path"},
		"path with an empty segment": {"GET", "/connectors/weather/users/", "", nil, 404, "unknown-path"}, // which may be the list of all
		"path with a slash escaped":  {"GET", "/connectors/weather/users/1%2Fkeys", "", nil, 404, "unknown-path"},
		"slash escaped twice, a %":   {"GET", "/connectors/weather/users/1%252Fkeys%25", "", nil, 404, "unknown-path"},
		"path that goes up":          {"GET", "/connectors/weather/open/..%2f..%2fadmin", "", nil, 400, "bad-request"}, // threats.md 27
		"path that goes up twice":    {"GET", "/connectors/weather/open/%252e%252e/admin", "", nil, 400, "bad-request"},
		// threats.md 75
		"question mark escaped":       {"GET", "/connectors/weather/open/x%3Fadmin=1", "", nil, 404, "unknown-path"},
		"question mark escaped twice": {"GET", "/connectors/weather/open/x%253fadmin=1", "", nil, 404, "unknown-path"},
		"number sign escaped":         {"GET", "/connectors/weather/open/x%23/y", "", nil, 404, "unknown-path"},
		"backslash escaped":           {"GET", "/connectors/weather/open/x%5Cy", "", nil, 404, "unknown-path"},
		"full-width dots":             {"GET", "/connectors/weather/open/%EF%BC%8E%EF%BC%8E/admin", "", nil, 400, "bad-request"},
		"ideographic full stops":      {"GET", "/connectors/weather/open/%E3%80%82%EF%BD%A1/admin", "", nil, 400, "bad-request"},
		"header twice":                {"GET", "/connectors/weather", "", []string{"X-Once", "a", "X-Once", "b"}, 400, "bad-request"},
		"large body":                  {"POST", "/connectors/weather", "eleven bytes", nil, 413, "body-too-large"},                         // threats.md 49
		"other page":                  {"GET", "/connectors/weather", "", []string{"Origin", "https://evil.example"}, 403, "cross-origin"}, // threats.md 46
		"page of no origin":           {"POST", "/connectors/weather", "", []string{"Origin", "null"}, 403, "cross-origin"},
		"other page, no Origin":       {"GET", "/connectors/weather", "", []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross-origin"},
		"preflight of another page":   {"OPTIONS", "/connectors/weather", "", []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "GET"}, 403, "cross-origin"},
	} {
		w := newWorld(t, everything)
		got := w.do(w.request(c.method, c.path, c.body, c.headers...))
		if got.status != c.status || got.kind != c.kind || got.header.Get("Cache-Control") != "no-store" || strings.Contains(got.body, secret) {
			t.Errorf("%s: the caller got %d %s %s", name, got.status, got.kind, got.body)
		}
		if w.received() != 0 && c.status != 413 {
			t.Error(name, "the API received a request")
		}
	}
}

// threats.md 48: a request that cannot be authenticated is not sent, and its caller does not learn the reason.
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
		t.Errorf("the caller learns %s, the log %s", got.body, w.log.String())
	}
}

// The timeout counts for a request with a body too, once the API has read that.
func TestSilentUpstream(t *testing.T) {
	for _, body := range []string{"", "a body"} {
		w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Timeout, d.Methods = time.Millisecond, []string{"POST"} })
		release := make(chan struct{})
		late := time.AfterFunc(20*time.Second, func() { close(release) }) // so that a timeout that is lost does not hold the test
		w.answer = func(http.ResponseWriter, *http.Request) { <-release }
		got := w.do(w.request("POST", "/connectors/weather", body))
		if late.Stop() {
			close(release)
		}
		if got.status != http.StatusBadGateway || got.kind != "upstream-timeout" {
			t.Errorf("with %q the caller got %+v", body, got)
		}
	}
}

func TestMissingUpstream(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) { d.URL, d.Auth = "http://127.0.0.1:1", keyAuth("key", "query") })
	if got := w.get("/connectors/weather"); got.status != http.StatusBadGateway || got.kind != "upstream-failed" || strings.Contains(got.body, secret) {
		t.Errorf("the caller got %+v", got)
	}
}

// A timeout of a token endpoint or of a store of secrets is not reported as a timeout of the API, to which nothing was sent.
func TestTimeoutBeforeAPI(t *testing.T) {
	late := fmt.Errorf("the store did not answer: %w", context.DeadlineExceeded)
	for name, change := range map[string]change{
		"auth": func(*options, *gateway.Definition) {},
		"header": func(_ *options, d *gateway.Definition) {
			d.Headers = []gateway.Parameter{{Name: "X-Key", Value: "{{ get_secret('key') }}"}}
		},
	} {
		w := newWorld(t, change)
		w.failing.Store(&late)
		got := w.get("/connectors/weather")
		if got.status != http.StatusBadGateway || got.kind != "authentication-failed" || !strings.Contains(got.body, `"stage":"template"`) || w.received() > 0 {
			t.Errorf("%s: the caller got %+v", name, got)
		}
	}
}

// The pieces of a stream are passed on at once.
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
	response := testworld.Must(http.DefaultTransport.RoundTrip(w.request("GET", "/connectors/weather", "")))(t)
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
			return host.User{}, identity.ErrUnauthenticated
		case "down":
			return host.User{}, errors.Join(identity.ErrUnavailable, errors.New("of a cause"))
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

// specification.md "an answer with the credential", threats.md 45: if the API returns the credential, the caller does not receive
// it.
func TestEcho(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte("user:" + secret))
	answered := make(chan struct{}) // closed when the caller has the header of a stream
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   string // "" if the answer is cut off
	}{
		"short":        {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "you sent "+secret) }, "credential-echoed"},
		"Base64":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, encoded) }, "credential-echoed"},
		"other header": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "X-Second: "+secret+"-second") }, "credential-echoed"},
		"other query parameter": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "?third="+"third-"+secret[:9]+"-third")
		}, "credential-echoed"},
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
			<-answered
			_, _ = io.WriteString(w, secret[9:])
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(_ *options, d *gateway.Definition) {
				d.Headers = []gateway.Parameter{{Name: "X-Second", Value: "{{ get_secret('second') }}"}}
				d.Query = []gateway.Parameter{{Name: "third", Value: "{{ get_secret('third') }}"}}
			})
			w.secrets["second"], w.secrets["third"] = secret+"-second", "third-"+secret[:9]+"-third"
			w.answer = c.answer
			response, err := http.DefaultTransport.RoundTrip(w.request("GET", "/connectors/weather", ""))
			if c.kind == "" {
				close(answered)
			}
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
