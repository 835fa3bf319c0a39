package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host/internal/discovery"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/testworld"
)

const (
	issuer   = "https://login.test"
	document = `{"issuer":"https://login.test","token_endpoint":"https://login.test/token"}`
)

// world has a cache, a server, and those who ask.
type world struct {
	t      *testing.T
	clock  *testworld.Clock
	server *testworld.Server
	cache  *discovery.Cache
	asker  *discovery.Asker
	// tasks are the readings that are under way.
	tasks sync.WaitGroup
	mu    sync.Mutex
	log   []string
}

func newWorld(t *testing.T, answer testworld.Answer) *world {
	t.Helper()
	w := &world{t: t, clock: testworld.NewClock(time.Unix(1_700_000_000, 0)), server: testworld.NewServer(answer)}
	w.cache = discovery.New(w.clock.Now, strings.NewReader("")) // without jitter
	w.asker = &discovery.Asker{
		AcquireSlot: func(context.Context) (func(), error) { return func() {}, nil },
		Client:      &http.Client{Transport: w.server, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		Time:        time.Minute, Bytes: 64 << 10,
		Go: func(task func()) error {
			w.tasks.Go(task)
			return nil
		},
		Changed: func(_ context.Context, issuer, text string, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.log = append(w.log, fmt.Sprintf("%s: %s (%v)", issuer, text, err))
		},
	}
	return w
}

// find returns an endpoint of the issuer, or the text of the error.
func (w *world) find(member string) (endpoint, failure string) {
	w.t.Helper()
	endpoint, err := w.cache.Find(w.t.Context(), discovery.Key{Issuer: issuer}, member, w.asker)
	if err != nil {
		return "", err.Error()
	}
	return endpoint, ""
}

// want fails the test unless the token endpoint of the issuer is endpoint, and the error begins with failure.
func (w *world) want(endpoint, failure string) {
	w.t.Helper()
	gotEndpoint, gotFailure := w.find("token_endpoint")
	if gotEndpoint != endpoint || !strings.HasPrefix(gotFailure, failure) || (failure == "") != (gotFailure == "") {
		w.t.Errorf("the endpoint is %q, and the error %q\n     want %q, and the error %q", gotEndpoint, gotFailure, endpoint, failure)
	}
	w.tasks.Wait() // a document that is read again in the background has been read
}

// asked fails the test unless the server has been asked that many times so far.
func (w *world) asked(times int) {
	w.t.Helper()
	if n := w.server.Count(); n != times {
		w.t.Errorf("the issuer was asked %d times, want %d", n, times)
	}
}

// serving answers each path with its document, and others with 404.
func serving(documents map[string]string) testworld.Answer {
	return func(r *http.Request) (*http.Response, error) {
		if text, ok := documents[r.URL.String()]; ok {
			return testworld.Response(200, text), nil
		}
		return testworld.Response(404, "not found"), nil
	}
}

// The metadata of RFC 8414 comes first, and that of OpenID Connect next. Both take a slash off the end of the issuer, but only
// there.
func TestLocations(t *testing.T) {
	for _, c := range []struct{ issuer, first, second string }{
		{"https://login.test", "https://login.test/.well-known/oauth-authorization-server", "https://login.test/.well-known/openid-configuration"},
		{"https://login.test/", "https://login.test/.well-known/oauth-authorization-server", "https://login.test/.well-known/openid-configuration"},
		{"https://login.test:8443/a", "https://login.test:8443/.well-known/oauth-authorization-server/a", "https://login.test:8443/a/.well-known/openid-configuration"},
		{"https://login.test/a/b%2Fc/", "https://login.test/.well-known/oauth-authorization-server/a/b%2Fc", "https://login.test/a/b%2Fc/.well-known/openid-configuration"},
	} {
		text := fmt.Sprintf(`{"issuer":%q,"token_endpoint":"https://login.test/token"}`, c.issuer)
		for _, location := range []string{c.first, c.second} {
			w := newWorld(t, serving(map[string]string{location: text}))
			endpoint, err := w.cache.Find(t.Context(), discovery.Key{Issuer: c.issuer}, "token_endpoint", w.asker)
			if err != nil || endpoint != "https://login.test/token" {
				t.Errorf("%s at %s: %q, %v", c.issuer, location, endpoint, err)
			}
			for i, r := range w.server.Received() {
				if want := []string{c.first, c.second}[i]; r.URL != want || r.Method != http.MethodGet || r.Body != "" || r.Header.Get("Authorization") != "" {
					t.Errorf("the request is %s %s with %q, want a GET of %s", r.Method, r.URL, r.Body, want)
				}
			}
		}
	}
}

// Servers and what stands in front of them have many words for: there is no such document.
func TestStatuses(t *testing.T) {
	for status, next := range map[int]bool{
		400: true, 401: true, 403: true, 404: true, 405: true, 406: true, 410: true, 451: true,
		201: false, 204: false, 301: false, 302: false, 307: false, 408: false, 425: false, 429: false, 500: false, 502: false, 503: false,
	} {
		w := newWorld(t, func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "openid") {
				return testworld.Response(200, document), nil
			}
			return testworld.Response(status, document, "Location", "https://evil.test/"), nil
		})
		endpoint, err := w.cache.Find(t.Context(), discovery.Key{Issuer: issuer}, "token_endpoint", w.asker)
		if (endpoint != "") != next || next != (err == nil) {
			t.Errorf("after %d: %q, %v", status, endpoint, err)
		}
		var failure *view.DiscoveryError
		if retryable := status == 408 || status == 425 || status == 429 || status >= 500; errors.As(err, &failure) && failure.Retryable != retryable {
			t.Errorf("%d is retryable: %v", status, failure.Retryable)
		}
	}
}

