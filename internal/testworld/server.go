package testworld

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Answer answers a request, whose body it may read. It is an [http.RoundTripper].
type Answer func(*http.Request) (*http.Response, error)

// RoundTrip calls a.
func (a Answer) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// Respond returns an Answer that is always the same [Response].
func Respond(status int, body string, header ...string) Answer {
	return func(*http.Request) (*http.Response, error) { return Response(status, body, header...), nil }
}

// Response returns a response with a status, a body, and headers. Their names and values alternate in header.
func Response(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for pair := range slices.Chunk(header, 2) {
		h.Add(pair[0], pair[1])
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Header: h,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// ReadBody returns the body of a request, and replaces it by a copy.
func ReadBody(r *http.Request) (string, error) {
	if r.Body == nil {
		return "", nil
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	return string(body), err
}

// Token returns the Answer of a token endpoint that issues a bearer token, RFC 6749 section 5.1.
func Token(accessToken string, expiresIn int64) Answer {
	return Respond(http.StatusOK, fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, accessToken, expiresIn))
}

// Tokens returns the Answer of a token endpoint that issues a new token each time: t1, t2, and so on.
func Tokens(expiresIn int64) Answer {
	var n atomic.Int64
	return func(r *http.Request) (*http.Response, error) {
		return Token(fmt.Sprintf("t%d", n.Add(1)), expiresIn)(r)
	}
}

// Request is a request as a server received it.
type Request struct {
	Method, URL, Body string
	Header            http.Header
}

// Form returns the parameters of a body that is a form.
func (r Request) Form() url.Values {
	form, err := url.ParseQuery(r.Body)
	if err != nil {
		return url.Values{"not a form": {err.Error()}}
	}
	return form
}

// Server is a server without a network: an [http.RoundTripper] that keeps the requests that it receives. It is safe for concurrent use.
type Server struct {
	mu       sync.Mutex
	answer   Answer
	received []Request
}

// NewServer returns a server that answers with a.
func NewServer(a Answer) *Server { return &Server{answer: a} }

// Answer sets the Answer to all later requests.
func (s *Server) Answer(a Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = a
}

// RoundTrip receives a request with its whole body and answers it.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := ReadBody(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.received = append(s.received, Request{Method: r.Method, URL: r.URL.String(), Header: r.Header.Clone(), Body: body})
	answer := s.answer
	s.mu.Unlock()
	response, err := answer(r)
	if response != nil && response.Request == nil {
		response.Request = r
	}
	return response, err
}

// Received returns the requests so far.
func (s *Server) Received() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

// Count returns the number of requests so far.
func (s *Server) Count() int { return len(s.Received()) }

// Last returns the last request. It panics if there is none.
func (s *Server) Last() Request {
	all := s.Received()
	return all[len(all)-1]
}

// Serve runs a server, such as a gateway, until end is called or the test ends. It sets started, which run has to call with the URLs of the
// server, and returns them. A server that fails, before or at its end, fails the test.
func Serve(
	t testing.TB, started *func(callers, operators string), run func(context.Context) error,
) (callers, operators string, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	listens, result := make(chan struct{}), make(chan error, 1)
	*started = func(c, o string) {
		callers, operators = c, o
		close(listens)
	}
	go func() { result <- run(ctx) }()
	select {
	case <-listens:
	case err := <-result:
		cancel()
		t.Fatal(err)
	}
	end = sync.OnceValue(func() error {
		cancel()
		return <-result
	})
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return callers, operators, end
}

// ClaimsAsBodies returns 40 bodies of requests that are the claims of a client, as they are and in base64url.
func ClaimsAsBodies(client, audience string) (all []string) {
	for _, subject := range []string{client, "admin", "1", "ann@example.com"} {
		for _, claims := range []string{
			`{"iss":"SUBJECT","sub":"SUBJECT","aud":"AUDIENCE","exp":4000000000,"jti":"a"}`, `{"iss":"SUBJECT","sub":"SUBJECT","aud":"AUDIENCE","exp":4000000000,"iat":0,"nbf":0}`,
			` {"sub":"SUBJECT","exp":4000000000}`, "\n{\"iss\":\"SUBJECT\"}", `{"sub":"SUBJECT","scope":"all"}`,
		} {
			text := strings.NewReplacer("SUBJECT", subject, "AUDIENCE", audience).Replace(claims)
			all = append(all, text, base64.RawURLEncoding.EncodeToString([]byte(text)))
		}
	}
	return all
}

// JWTOf returns a detached JWS with a body as its payload, as it is and in base64url.
func JWTOf(detached, body string) []string {
	parts := strings.Split(detached, ".")
	return []string{parts[0] + "." + body + "." + parts[2], parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(body)) + "." + parts[2]}
}

// HostSpellings returns texts that somebody may put in place of a host, or of a label of one, to reach another: addresses of the inside in
// their forms, and ways out of a label.
func HostSpellings() []string {
	return []string{
		"127.0.0.1", "127.1", "127.0.1", "127.0.0.1.", "2130706433", "0x7f000001", "0x7f.0.0.0x1", "0177.0.0.01", "017700000001", "0x7f.1",
		"[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::10.0.0.1]", "[fe80::1%25eth0]", "[fd00:ec2::254]",
		"10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "0.0.0.0", "0", "169.254.169.254", "[::ffff:a9fe:a9fe]", "2852039166", "metadata",
		"metadata.google.internal", "localhost", "LOCALHOST", "localhost.", "a.localhost", "ｌocalhost", "local\u00adhost", "127.0.0.1\u200b",
		"１２７.0.0.１", "127。0。0。1", "127｡0｡0｡1", "①②⑦.0.0.①", "１６９.２５４.１６９.２５４", "evil.example", "evil.example/", "evil.example#", "evil.example?",
		`evil.example\`, "evil.example:443/", "acme@evil.example", "acme:x@evil.example/", "evil.example%2f", "evil.example%00", "evil.example%23.",
		"evil.example\t", "evil.example\r\nHost: x", " evil.example", "evil.example/.", "..", ".", "", "a.b", "a..b", "xn--evil", "xn--80ak6aa92e",
		"acme.", "-acme",
	}
}
