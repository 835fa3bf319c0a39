package casefile

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
)

// Run runs the case with a harness that has not been used. What is not as expected fails tb, with the file and the line.
func (c *Case) Run(tb hosttest.TB, h *hosttest.Harness) {
	tb.Helper()
	c.prepare(h)
	if len(c.Problems) > 0 {
		c.checkProblems(tb, h)
		return
	}
	steps := c.Steps
	if len(steps) == 0 {
		steps = []Step{c.Step}
	}
	for i := range steps {
		steps[i].run(tb, h, c.Config)
	}
}

// Try sends the request of a case without Steps with an unused harness, and compares nothing. Results are those of [hosttest.Harness.Try].
func (c *Case) Try(h *hosttest.Harness) (*hosttest.Result, error) {
	c.prepare(h)
	r, err := c.Request.http()
	if err != nil {
		return nil, err
	}
	return h.Try(c.Config, r)
}

// prepare sets what the case itself has.
func (c *Case) prepare(h *hosttest.Harness) {
	for name, value := range c.Variables {
		h.Variable(name, value)
	}
	h.Grant(c.Grants...)
	h.UserTokenHosts(c.UserTokenHosts...)
	h.Auths(c.Auth...)
	h.Type(c.Type)
	if c.AllowHTTP {
		h.AllowHTTP()
	}
	for !c.Time.IsZero() && !h.Now().Equal(c.Time) {
		h.Advance(c.Time.Sub(h.Now())) // a Duration has at most 292 years
	}
	c.set(h)
}

func (c *Case) checkProblems(tb hosttest.TB, h *hosttest.Harness) {
	k := comparison{tb, h, c.place}
	var texts []string
	for _, p := range h.Problems(c.Config) {
		texts = append(texts, p.Path+": "+p.Message)
	}
	if len(texts) != len(c.Problems) {
		k.errorf("the configuration has %d problems, and not %d: %q", len(texts), len(c.Problems), texts)
	}
	for _, want := range c.Problems {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, want) }) {
			k.errorf("no problem contains %q: %q", want, texts)
		}
	}
	for _, text := range texts {
		if !slices.ContainsFunc(c.Problems, func(want string) bool { return strings.Contains(text, want) }) {
			k.errorf("the configuration has the problem %q, which is not expected", text)
		}
	}
}

func (s *Step) set(h *hosttest.Harness) {
	for name, value := range s.Secrets {
		h.Secret(name, value)
	}
	for name, algorithm := range s.Keys {
		h.Key(name, algorithm)
	}
	if u := s.User; u != nil {
		h.As(host.User{ID: u.ID, TenantID: u.Tenant, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName, Token: u.Token})
	}
	if s.Random != "" {
		h.Random(s.Random)
	}
	for target, replies := range s.Endpoints {
		h.TokenEndpoint(target, answers(replies)...)
	}
	if len(s.Answers) > 0 {
		h.API(answers(s.Answers)...)
	}
}

func (s *Step) run(tb hosttest.TB, h *hosttest.Harness, config hosttest.Config) {
	tb.Helper()
	if s.Restart {
		h.Restart()
	}
	h.Advance(s.Advance)
	s.set(h)
	c := comparison{tb, h, s.place}
	exchanges, calls := len(h.Exchanges()), len(h.Calls())
	switch {
	case s.Consent != nil:
		s.consent(c, config)
	case s.Disconnect:
		c.failure(h.Disconnect(config), s.Expect.Error)
	case s.Request != nil:
		s.request(c, config)
	}
	if s.Expect.Exchanges != nil {
		c.exchanges(h.Exchanges()[exchanges:], s.Expect.Exchanges)
	}
	for _, call := range h.Calls()[calls:] {
		if limit := s.Expect.Fuel; limit > 0 && call.Fuel > limit {
			c.errorf("the plugin used %d units of fuel, and not at most %d", call.Fuel, limit)
		}
	}
}

// request sends the step's request, as often at once as it says, and compares the result of each.
func (s *Step) request(c comparison, config hosttest.Config) {
	var sending sync.WaitGroup
	compare := make([]func(), max(1, s.Request.Parallel))
	for i := range compare {
		r, err := s.Request.http()
		if err != nil {
			c.tb.Fatalf("%s: the request: %v", c.place, err)
		}
		send := func() {
			result, err := c.harness.Try(config, r)
			compare[i] = func() { s.compare(c, result, err) }
		}
		if len(compare) > 1 {
			sending.Go(send)
		} else {
			send()
		}
	}
	sending.Wait()
	for _, f := range compare {
		f()
	}
}

func (s *Step) compare(c comparison, result *hosttest.Result, err error) {
	want := s.Expect
	if !c.failure(err, want.Error) {
		return
	}
	attempts := 0
	if result != nil {
		attempts = result.Attempts
	}
	switch {
	case want.Attempts != nil && attempts != *want.Attempts:
		c.errorf("the API got %d requests, and not %d", attempts, *want.Attempts)
	case want.Attempts == nil && err != nil && attempts > 0:
		c.errorf("the API got the request, but an error is expected: if it is one of a later attempt, say how many with attempts")
	}
	switch {
	case want.Status == 0:
	case result == nil || result.Response == nil:
		c.errorf("the caller gets no answer, and not one with the status %d", want.Status)
	case result.Response.StatusCode != want.Status:
		c.errorf("the caller gets the status %d, and not %d", result.Response.StatusCode, want.Status)
	}
	if result == nil {
		if want.ofRequest() {
			c.errorf("the API got no request, so that its url, headers, query, form and body cannot be as expected")
		}
		return
	}
	c.target(result.Request.URL, want)
	body, _ := io.ReadAll(result.Request.Body) // from memory
	c.message(result.Request.Header, string(body), want.Headers, want.Form, want.Body)
}

func (s *Step) consent(c comparison, config hosttest.Config) {
	sawPage := false
	err := c.harness.Consent(config, func(page *url.URL) url.Values {
		sawPage = true
		c.target(page, s.Expect)
		answer := url.Values{}
		for name, value := range s.Consent {
			answer.Set(name, value)
		}
		return answer
	})
	if c.failure(err, s.Expect.Error) && !sawPage && s.Expect.ofRequest() {
		c.errorf("the browser went to no page, so that its url and query cannot be as expected")
	}
}

func (r *Request) http() (*http.Request, error) {
	method := r.Method
	if method == "" && r.Body != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequest(method, r.URL, strings.NewReader(r.Body)) //nolint:noctx // Try adds the context
	if err != nil {
		return nil, err
	}
	for name, value := range r.Headers {
		request.Header.Add(name, value)
	}
	return request, nil
}

func answers(replies []Reply) (all []hosttest.Answer) {
	for _, r := range replies {
		all = append(all, r.answer)
	}
	return all
}

func (r Reply) answer(request *http.Request) (*http.Response, error) {
	if r.Unreachable {
		return hosttest.Unreachable()(request)
	}
	status := cmp.Or(r.Status, http.StatusOK)
	response := testworld.Response(status, r.Body)
	if r.JSON != nil {
		document, _ := json.Marshal(r.JSON) // Read refuses what cannot be JSON
		response = testworld.Response(status, string(document), "Content-Type", "application/json")
	}
	for name, value := range r.Headers {
		response.Header.Set(name, value)
	}
	return response, nil
}
