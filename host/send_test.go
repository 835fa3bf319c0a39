package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
)

// Answers of the API and requests of callers: specification.md "upstream answers 401" and "Connectors", threats.md 35.

// refusing returns an API that answers 401 to requests with one of the tokens.
func refusing(bad ...string) answer {
	return func(r *http.Request) (*http.Response, error) {
		if slices.Contains(bad, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
			return status(http.StatusUnauthorized)(r)
		}
		return status(http.StatusOK)(r)
	}
}

// A 401 counts whatever its coding is: the token is dropped, and only an answer that is passed on has to be read (threats.md 35).
func TestA401InAnUnknownCodingDropsTheToken_threats_35(t *testing.T) {
	w, c := tokenWorld(t, tokens(3600))
	w.get(c)
	var closed []*counting
	refused := refusing("t1")
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		response, err := refused(r)
		if response.StatusCode == http.StatusUnauthorized {
			response.Header.Set("Content-Encoding", "br")
			closed = append(closed, &counting{Reader: strings.NewReader("\x0b\x02\x80text\x03")})
			response.Body = closed[len(closed)-1]
		}
		return response, err
	})
	if got, err := w.read(c.GuardedTransport(nil).RoundTrip(get(t.Context()))); err != nil || w.login.Count() != 2 || w.api.Count() != 3 {
		t.Errorf("the answer is %q, %v after %d requests and %d exchanges", got, err, w.api.Count(), w.login.Count())
	}
	refused = refusing("t2", "t3")
	var failed *host.Error
	if got, err := w.read(c.GuardedTransport(nil).RoundTrip(get(t.Context()))); !errors.As(err, &failed) || failed.Stage != host.StageResponse || w.api.Count() != 4 { // a token is dropped at most once in 10 s
		t.Errorf("the second refusal is %q, %v after %d requests", got, err, w.api.Count())
	}
	for i, body := range closed {
		if body.closed == 0 {
			t.Errorf("body %d of %d is left open", i, len(closed))
		}
	}
}

func TestDecision_Tokens_upstream_answers_401_and_the_body_cannot_be_replayed(t *testing.T) {
	w, c := tokenWorld(t, tokens(3600))
	w.get(c)
	w.api.Answer(refusing("t1"))
	r := postOf(t, io.MultiReader(strings.NewReader("once")))
	if got, err := w.try(c, r); got != http.StatusUnauthorized || err != nil || w.api.Count() != 2 {
		t.Errorf("the answer is %d, %v after %d requests, want the API's own 401", got, err, w.api.Count())
	}
	before := w.api.Count()
	if got := w.get(c).Header.Get("Authorization"); got != "Bearer t2" || w.api.Count() != before+1 {
		t.Errorf("the token was not dropped: Authorization is %q after %d attempts, want t2 at once", got, w.api.Count()-before)
	}
}

// The rest of a refused answer is read before the second attempt if it is short, so that its connection can be used
// again. The answer is always closed.
func TestRefusedAnswerDrained(t *testing.T) {
	for name, c := range map[string]struct{ length, read int }{
		"short":          {100, 100},
		"long":           {1 << 20, 4 << 10},
		"without a body": {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, connector := tokenWorld(t, tokens(3600))
			w.get(connector)
			refused := &counting{Reader: strings.NewReader(strings.Repeat("x", c.length))}
			w.api.Answer(func(r *http.Request) (*http.Response, error) {
				response, err := refusing("t1")(r)
				if response.StatusCode == http.StatusUnauthorized {
					response.Body = refused
				} else if refused.closed != 1 || refused.read != c.read {
					t.Errorf("at the second attempt %d bytes of the refusal were read, want %d, and it was closed %d times", refused.read, c.read, refused.closed)
				}
				return response, err
			})
			if got, err := w.try(connector, get(t.Context())); got != http.StatusOK || err != nil || w.api.Count() != 3 || refused.closed != 1 {
				t.Errorf("%d, %v after %d requests; the refusal was closed %d times", got, err, w.api.Count(), refused.closed)
			}
		})
	}
}

// A request with [http.NoBody] has no body that would have to be replayed, also if it has no GetBody.
func TestA401ToARequestWithNoBody(t *testing.T) {
	w, c := tokenWorld(t, tokens(3600))
	w.get(c)
	w.api.Answer(refusing("t1"))
	r := get(t.Context())
	r.Body = http.NoBody
	if got, err := w.try(c, r); got != http.StatusOK || err != nil || w.api.Count() != 3 {
		t.Errorf("%d, %v after %d requests, want a second attempt", got, err, w.api.Count())
	}
}

