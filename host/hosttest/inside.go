package hosttest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing/iotest"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/inputs"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/testworld"
)

// secrets is the host's view of the harness's secrets. The token of an identity is the secret of its name.
type secrets struct{ harness *Harness }

func (s secrets) Secret(_ context.Context, name string) (string, error) {
	s.harness.mu.Lock()
	defer s.harness.mu.Unlock()
	if value, ok := s.harness.secrets[name]; ok {
		return value, nil
	}
	return "", fmt.Errorf("%w: set one with Harness.Canary or Harness.Secret, or in secrets of a case", host.ErrSecretNotFound)
}

// Hosts implements host.Identities.
func (s secrets) Hosts(string, string) []string { return s.harness.config.UserTokenHosts }

// Identity implements host.Identities.
func (s secrets) Identity(ctx context.Context, r host.IdentityRequest) (string, error) {
	return s.Secret(ctx, r.Name)
}

type logger struct {
	harness *Harness
	attrs   []slog.Attr
}

func (*logger) Enabled(context.Context, slog.Level) bool { return true }

func (l *logger) Handle(_ context.Context, r slog.Record) error {
	r = r.Clone()
	r.AddAttrs(l.attrs...)
	l.harness.set(func() { l.harness.logs = append(l.harness.logs, r) })
	return nil
}

func (l *logger) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logger{harness: l.harness, attrs: append(slices.Clone(l.attrs), attrs...)}
}

// WithGroup returns l itself: for a search of all values, the groups of attributes do not matter.
func (l *logger) WithGroup(string) slog.Handler { return l }

// Render returns a text whose expressions are evaluated, as those of a connector are, with the secrets, the variables, the user and
// the time of the harness.
func (h *Harness) Render(text string) (string, error) {
	compiled, wrong := template.Compile(text)
	if len(wrong) > 0 {
		return "", wrong[0]
	}
	h.mu.Lock()
	user, variables := h.user, maps.Clone(h.config.Variables)
	h.mu.Unlock()
	names, ctx := compiled.Names(), host.WithUser(context.Background(), user)
	if len(names.Discovered) > 0 {
		return "", errors.New("an expected text cannot be discovered: write it")
	}
	in, err := inputs.OfTemplate(ctx, &names, secrets{h}, nil, variables)
	if err != nil {
		return "", err
	}
	for _, i := range names.Identities {
		token, err := secrets{h}.Secret(ctx, i.Name)
		if err != nil {
			return "", err
		}
		in.Identities = append(in.Identities, token)
	}
	random := iotest.ErrReader(errors.New("an expected text cannot be random: use {matches: …}"))
	parts, err := compiled.Render(hostfn.New(ctx, &hostfn.Plan{Names: names, Clock: h.Now, Random: random}, in, hostfn.Inline).Values())
	if err != nil {
		return "", err
	}
	return template.Join(parts), nil
}

// Answer returns the answer of a token endpoint or the API to a request. An error stands for an error of the network.
type Answer func(*http.Request) (*http.Response, error)

// JSON returns an Answer with a status and a JSON document.
func JSON(status int, body string) Answer {
	return Answer(testworld.Respond(status, body, "Content-Type", "application/json"))
}

// Token returns the Answer of a token endpoint that issues a bearer token, RFC 6749 section 5.1. expiresIn is in seconds.
func Token(accessToken string, expiresIn int) Answer {
	return Answer(testworld.Token(accessToken, int64(expiresIn)))
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
	h.set(func() { h.endpoints[target] = &answers })
}

// API sets the answers of the API. Each request gets the next answer, and the last answer is repeated. By default, the
// API answers 200 with {}.
func (h *Harness) API(answers ...Answer) {
	h.tb.Helper()
	if len(answers) == 0 {
		h.tb.Fatalf("hosttest: API without an answer; give it one, such as hosttest.JSON")
	}
	h.set(func() { h.api = answers })
}

// answer returns the first of several answers to a request, and drops it unless it is the last.
func (h *Harness) answer(r *http.Request, answers *[]Answer) (*http.Response, error) {
	h.mu.Lock()
	first := (*answers)[0]
	if len(*answers) > 1 {
		*answers = (*answers)[1:]
	}
	h.mu.Unlock()
	response, err := first(r)
	if response != nil && response.Request == nil {
		response.Request = r
	}
	return response, err
}

// tokenEndpoint is the base transport of the host. It reaches the token endpoints of the test, and nothing else.
func (h *Harness) tokenEndpoint(r *http.Request) (*http.Response, error) {
	body, err := testworld.ReadBody(r)
	if err != nil {
		return nil, fmt.Errorf("hosttest: the request's body: %w", err)
	}
	var form url.Values
	if r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
		if form, err = url.ParseQuery(body); err != nil {
			h.tb.Errorf("hosttest: the token request to %s is no form: %v", r.URL, err)
		}
	}
	h.evidence.noteRequest(r.Header, form)
	h.mu.Lock()
	endpoint := cmp.Or(h.endpoints[r.URL.String()], h.endpoints["*"])
	urls := slices.Sorted(maps.Keys(h.endpoints))
	if endpoint != nil {
		h.exchanges = append(h.exchanges, Exchange{Method: r.Method, URL: r.URL.String(), Form: form, Header: r.Header.Clone(), Body: body})
	}
	h.mu.Unlock()
	if endpoint == nil {
		h.tb.Errorf("hosttest: a token request went to %q, for which the test has no answer: give it one with h.TokenEndpoint(%q, …), or in endpoints of a case; there are answers for %q",
			r.URL, r.URL, urls)
		return nil, errors.New("hosttest: the test has no answer for this URL")
	}
	response, err := h.answer(r, endpoint)
	if err == nil {
		h.recordTokens(r.URL.String(), response)
	}
	return response, err
}

// recordTokens records the tokens of an answer before the guest receives them.
func (h *Harness) recordTokens(target string, response *http.Response) {
	const maxAnswer = 1 << 20 // limits the bytes that are read of a token endpoint's answer before the host gets it. The host's own limit is lower
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), iotest.ErrReader(cmp.Or(err, io.EOF)), response.Body), response.Body}
	for name, value := range answer.Sealed(h.Description().Answers, response.Header, body) {
		h.evidence.secret("the answer "+name+" of "+target, value)
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