// What is known needs nobody who asks.
func TestKnownEndpoints(t *testing.T) {
	w := newWorld(t, testworld.Respond(200, document))
	known := func(member, want string) {
		t.Helper()
		if endpoint, ok := w.cache.Known(discovery.Key{Issuer: issuer}, member); ok != (want != "") || ok && endpoint != want {
			t.Errorf("%s is known as %q, %v, want %q", member, endpoint, ok, want)
		}
	}
	known("token_endpoint", "")
	w.want("https://login.test/token", "")
	known("token_endpoint", "https://login.test/token")
	known("revocation_endpoint", "")
	w.clock.Advance(time.Hour)
	known("token_endpoint", "")
	w.asked(1)
}

// A document counts for an hour. Then it is read again, and nobody waits for that.
func TestDocumentsCountForAnHour(t *testing.T) {
	w := newWorld(t, testworld.Respond(200, document))
	w.want("https://login.test/token", "")
	w.clock.Advance(time.Hour - 1)
	w.want("https://login.test/token", "")
	w.asked(1)
	w.server.Answer(testworld.Respond(200, strings.Replace(document, "/token", "/new", 1)))
	w.clock.Advance(1)
	w.want("https://login.test/token", "")
	w.asked(2)
	w.want("https://login.test/new", "")
	w.asked(2)
	w.clock.Advance(-time.Minute) // a clock that was set back does not keep a document for ever
	w.want("https://login.test/new", "")
	w.asked(3)
	if want := []string{issuer + ": the metadata of an issuer names other endpoints than before (<nil>)"}; !slices.Equal(w.log, want) {
		t.Errorf("the log is %q", w.log)
	}
}

// threats.md 142: while an issuer is down, its last document counts. It is asked again after a time that grows, and the log says so
// once.
func TestLastDocumentDuringOutage(t *testing.T) {
	w := newWorld(t, testworld.Respond(200, document))
	w.want("https://login.test/token", "")
	w.server.Answer(testworld.Respond(503, ""))
	w.clock.Advance(time.Hour)
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		w.want("https://login.test/token", "")
		w.clock.Advance(wait - 1)
		w.want("https://login.test/token", "")
		w.asked(2 + i)
		w.clock.Advance(1)
	}
	w.server.Answer(testworld.Respond(200, `{"issuer":"https://evil.test","token_endpoint":"https://evil.test/token"}`))
	w.want("https://login.test/token", "")
	w.clock.Advance(time.Minute)
	w.want("https://login.test/token", "")
	w.server.Answer(testworld.Respond(200, document))
	w.clock.Advance(time.Minute)
	w.want("https://login.test/token", "")
	want := []string{
		issuer + ": the metadata of an issuer cannot be read: the endpoints that it named before stay in use (the metadata of https://login.test: https://login.test/.well-known/oauth-authorization-server answered 503; it is asked again in 1s)",
		issuer + ": the metadata of an issuer can be read again (<nil>)",
	}
	if !slices.Equal(w.log, want) {
		t.Errorf("the log is %q", w.log)
	}
}

// threats.md 142: an issuer that fails is not asked for each request.
func TestFailureMemory(t *testing.T) {
	w := newWorld(t, testworld.Respond(500, ""))
	const failure = "the metadata of https://login.test: https://login.test/.well-known/oauth-authorization-server answered 500; it is asked again in "
	asked := 0
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		wait *= time.Second
		asked++
		w.want("", failure+wait.String())
		w.clock.Advance(wait / 2)
		w.want("", failure+(wait/2+time.Second-1).Truncate(time.Second).String())
		w.clock.Advance(wait/2 - 1)
		w.want("", failure+"1s")
		w.asked(asked)
		w.clock.Advance(1)
	}
	w.server.Answer(testworld.Respond(200, document))
	w.want("https://login.test/token", "")
	if len(w.log) != 2 {
		t.Errorf("the log is %q", w.log)
	}
}