func TestDecision_Tokens_upstream_answers_401_always(t *testing.T) {
	w, c := tokenWorld(t, tokens(3600))
	w.get(c)
	w.api.Answer(status(http.StatusUnauthorized))
	for second := range 30 {
		before := w.api.Count()
		if got, err := w.try(c, get(t.Context())); got != http.StatusUnauthorized || err != nil || w.api.Count() > before+2 {
			t.Errorf("second %d: %d, %v, %d attempts", second, got, err, w.api.Count()-before)
		}
		if want := 2 + second/10; w.login.Count() != want {
			t.Fatalf("second %d: %d exchanges, want %d: one in 10 seconds", second, w.login.Count(), want)
		}
		w.Advance(time.Second)
	}
	for authType, auth := range map[string]config{"api_key": key("{{ get_secret('s') }}"), "jwt": {"private_key": "{{ get_secret('s') }}", "algorithm": "HS256", "claims": config{}}} {
		before := w.api.Count()
		if w.get(w.connect(authType, auth)); w.api.Count() != before+1 {
			t.Errorf("%s is sent again", authType)
		}
	}
}

func TestDecision_Tokens_upstream_answers_401_to_many_at_once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := tokenWorld(t, tokens(3600))
		w.get(c)
		g := newGate(refusing("t1"))
		w.api.Answer(g.answer)
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				if got, err := w.try(c, get(t.Context())); got != http.StatusOK || err != nil {
					t.Errorf("got = %d, err = %v", got, err)
				}
			})
		}
		synctest.Wait()
		close(g.open)
		all.Wait()
		if w.login.Count() != 2 {
			t.Errorf("%d exchanges, want one more", w.login.Count())
		}
	})
}

// bodies makes request bodies that count the calls of Close.
type bodies struct {
	made []*counting
	fail bool // makes GetBody fail
}

func (b *bodies) request(ctx context.Context, url string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, b.next())
	if err != nil {
		panic(err)
	}
	r.GetBody = func() (io.ReadCloser, error) {
		if b.fail {
			return nil, errors.New("gone")
		}
		return b.next(), nil
	}
	return r
}

func (b *bodies) next() *counting {
	b.made = append(b.made, &counting{Reader: bytes.NewReader([]byte("body"))})
	return b.made[len(b.made)-1]
}

// http.RoundTripper must close a request's body, even on errors. Connectors close it once.
func TestRequestBodyClosedOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(*world, *bodies) string // returns the URL
		bodies  int
	}{
		{"sent", func(*world, *bodies) string { return apiURL }, 1},
		{"another origin", func(*world, *bodies) string { return "https://evil.test/" }, 1},
		{"no credential", func(w *world, _ *bodies) string { delete(w.secrets, "s"); return apiURL }, 1},
		{"401 and a second attempt", func(w *world, _ *bodies) string { w.api.Answer(refusing("t1")); return apiURL }, 2},
		{"401 and no body for a second attempt", func(w *world, b *bodies) string { b.fail = true; w.api.Answer(refusing("t1")); return apiURL }, 1},
		{"401 and no token for a second attempt", func(w *world, _ *bodies) string {
			w.api.Answer(refusing("t1"))
			w.login.Answer(status(http.StatusBadGateway))
			return apiURL
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, connector := tokenWorld(t, tokens(3600))
			w.get(connector)
			b := &bodies{}
			_, _ = w.try(connector, b.request(t.Context(), c.prepare(w, b)))
			if len(b.made) != c.bodies {
				t.Errorf("%d bodies, want %d", len(b.made), c.bodies)
			}
			for i, body := range b.made {
				if body.closed != 1 {
					t.Errorf("body %d was closed %d times", i, body.closed)
				}
			}
			for _, r := range w.api.Received()[1:] {
				if r.Body != "body" {
					t.Errorf("the API got the body %q, want it whole in each attempt", r.Body)
				}
			}
		})
	}
}

