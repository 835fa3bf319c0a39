package hosttest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/internal/testworld"
)

// Answer returns the answer of a token endpoint or the API to a request. An error stands for an error of the network.
type Answer func(*http.Request) (*http.Response, error)

// JSON returns an Answer with a status and a JSON document.
func JSON(status int, body string) Answer {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			Status:     fmt.Sprintf("%d %s", status, http.StatusText(status)),
			StatusCode: status,
			Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header:        http.Header{"Content-Type": {"application/json"}},
			Body:          io.NopCloser(strings.NewReader(body)),
			ContentLength: int64(len(body)),
			Request:       r,
		}, nil
	}
}

// Token returns the Answer of a token endpoint that issues a bearer token, RFC 6749 section 5.1. expiresIn is in
// seconds.
func Token(accessToken string, expiresIn int) Answer {
	body, err := json.Marshal(map[string]any{"access_token": accessToken, "token_type": "Bearer", "expires_in": expiresIn})
	if err != nil {
		panic(err) // strings and numbers are JSON
	}
	return JSON(http.StatusOK, string(body))
}

// Unreachable returns an Answer that fails like a refused connection.
func Unreachable() Answer {
	return func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }
}

// Exchange is a request to a token endpoint.
type Exchange struct {
	Method, URL string
	// Form is the body if that is a form, and nil otherwise.
	Form   url.Values
	Header http.Header
	// Body is the body as it was sent.
	Body string
}

// TokenEndpoint sets the answers of the token endpoint at a URL. Each request gets the next answer, and the last answer
// is repeated. A second call for the same URL replaces the answers. The URL * stands for each one that has no answers of its own.
func (h *Harness) TokenEndpoint(target string, answers ...Answer) {
	h.tb.Helper()
	if len(answers) == 0 {
		h.tb.Fatalf("hosttest: TokenEndpoint(%q) without an answer; give it one, such as hosttest.Token", target)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endpoints[target] = newScript(answers...)
}

// API sets the answers of the API. Each request gets the next answer, and the last answer is repeated. By default, the
// API answers 200 with {}.
func (h *Harness) API(answers ...Answer) {
	h.tb.Helper()
	if len(answers) == 0 {
		h.tb.Fatalf("hosttest: API without an answer; give it one, such as hosttest.JSON")
	}
	h.api.restart(answers)
}

// script returns its answers one after the other, and repeats the last.
type script struct {
	mu      sync.Mutex
	answers []Answer
}

func newScript(answers ...Answer) *script { return &script{answers: answers} }

func (s *script) next() Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return answer
}

func (s *script) restart(answers []Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = answers
}

// anyEndpoint is the URL of TokenEndpoint for all others.
const anyEndpoint = "*"

// tokenEndpoints is the base transport of the host. It reaches the token endpoints of the test, and nothing else.
type tokenEndpoints struct{ harness *Harness }

// RoundTrip implements http.RoundTripper.
func (e tokenEndpoints) RoundTrip(r *http.Request) (*http.Response, error) {
	h := e.harness
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	var form url.Values
	if r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
		if form, err = url.ParseQuery(string(body)); err != nil {
			h.tb.Errorf("hosttest: the token request to %s is no form: %v", r.URL, err)
		}
	}
	h.evidence.sent(r.Header, form)
	h.mu.Lock()
	endpoint := cmp.Or(h.endpoints[r.URL.String()], h.endpoints[anyEndpoint])
	known := slices.Sorted(maps.Keys(h.endpoints))
	if endpoint != nil {
		h.exchanges = append(h.exchanges, Exchange{Method: r.Method, URL: r.URL.String(), Form: form, Header: r.Header.Clone(), Body: string(body)})
	}
	h.mu.Unlock()
	if endpoint == nil {
		h.tb.Errorf("hosttest: a token request went to %q, for which the test has no answer: give it one with h.TokenEndpoint(%q, …), or in endpoints of a case; there are answers for %q",
			r.URL, r.URL, known)
		return nil, errors.New("hosttest: the test has no answer for this URL")
	}
	response, err := endpoint.next()(r)
	if err == nil {
		h.recordTokens(r.URL.String(), response)
	}
	return response, err
}

// maxAnswer limits the bytes that are read of a token endpoint's answer before the host gets it. The host's own limit
// is lower.
const maxAnswer = 1 << 20

// recordTokens records the tokens of an answer before the guest receives them.
func (h *Harness) recordTokens(target string, response *http.Response) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), failing{err}, response.Body), response.Body}
	for name, value := range answer.Sealed(h.Description().Answers, response.Header, body) {
		if len(value) >= testworld.Shortest {
			h.evidence.secret("the answer "+name+" of "+target, value)
		}
	}
	var members map[string]any
	_ = json.Unmarshal(body, &members) // the host reports a body that is no JSON
	for _, name := range []string{"access_token", "refresh_token", "id_token"} {
		token, _ := members[name].(string)
		if strings.TrimSpace(token) == "" {
			continue
		}
		if len(token) < testworld.Shortest {
			h.tb.Errorf("hosttest: the %s %q that the endpoint %s gives is too short to be searched for: make it %d bytes or more",
				name, token, target, testworld.Shortest)
		}
		h.evidence.secret("the "+name+" that "+target+" gave", token)
	}
}

// failing is a reader that returns err, or io.EOF if err is nil.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// readBody reads a request's body, and replaces it by a copy for the Answer.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("hosttest: the request's body: %w", err)
	}
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}