// Waits are shortened at random by up to a fifth, so that nodes do not ask at once.
func TestWaitsHaveJitter(t *testing.T) {
	w := newWorld(t, testworld.Respond(500, ""))
	w.cache = discovery.New(w.clock.Now, strings.NewReader(strings.Repeat("\xff", 8)))
	w.want("", "the metadata of")
	w.clock.Advance(800*time.Millisecond - 1)
	w.want("", "the metadata of")
	w.asked(1)
	w.clock.Advance(1 + time.Millisecond)
	w.want("", "the metadata of")
	w.asked(2)
}

// The size of a document is limited. If there is none, the error has both places.
func TestNoDocument(t *testing.T) {
	w := newWorld(t, testworld.Respond(200, document))
	w.asker.Bytes = len(document)
	w.want("https://login.test/token", "")
	w = newWorld(t, testworld.Respond(200, document))
	w.asker.Bytes = len(document) - 1
	w.want("", fmt.Sprintf("the metadata of https://login.test: https://login.test/.well-known/oauth-authorization-server has more than %d bytes", len(document)-1))
	const first, second = "https://login.test/.well-known/oauth-authorization-server", "https://login.test/.well-known/openid-configuration"
	for status, want := range map[int]string{403: "there is none: " + first + " answered 404, and " + second + " answered 403", 500: second + " answered 500"} {
		w := newWorld(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.String() == second {
				return testworld.Response(status, ""), nil
			}
			return testworld.Response(404, ""), nil
		})
		w.want("", "the metadata of https://login.test: "+want)
	}
}

// An endpoint that is not there is looked for again after five minutes. Other endpoints of the document count meanwhile.
func TestAMissingEndpoint(t *testing.T) {
	w := newWorld(t, testworld.Respond(200, `{"issuer":"https://login.test","revocation_endpoint":"https://login.test/revoke"}`))
	const failure = "the metadata of https://login.test: token_endpoint is missing: the server has no such endpoint, or does not say so: write the URL out"
	w.want("", failure)
	if _, got := w.find("token_endpoint"); got != failure {
		t.Errorf("the error is %s", got)
	}
	if endpoint, failed := w.find("revocation_endpoint"); endpoint != "https://login.test/revoke" {
		t.Errorf("the other endpoint is %q, %s", endpoint, failed)
	}
	w.clock.Advance(5*time.Minute - 1)
	w.want("", failure)
	w.asked(1)
	w.server.Answer(testworld.Respond(200, document))
	w.clock.Advance(1)
	w.want("https://login.test/token", "")
	w.asked(2)
}

// Of many that ask at once, one asks the issuer. A caller that goes away has no effect on the others.
func TestOneAsksForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		w := newWorld(t, func(*http.Request) (*http.Response, error) {
			<-answer
			return testworld.Response(200, document), nil
		})
		impatient, giveUp := context.WithCancelCause(t.Context())
		find := func(ctx context.Context) error {
			endpoint, err := w.cache.Find(ctx, discovery.Key{Issuer: issuer}, "token_endpoint", w.asker)
			if err == nil && endpoint != "https://login.test/token" {
				t.Errorf("the endpoint is %q", endpoint)
			}
			return err
		}
		var all sync.WaitGroup
		first := make(chan error, 1)
		all.Go(func() { first <- find(impatient) })
		synctest.Wait()
		for range 50 {
			all.Go(func() {
				if err := find(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		gone := errors.New("gone")
		giveUp(gone)
		if err := <-first; !errors.Is(err, gone) {
			t.Errorf("who gives up gets %v", err)
		}
		close(answer)
		all.Wait()
		w.asked(1)
	})
}

// threats.md 142: an issuer that hangs ends with the time of who asks.
func TestHangingIssuer(t *testing.T) {
	for name, answer := range map[string]testworld.Answer{
		"before its header": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"in its document": func(r *http.Request) (*http.Response, error) {
			slow := testworld.Response(200, "")
			slow.Body = io.NopCloser(hanging{r.Context()})
			return slow, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, answer)
				began := time.Now()
				_, err := w.cache.Find(t.Context(), discovery.Key{Issuer: issuer}, "token_endpoint", w.asker)
				var failure *view.DiscoveryError
				if took := time.Since(began); !errors.As(err, &failure) || !failure.Retryable || !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
					t.Errorf("after %v the error is %v", took, err)
				}
			})
		})
	}
}