// specification.md 1.1.
func TestDecision_Requests_which_hosts_get_the_credential(t *testing.T) {
	w := newWorld(t)
	c := w.open(host.ConnectorConfig{
		Origins: []string{"https://API.test/", "https://api.test:8443", "https://bücher.test", "https://straße.test"}, Auth: []host.Auth{{Type: "api_key", Config: key("{{ get_secret('s') }}")}},
	})
	for _, url := range []string{
		"https://api.test", "https://api.test:443/x", "https://Api.Test/x", "https://api.test:8443/", "https://b%C3%BCcher.test/", "https://xn--bcher-kva.test/",
	} {
		w.send(c, request(t, url))
	}
	for _, url := range []string{
		"http://api.test/", "http://api.test:443/", "https://api.test:444/", "https://evil.test/", "https://api.test.evil.test/",
		"https://www.api.test/", "https://api.test./", "https://api.test@evil.test/", "https://api.test:0443/", "ftp://api.test/", "https:///x",
	} {
		w.refuse(c, request(t, url), host.StageOrigin)
	}
	other := request(t, "https://api.test/")
	other.Host = "evil.test"
	w.refuse(c, other, host.StageOrigin)
	opaque := request(t, "https://api.test/")
	opaque.URL.Opaque = "//evil.test/"
	w.refuse(c, opaque, host.StageOrigin)
	dialled := request(t, "https://api.test/") // the checked host must be the host that net/http dials
	dialled.URL.Host, dialled.Host = "straẞe.test", ""
	w.refuse(c, dialled, host.StageOrigin)
	none := request(t, "https://api.test/")
	none.URL = nil
	w.refuse(c, none, host.StageOrigin)
	if _, err := c.Authenticate(request(t, "https://evil.test/")); err == nil {
		t.Error("Authenticate gives the credential to another origin")
	}
	if _, err := c.Explain(request(t, "https://evil.test/")); err == nil {
		t.Error("Explain explains a request that would not be sent")
	}
	for _, bad := range []string{"https://api.test/v1", "https://api.test?a", "https://u@api.test", "api.test", "https://", "ftp://api.test", "https://api.test:99999", "https://api.test:0", "https://api.test/#f", "::"} {
		w.refuseConnector(host.ConnectorConfig{Origins: []string{apiOrigin, bad}, Auth: []host.Auth{{Type: "none"}}}, "origins[1]", "")
	}
}

// postOf returns a POST to the API with a body, which can be sent again if it is one that http.NewRequest knows.
func postOf(t *testing.T, body io.Reader) *http.Request {
	t.Helper()
	return must(http.NewRequestWithContext(t.Context(), http.MethodPost, apiURL, body))(t)
}

// formOf returns a POST of a form.
func formOf(t *testing.T, body string) *http.Request {
	t.Helper()
	r := postOf(t, strings.NewReader(body))
	r.Header.Set("Content-Type", formType)
	return r
}

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	return must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
}

func TestDecision_Requests_the_callers_request_is_never_changed(t *testing.T) {
	w := newWorld(t)
	for _, in := range []string{"header", "query"} {
		c := w.connect("api_key", with(key("{{ get_secret('s') }}"), "in", in))
		r := request(t, apiURL+"?a=1")
		r.Header.Set("X-Key", "mine")
		r.Header["x-key"] = []string{"too"}
		before := fmt.Sprintf("%v %v %v %v", r.URL, r.Header, r.Host, r.RequestURI)
		if w.send(c, r); fmt.Sprintf("%v %v %v %v", r.URL, r.Header, r.Host, r.RequestURI) != before {
			t.Errorf("in %s: the request became %v", in, r.Header)
		}
		authenticated, err := c.Authenticate(r)
		if err != nil || fmt.Sprintf("%v %v %v %v", r.URL, r.Header, r.Host, r.RequestURI) != before {
			t.Errorf("in %s: Authenticate: %v", in, err)
		}
		if authenticated == r || authenticated.Context() != r.Context() {
			t.Error("Authenticate gives no clone with the context")
		}
		response := must(c.Transport(nil).RoundTrip(r))(t)
		if response.Body.Close(); response.Request != r {
			t.Errorf("in %s: Response.Request is not the caller's", in)
		}
		bare := &http.Request{Method: http.MethodGet, URL: r.URL} // Header is nil
		w.send(c, bare)
		if bare.Header != nil {
			t.Error("a header was made")
		}
	}
}

// The caller may change what Authenticate returns. The request that it was made from shares nothing with it.
func TestAuthenticateGivesACopy(t *testing.T) {
	_, connector := keyWorld(t)
	made := func() *http.Request {
		r := get(t.Context())
		r.Header.Set("X-Caller", "mine")
		r.Trailer, r.TransferEncoding = http.Header{"X-Sum": {"mine"}}, []string{"mine"}
		r.Form, r.PostForm = url.Values{"a": {"mine"}}, url.Values{"b": {"mine"}}
		r.MultipartForm = &multipart.Form{Value: url.Values{"c": {"mine"}}}
		r.Pattern = "/v1/{p}" // as of a ServeMux
		r.SetPathValue("p", "mine")
		return r
	}
	parts := func(r *http.Request) []any {
		return []any{r.Header["X-Caller"], r.Trailer, r.TransferEncoding, r.Form, r.PostForm, r.MultipartForm.Value, r.PathValue("p")}
	}
	r := made()
	authenticated := must(connector.Authenticate(r))(t)
	equal(t, parts(made()), parts(authenticated))
	for _, values := range []map[string][]string{
		authenticated.Header, authenticated.Trailer, authenticated.Form, authenticated.PostForm, authenticated.MultipartForm.Value,
	} {
		for name := range values {
			values[name][0] = "changed"
			values[name] = append(values[name], "added")
		}
	}
	authenticated.TransferEncoding[0] = "changed"
	authenticated.SetPathValue("p", "changed")
	equal(t, parts(made()), parts(r))
	if len(r.Header) != 1 {
		t.Errorf("the caller's headers are %q", r.Header)
	}
}

