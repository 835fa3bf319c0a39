package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// Server-Timing and the event have the time of each part, in milliseconds. auth does not include the time of the token
// endpoint.
func TestServerTiming(t *testing.T) {
	const ms = time.Millisecond
	for want, c := range map[string]struct {
		before, token, key, api time.Duration
		fails                   bool
	}{
		"auth;dur=3.25, token;dur=2, upstream;dur=1.5":         {5250 * time.Microsecond, 2 * ms, 0, 1500 * time.Microsecond, false},
		"auth;dur=0, token;dur=7000, upstream;dur=0.001":       {5 * ms, 7 * time.Second, 0, time.Microsecond, false}, // longer than the request: it began for another one
		"auth;dur=4, token;dur=0, upstream;dur=12":             {4 * ms, 0, 0, 12 * ms, true},
		"auth;dur=1500.75, token;dur=0.25, upstream;dur=0":     {1501 * ms, 250 * time.Microsecond, 0, 0, false},
		"auth;dur=1, token;dur=2, key;dur=3.5, upstream;dur=4": {6500 * time.Microsecond, 2 * ms, 3500 * time.Microsecond, 4 * ms, false},
	} {
		uses := min(1, int(c.key))
		now := time.Unix(1_800_000_000, 0)
		w := newWorld(t, func(o *options, _ *gateway.Definition) {
			o.Clock = func() time.Time { return now }
			o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) {
				now = now.Add(c.api)
				gateway.Observe(r.Context(), host.Attempt{Ahead: true, TokenTime: time.Hour, Exchanges: 1}) // no request waits for it
				gateway.Observe(r.Context(), host.Attempt{TokenTime: c.token, Exchanges: 1, KeyTime: c.key, KeyRequests: uses})
				if c.fails {
					return nil, io.ErrUnexpectedEOF
				}
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
			})
			o.Users = users(func(*http.Request) (host.User, error) {
				now = now.Add(c.before)
				return host.User{}, nil
			})
		})
		got := w.serve(w.request("GET", "/connectors/weather", ""))
		if got.Header().Get("Server-Timing") != want || (got.Code == http.StatusOK) == c.fails {
			t.Errorf("the caller got %d and the timing %s, want %s", got.Code, got.Header().Get("Server-Timing"), want)
		}
		if event := w.events[0]; event.Upstream != c.api || event.Total != c.before+c.api || event.Attempt.Exchanges != 1 || event.Attempt.KeyRequests != uses {
			t.Errorf("operators are told %+v", event)
		}
	}
}

// After a 401, the time of a new token is in token alone, and upstream has both attempts.
func TestServerTimingOfTwoAttempts(t *testing.T) {
	const ms = time.Millisecond
	now, attempts := time.Unix(1_800_000_000, 0), 0
	w := newWorld(t, func(o *options, d *gateway.Definition) {
		o.Clock, o.Plugins = func() time.Time { return now }, []host.Plugin{{Name: "digest.wasm", Wasm: plugins.Digest()}}
		d.Auth = []host.Auth{{Type: "digest", Config: map[string]any{"username": "ann", "password": "{{ get_secret('key') }}"}}}
		o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) {
			attempts++
			now = now.Add(5 * ms)
			challenge := http.Header{"Www-Authenticate": {`Digest realm="r", nonce="n", algorithm=SHA-256, qop="auth"`}}
			return &http.Response{StatusCode: http.StatusUnauthorized, Header: challenge, Body: http.NoBody, Request: r}, nil
		})
	})
	w.reading = func(ctx context.Context) {
		if attempts == 1 { // as if the second attempt requested a token
			now = now.Add(20 * ms)
			gateway.Observe(ctx, host.Attempt{TokenTime: 18 * ms, Exchanges: 1})
		}
	}
	got := w.serve(w.request("GET", "/connectors/weather", ""))
	if want := "auth;dur=2, token;dur=18, upstream;dur=10"; got.Header().Get("Server-Timing") != want || attempts != 2 {
		t.Errorf("%d attempts, %s, want %s", attempts, got.Header().Get("Server-Timing"), want)
	}
}

// A refusal that cannot be decoded is answered all the same, and only the answer to that is refused (threats.md 35).
func TestARefusalInAnUnknownCoding_threats_35(t *testing.T) {
	for second, want := range map[int]string{http.StatusOK: "", http.StatusUnauthorized: "answer-refused"} {
		attempts := 0
		w := newWorld(t, func(o *options, d *gateway.Definition) {
			o.Plugins = []host.Plugin{{Name: "digest.wasm", Wasm: plugins.Digest()}}
			d.Auth = []host.Auth{{Type: "digest", Config: map[string]any{"username": "ann", "password": "{{ get_secret('key') }}"}}}
			o.Base = testworld.Answer(func(*http.Request) (*http.Response, error) {
				if attempts++; attempts > 1 && second == http.StatusOK {
					return testworld.Response(second, "text"), nil
				}
				response := testworld.Response(http.StatusUnauthorized, "no text")
				response.Header.Set("Www-Authenticate", `Digest realm="r", nonce="n", algorithm=SHA-256, qop="auth"`)
				response.Header.Set("Content-Encoding", "compress")
				return response, nil
			})
		})
		if got := w.get("/connectors/weather"); got.kind != want || (got.body == "text") != (want == "") || attempts != 2 {
			t.Errorf("%d attempts, %d %s, want %q", attempts, got.status, got.kind, want)
		}
	}
}