// hanging is a body that never comes.
type hanging struct{ ctx context.Context }

func (h hanging) Read([]byte) (int, error) {
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

// Who trusts other certificates gets another document. threats.md 141
func TestTrustSeparation(t *testing.T) {
	w := newWorld(t, testworld.Respond(200, document))
	for _, trust := range [][32]byte{{}, {1}, {}, {1}} {
		if _, err := w.cache.Find(t.Context(), discovery.Key{Issuer: issuer, Trust: trust}, "token_endpoint", w.asker); err != nil {
			t.Error(err)
		}
	}
	w.asked(2)
}

// The number of documents is bounded. threats.md 142
func TestDocumentBound(t *testing.T) {
	w := newWorld(t, testworld.Respond(500, ""))
	for i := range 2000 {
		_, _ = w.cache.Find(t.Context(), discovery.Key{Issuer: fmt.Sprint("https://", i, ".test")}, "token_endpoint", w.asker)
	}
	w.asked(2000)
	_, _ = w.cache.Find(t.Context(), discovery.Key{Issuer: "https://1000.test"}, "token_endpoint", w.asker)
	w.asked(2000)
	_, _ = w.cache.Find(t.Context(), discovery.Key{Issuer: "https://999.test"}, "token_endpoint", w.asker)
	w.asked(2001)
}

// After the host has been closed, what is known counts, and nothing is asked.
func TestNoRequestAfterClose(t *testing.T) {
	w := newWorld(t, testworld.Respond(200, document))
	w.want("https://login.test/token", "")
	closed := errors.New("closed")
	w.asker.Go = func(func()) error { return closed }
	w.clock.Advance(time.Hour)
	w.want("https://login.test/token", "")
	if _, err := w.cache.Find(t.Context(), discovery.Key{Issuer: "https://other.test"}, "token_endpoint", w.asker); !errors.Is(err, closed) {
		t.Errorf("the error is %v", err)
	}
	w.asked(1)
}

// A client with a certificate is sent to the endpoints of mtls_endpoint_aliases, where there are any (RFC 8705 section 5).
// Others, and browsers, are not.
func TestEndpointsForClientsWithACertificate(t *testing.T) {
	const start = `{"issuer":"https://login.test","token_endpoint":"https://login.test/token","authorization_endpoint":"https://login.test/authorize",` +
		`"revocation_endpoint":"https://login.test/revoke","mtls_endpoint_aliases":`
	const both = start + `{"token_endpoint":"https://mtls.login.test/token","authorization_endpoint":"https://mtls.login.test/authorize","other":1}}`
	for name, c := range map[string]struct {
		text   string
		mutual bool
		// want has the endpoint of each member, or the beginning of its error.
		want map[string]string
	}{
		"without a certificate": {both, false, map[string]string{"token_endpoint": "https://login.test/token", "revocation_endpoint": "https://login.test/revoke"}},
		"with one": {both, true, map[string]string{
			"token_endpoint": "https://mtls.login.test/token", "revocation_endpoint": "https://login.test/revoke", "authorization_endpoint": "https://login.test/authorize",
		}},
		"only there":            {strings.Replace(both, `"token_endpoint"`, `"a_endpoint"`, 1), true, map[string]string{"token_endpoint": "https://mtls.login.test/token"}},
		"null":                  {start + `null}`, true, map[string]string{"token_endpoint": "https://login.test/token"}},
		"a text":                {start + `"https://mtls.login.test"}`, true, map[string]string{"token_endpoint": "has mtls_endpoint_aliases that are no object"}},
		"a text, for nobody":    {start + `"https://mtls.login.test"}`, false, map[string]string{"token_endpoint": "https://login.test/token"}},
		"plain http":            {start + `{"token_endpoint":"http://mtls.login.test/token"}}`, true, map[string]string{"token_endpoint": "token_endpoint in mtls_endpoint_aliases is plain http"}},
		"a number for an alias": {start + `{"token_endpoint":1}}`, true, map[string]string{"token_endpoint": "token_endpoint in mtls_endpoint_aliases is not a text"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, testworld.Respond(200, c.text))
			w.asker.Mutual = c.mutual
			for member, want := range c.want {
				endpoint, err := w.cache.Find(t.Context(), discovery.Key{Issuer: issuer}, member, w.asker)
				if endpoint != want && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("%s is %q, %v; want %s", member, endpoint, err, want)
				}
			}
		})
	}
}