// changing is a base that changes and keeps all requests that it gets: their headers and their URL. It refuses every third one of a user.
type changing struct {
	t  *testing.T
	mu sync.Mutex
	// kept has the requests of each user.
	kept map[string][]*http.Request
}

func (b *changing) RoundTrip(r *http.Request) (*http.Response, error) {
	user := r.Header.Get("X-User")
	if got := r.Header["X-Key"]; len(got) != 1 || got[0] != "key of "+user {
		b.t.Errorf("a request of %s has the credential %q", user, got)
	}
	b.mu.Lock()
	b.kept[user] = append(b.kept[user], r)
	status := http.StatusOK
	if len(b.kept[user])%3 == 1 {
		status = http.StatusUnauthorized
	}
	b.mu.Unlock()
	for name := range r.Header {
		r.Header.Add(name, "more of "+user)
	}
	r.Header["X-Key"][0] = "changed"
	r.URL.Host, r.URL.Path, r.Host = "elsewhere.test", "/"+user, "elsewhere.test"
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

// A base may change the headers and the URL of the request that it gets, and keep it. Neither the caller's request nor that of somebody
// else changes, with and without a guard and spans (threats.md 283).
func TestRequestsShareNothingMutable(t *testing.T) {
	for name, change := range map[string]func(*host.Config){"without spans": func(*host.Config) {}, "with spans": withTracer(&spans{})} {
		t.Run(name, func(t *testing.T) {
			base := &changing{t: t, kept: map[string][]*http.Request{}}
			w := newWorld(t, change)
			w.setSecret("prefix", "key of ")
			c := w.connect("api_key", config{"key": "X-Key", "in": "header", "value": "{{ get_secret('prefix') }}{{ user.id }}"})
			identity := []string{"identity"} // shared by all requests, as in a gateway
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					user := fmt.Sprint("user-", i)
					for round := range 20 {
						transport := c.Transport(base)
						if round%2 == 1 {
							transport = c.GuardedTransport(base)
						}
						r := get(host.WithUser(t.Context(), host.User{ID: user}))
						room := append(make([]string, 0, 8), "a value") // with room behind it
						r.Header = http.Header{"X-User": {user}, "X-Room": room, "Accept-Encoding": identity}
						url := r.URL.String()
						response, err := transport.RoundTrip(r)
						if err != nil {
							t.Error(err)
							return
						}
						_ = response.Body.Close()
						if response.Request != r || r.URL.String() != url || len(r.Header) != 3 || len(r.Header["X-Room"]) != 1 || room[:2][1] != "" || identity[0] != "identity" {
							t.Errorf("the request of %s has become %s %v", user, r.URL, r.Header)
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// specification.md "User-Agent": a request without one has that of the configuration, and without a configuration net/http's, on the wire.
func TestUserAgent(t *testing.T) {
	var received []string
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received = r.Header["User-Agent"] }))
	t.Cleanup(api.Close)
	for name, c := range map[string]struct {
		configured  string
		given, want []string
	}{
		"net/http's":            {"", nil, []string{"Go-http-client/1.1"}},
		"configured":            {"keywright/v1", nil, []string{"keywright/v1"}},
		"the caller's":          {"keywright/v1", []string{"acme"}, []string{"acme"}},
		"the caller wants none": {"keywright/v1", []string{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(h *host.Config) {
				h.UserAgent, h.Base, h.Egress = c.configured, nil, host.Egress{AllowHTTP: true, AllowPrivate: true}
			})
			connector := w.connectTo(api.URL, credentials["custom header"])
			r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL, nil))(t)
			if c.given != nil {
				r.Header["User-Agent"] = c.given
			}
			_ = must(connector.Transport(nil).RoundTrip(r))(t).Body.Close()
			if !slices.Equal(received, c.want) {
				t.Errorf("the API received %q, want %q", received, c.want)
			}
		})
	}
}

// A token request has the User-Agent of the configuration.
func TestUserAgentOfTokenRequests(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.UserAgent = "keywright/v1" })
	w.get(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")))
	if got := w.login.Last().Header.Get("User-Agent"); got != "keywright/v1" {
		t.Errorf("the token endpoint received the User-Agent %q", got)
	}
}
