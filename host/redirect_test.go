package host_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// Redirects by the API, with the client and the servers of net/http: threats.md 19 and 25.

// site is a server that answers by path and records its requests.
type site struct {
	*httptest.Server
	mu       sync.Mutex
	received []*http.Request
}

func newSite(t *testing.T, redirects map[string]func(*http.Request) (code int, location string)) *site {
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.received = append(s.received, r)
		s.mu.Unlock()
		if to := redirects[r.URL.Path]; to != nil {
			code, location := to(r)
			rw.Header().Set("Location", location)
			rw.WriteHeader(code)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// onLoopback returns a world whose host uses a real network, with servers on loopback.
func onLoopback(t *testing.T) *world {
	return newWorld(t, func(c *host.Config) {
		c.Base, c.Egress = nil, host.Egress{AllowHTTP: true, AllowPrivate: true}
	})
}

func (w *world) connectTo(origin string, auth config) *host.Connector {
	w.t.Helper()
	return w.open(host.ConnectorConfig{Origins: []string{origin}, Auth: []host.Auth{{Type: "api_key", Config: auth}}})
}

// credentials are configurations for the places of an API key: the standard header, a custom header, the query.
var credentials = map[string]config{
	"Authorization": {"key": "Authorization", "value": "{{ get_secret('s') }}", "in": "header"},
	"custom header": {"key": "X-Custom", "value": "{{ get_secret('s') }}", "in": "header"},
	"query":         {"key": "key", "value": "{{ get_secret('s') }}", "in": "query"},
}

func TestCrossOriginRedirectCredential_threats_25(t *testing.T) {
	other := newSite(t, nil) // the same host with another port
	w := onLoopback(t)
	for name, auth := range credentials {
		for _, code := range []int{301, 302, 303, 307, 308} {
			t.Run(fmt.Sprint(name, " ", code), func(t *testing.T) {
				api := newSite(t, map[string]func(*http.Request) (int, string){
					"/there": func(*http.Request) (int, string) { return code, other.URL + "/stolen" },
					"/echo":  func(r *http.Request) (int, string) { return code, other.URL + r.URL.RequestURI() },
				})
				client := &http.Client{Transport: w.connectTo(api.URL, auth).Transport(nil)}
				for _, path := range []string{"/there", "/echo"} {
					err := roundTripError(client.Get(api.URL + path))
					w.OutError("the client's error", err) // threats.md 19: url.Error prints the URL
					if failure, ok := errors.AsType[*host.Error](err); !ok || failure.Stage != host.StageOrigin {
						t.Errorf("%s: the error is %v", path, err)
					}
				}
				if len(other.received) != 0 {
					t.Error("the other origin received a request")
				}
			})
		}
	}
}

// The host removes the appended parameters from a redirect, and the credential under other names. A credential anywhere
// else in the redirect is an error. Texts of less than 8 bytes and texts without a credential may be anywhere, since
// they may be there by chance.
func TestRedirectQuery_threats_19(t *testing.T) {
	pairs := func(names ...string) []abi.Pair {
		all := []abi.Pair{}
		for _, text := range names {
			name, value, _ := strings.Cut(text, "=")
			all = append(all, abi.Pair{Name: name, Value: value})
		}
		return all
	}
	for name, c := range map[string]struct {
		secret   string
		query    []abi.Pair // SEALED stands for the secret
		location string
		want     string // "" means an error
	}{
		"its own parameter":               {"12345678", pairs("key=SEALED"), "/new?key=12345678&a=b", "/new?a=b"},
		"its own parameter, of 7 bytes":   {"1234567", pairs("key=SEALED"), "/new?key=1234567&a=b", "/new?a=b"},
		"another parameter":               {"12345678", pairs("key=SEALED"), "/new?token=12345678&a=b", "/new?a=b"},
		"another parameter, of 7 bytes":   {"1234567", pairs("key=SEALED"), "/new?token=1234567&a=b", "/new?token=1234567&a=b"},
		"the path":                        {"12345678", pairs("key=SEALED"), "/new/12345678", ""},
		"the path, of 7 bytes":            {"1234567", pairs("key=SEALED"), "/new/1234567", "/new/1234567"},
		"what is plain":                   {"12345678", pairs("key=SEALED", "since=2024-01-01"), "/new?since=2024-01-01&key=12345678&a=b", "/new?a=b"},
		"what is plain, elsewhere":        {"12345678", pairs("key=SEALED", "since=2024-01-01"), "/2024-01-01?from=2024-01-01", "/2024-01-01?from=2024-01-01"},
		"the name of its parameter":       {"12345678", pairs("subscription-key=SEALED"), "/subscription-key?a=subscription-key", "/subscription-key?a=subscription-key"},
		"a sealed name":                   {"12345678", pairs("SEALED=1"), "/new?12345678=1&a=b", "/new?a=b"},
		"a sealed name, in the path":      {"12345678", pairs("SEALED=1"), "/new/12345678", ""},
		"a sealed name, as another value": {"12345678", pairs("SEALED=1"), "/new?token=12345678&a=b", "/new?a=b"},
	} {
		t.Run(name, func(t *testing.T) {
			w := misusedWorld(t, func(env contract.Env) (string, error) {
				return strings.ReplaceAll(marshal(contract.Mutation{Query: c.query}), "SEALED", value(env, "to_query")), nil
			})
			w.setSecret("s", c.secret)
			w.api.Answer(respond(http.StatusFound, "", "Location", c.location))
			response, err := w.connect("custom", misused).Transport(nil).RoundTrip(get(t.Context()))
			if c.want == "" {
				if failure, ok := errors.AsType[*host.Error](err); !ok || failure.Stage != host.StageResponse || strings.Contains(err.Error(), c.secret) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if got := response.Header.Get("Location"); got != c.want {
				t.Errorf("the redirect goes to %s, want %s", got, c.want)
			}
		})
	}
}

// A client's errors have the URL of the request, and a transport's errors may quote any part of it.
func TestQueryKeyInErrors_threats_19(t *testing.T) {
	w := newWorld(t)
	secret := w.canary("s")
	for name, c := range credentials {
		connector := w.connect("api_key", c)
		cause := errors.New("the cause")
		w.api.Answer(func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("%w: cannot send %s %q %q %x", cause, r.URL, r.URL, r.Header, secret)
		})
		client := &http.Client{Transport: connector.Transport(nil)}
		err := roundTripError(client.Get(apiURL))
		w.OutError(name, err)
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "cannot send "+apiURL) {
			t.Errorf("%s: what is no secret is lost: %v", name, err)
		}
	}
	const gone = "http://127.0.0.1:1" // nobody listens there
	dialling := onLoopback(t)
	dialling.canary("s")
	client := &http.Client{Transport: dialling.connectTo(gone, credentials["query"]).Transport(nil)}
	err := roundTripError(client.Get(gone + "/x"))
	if dialling.OutError("a connection that is refused", err); err == nil {
		t.Error("no error")
	}
}

// roundTripError closes the answer of a request, and returns its error.
func roundTripError(response *http.Response, err error) error {
	if err == nil {
		_ = response.Body.Close()
	}
	return err
}

// threats.md 430: with CrossOriginRedirects a client follows a redirect to another origin without any credential, its own or that of
// the connector, and gets none back there.
func TestCrossOriginRedirects(t *testing.T) {
	w := newWorld(t)
	secret := w.canary("s")
	for name, c := range map[string]struct {
		auth, method, location, want string // want is the beginning of the last request, or of the error
	}{
		"a signed URL":             {"custom header", "GET", "https://store.test/a?sig=1", "GET https://store.test/a?sig=1 keeps"},
		"HEAD":                     {"Authorization", "HEAD", "https://store.test/a?sig=1", "HEAD https://store.test/a?sig=1 keeps"},
		"a subdomain":              {"Authorization", "GET", "https://a.api.test/a", "GET https://a.api.test/a keeps"},
		"a user":                   {"Authorization", "GET", "https://me:pw@store.test/a", "GET https://store.test/a keeps"},
		"its own query goes":       {"query", "GET", "https://store.test/things?QUERY", "GET https://store.test/things?a=1 keeps"},
		"back again":               {"custom header", "GET", "https://store.test/back", "GET https://api.test/chosen keeps"},
		"the credential in a path": {"custom header", "GET", "https://store.test/SECRET", "error a redirect, in Location: the API answered 302"},
		"the credential escaped":   {"Authorization", "GET", "https://store.test/?a=ESCAPED", "error a redirect, in Location: the API answered 302"},
		"plain http":               {"custom header", "GET", "http://store.test/a", "error a redirect to another origin is followed to https only"},
		"a method that changes":    {"custom header", "POST", "https://store.test/a", "error a redirect to another origin is followed by GET and HEAD"},
		"ten redirects":            {"custom header", "GET", "https://store.test/nnnnnnnnn", "GET https://store.test/ keeps"},
		"forever":                  {"custom header", "GET", "https://store.test/on", "error the request has followed too many redirects"},
	} {
		t.Run(name, func(t *testing.T) {
			var last *http.Request
			base := testworld.Answer(func(r *http.Request) (*http.Response, error) {
				last = r
				status := http.StatusTemporaryRedirect
				var location string
				switch {
				case r.URL.Path == "/back":
					location = "https://api.test/chosen"
				case strings.HasPrefix(r.URL.Path, "/n"):
					location = "https://store.test/" + r.URL.Path[2:]
				case r.URL.Path == "/on":
					location = "https://store.test/on"
				case r.URL.Path == "/things" && r.URL.Host == "api.test":
					status, location = http.StatusFound, strings.NewReplacer("QUERY", r.URL.RawQuery, "SECRET", secret, "ESCAPED", strings.ReplaceAll(secret, secret[3:4], fmt.Sprintf("%%%x", secret[3]))).Replace(c.location)
					if c.method == http.MethodPost {
						status = http.StatusTemporaryRedirect
					}
				default:
					return respond(http.StatusOK, "kept")(r)
				}
				return respond(status, "", "Location", location)(r)
			})
			connector := w.open(host.ConnectorConfig{
				Auth: []host.Auth{{Type: "api_key", Config: credentials[c.auth]}}, CrossOriginRedirects: true,
			})
			jar := must(cookiejar.New(nil))(t)
			jar.SetCookies(&url.URL{Scheme: "https", Host: "store.test", Path: "/"}, []*http.Cookie{{Name: "c", Value: "1"}})
			client := &http.Client{Transport: connector.Transport(base), Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
			r := must(http.NewRequestWithContext(t.Context(), c.method, "https://api.test/things?a=1", nil))(t)
			r.Header = http.Header{"X-Own": {"mine"}, "Cookie": {"a=b"}, "Range": {"bytes=0-9"}}
			response, err := client.Do(r)
			got := fmt.Sprintf("%s %s keeps", last.Method, last.URL)
			if err != nil {
				var failure *host.Error
				if got = err.Error(); errors.As(err, &failure) {
					got = "error " + failure.Err.Error()
				}
			} else if _ = response.Body.Close(); response.Request.URL.Host != last.URL.Host || len(last.Header) != 1 || last.Header.Get("Range") != "bytes=0-9" {
				t.Errorf("%s has the headers %v", last.URL, last.Header)
			}
			if w.OutError("the error", err); !strings.HasPrefix(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// threats.md 430: an answer without its request may be of any origin, so a redirect of it has no credential.
func TestRedirectOfAnAnswerWithoutItsRequest(t *testing.T) {
	w := newWorld(t)
	var last *http.Request
	connector := w.open(host.ConnectorConfig{Auth: []host.Auth{{Type: "api_key", Config: credentials["custom header"]}}, CrossOriginRedirects: true})
	transport := connector.Transport(testworld.Answer(func(r *http.Request) (*http.Response, error) {
		last = r
		switch r.URL.String() {
		case "https://api.test/":
			return respond(http.StatusFound, "", "Location", "https://store.test/")(r)
		case "https://store.test/":
			return respond(http.StatusFound, "", "Location", "https://api.test/chosen")(r)
		}
		return respond(http.StatusOK, "")(r)
	}))
	client := &http.Client{Transport: testworld.Answer(func(r *http.Request) (*http.Response, error) {
		response, err := transport.RoundTrip(r)
		if err == nil {
			response.Request = nil
		}
		return response, err
	})}
	_ = must(client.Get("https://api.test/"))(t).Body.Close()
	if last.URL.Path != "/chosen" || len(last.Header) > 1 {
		t.Errorf("the last request is %s with %v, want no credential", last.URL, last.Header)
	}
}

// threats.md 430: the client certificate of Egress.TLS would go to any origin.
func TestCrossOriginRedirectsWithACertificateForAll(t *testing.T) {
	_, err := onLoopback(t).tryOpen(host.ConnectorConfig{
		Auth: []host.Auth{{Type: "api_key", Config: credentials["custom header"]}}, CrossOriginRedirects: true,
		Egress: &host.Egress{TLS: &tls.Config{Certificates: make([]tls.Certificate, 1)}},
	})
	testworld.WantError(t, "", err, "CrossOriginRedirects: another origin would get the client certificate")
}