// A problem has its own headers, and not those of other problems.
func TestHeadersOfProblems(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys.json")
	const key = `{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
	testworld.Check(t, os.WriteFile(keys, []byte(key), 0o600))
	sessions := testworld.Must(identity.New(t.Context(), identity.Config{Mode: identity.ModeJWT, JWT: &identity.JWT{
		Bearer: true, JWKSFile: keys, Issuer: "https://login.test/", Audiences: []string{"keywright"}, Algorithms: []string{"EdDSA"},
	}}, identity.Options{}))(t)
	t.Cleanup(func() { _ = sessions.Close() })
	down := users(func(*http.Request) (host.User, error) { return host.User{}, identity.ErrUnavailable })
	nobody := users(func(*http.Request) (host.User, error) { return host.User{}, nil })
	for name, c := range map[string]struct {
		users  gateway.Users
		method string
		secret string
		status int
		header map[string]string // out of those below
		log    string
	}{
		"no session":        {sessions, "GET", secret, 401, map[string]string{"Www-Authenticate": `Bearer realm="keywright"`}, `"problem":"unauthenticated","connector":"weather","error"`},
		"sessions are away": {down, "GET", secret, 503, map[string]string{"Retry-After": "5"}, `"problem":"sessions-unavailable","connector":"weather","error"`},
		"method":            {nobody, "PUT", secret, 405, map[string]string{"Allow": "GET, POST"}, `"problem":"method-not-allowed","connector":"weather","error"`},
		"no secret":         {nobody, "GET", "", 502, nil, `"problem":"authentication-failed","connector":"weather","stage":"template","error"`},
	} {
		w := newWorld(t, func(o *options, d *gateway.Definition) { o.Users, d.Methods = c.users, []string{"GET", "POST"} })
		if c.secret == "" {
			delete(w.secrets, "key")
		}
		got := w.do(w.request(c.method, "/connectors/weather", ""))
		if got.status != c.status || !strings.Contains(w.log.String(), c.log) {
			t.Errorf("%s: the caller got %d %s, and the log is %s", name, got.status, got.body, w.log.String())
		}
		for _, header := range []string{"Www-Authenticate", "Retry-After", "Allow"} {
			if values, there := got.header[header]; there != (c.header[header] != "") || strings.Join(values, "|") != c.header[header] {
				t.Errorf("%s: %s is %q", name, header, values)
			}
		}
	}
}

// threats.md 62: if the secret of a connector is wrong, callers get a Retry-After, and neither the token endpoint nor the log
// gets one entry for each request. The host's only line names the endpoint, and the request for which that was asked.
func TestRefusingTokenEndpoint_threats_62(t *testing.T) {
	var asked atomic.Int32
	w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Auth = clientAuth(d.URL + "/token") })
	w.answer = func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/token" {
			return
		}
		asked.Add(1)
		rw.Header().Set("Retry-After", "600")
		rw.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(rw, `{"error":"invalid_client"}`)
	}
	var ids sync.Map
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 20 {
				got := w.get("/connectors/weather")
				ids.Store(got.header.Get("X-Request-Id"), true)
				if retry := got.header.Get("Retry-After"); got.status != http.StatusBadGateway || got.kind != "authentication-failed" || len(retry) != 3 || retry < "500" {
					t.Errorf("a caller got %d %s, Retry-After %q", got.status, got.kind, retry)
					return
				}
			}
		})
	}
	clients.Wait()
	if asked.Load() != 1 || w.received() != 1 {
		t.Errorf("the token endpoint was asked %d times, and the API %d times", asked.Load(), w.received()-1)
	}
	if w.log.String() != "" {
		t.Errorf("the gateway's log has %s", w.log.String())
	}
	var line struct {
		Level, Connector, Endpoint string
		ID                         string `json:"request_id"`
	}
	if err := json.Unmarshal([]byte(w.hostLog.String()), &line); err != nil {
		t.Fatalf("the host's log has %s: %v", w.hostLog.String(), err)
	}
	if _, ok := ids.Load(line.ID); !ok || line.ID == "" || line.Level != "WARN" || line.Connector != "weather" || "http://"+line.Endpoint != w.api.URL {
		t.Errorf("the host's log has %s", w.hostLog.String())
	}
}

// threats.md 142: if the metadata of an issuer cannot be read, callers get a Retry-After, and neither the issuer nor the log gets one
// entry for each request.
func TestFailingIssuer(t *testing.T) {
	var asked atomic.Int32
	now := time.Now()
	w := newWorld(t, func(o *options, d *gateway.Definition) {
		o.HostClock = func() time.Time { return now }
		d.Auth = clientAuth("{{ discover('" + strings.TrimSuffix(d.URL, "/v1") + "', 'token_endpoint') }}")
	})
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		rw.WriteHeader(http.StatusInternalServerError)
	}
	for range 5 {
		got := w.get("/connectors/weather")
		if retry := got.header.Get("Retry-After"); got.status != http.StatusBadGateway || got.kind != "authentication-failed" || retry != "1" {
			t.Errorf("a caller got %d %s, Retry-After %q", got.status, got.kind, retry)
		}
	}
	if asked.Load() != 1 || w.log.String() != "" || strings.Count(w.hostLog.String(), "the metadata of an issuer cannot be read") != 1 {
		t.Errorf("the issuer was asked %d times, and the logs are\n%s\n%s", asked.Load(), w.log.String(), w.hostLog.String())
	}
}
