package hosttest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/sdk"
)

// orders is the number of times that a case runs natively. Go ranges over a map in another order each time, and the sandbox does not.
const orders = 5

// Cases runs the cases of a file as subtests, each in the sandbox and natively, as [Run] does. Natively, it runs each several times.
func Cases(t *testing.T, p sdk.Plugin, wasm, file string) {
	t.Helper()
	cases, err := ReadCases(file)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			Run(t, p, wasm, func(_ *testing.T, h *Harness) { c.Run(h) })
			if p != nil && !t.Failed() {
				c.again(t, p, wasm)
			}
		})
	}
}

// again runs the case natively several times more.
func (c *Case) again(tb TB, p sdk.Plugin, wasm string) {
	tb.Helper()
	for range orders - 1 {
		run := &Collector{}
		run.Run(func() { c.Run(newNativeHarness(run, c.Name, p, wasm, callTimeout)) })
		run.End()
		if texts := failuresOf(run); len(texts) > 0 {
			tb.Errorf("hosttest: natively, the plugin does not do the same each time. Perhaps it ranges over a map, whose order is random in Go "+
				"and fixed in the sandbox: %s", texts[0])
			return
		}
	}
}

// Run runs the case with a harness that has not been used. What is not as expected fails the harness's test, with the file and
// the line.
func (c *Case) Run(h *Harness) {
	h.tb.Helper()
	c.prepare(h, "Case.Run")
	if len(c.Problems) > 0 {
		c.set(h)
		c.refused(h)
		return
	}
	steps := c.Steps
	if len(steps) > 0 {
		c.set(h)
	} else {
		steps = []Step{c.Step}
	}
	for _, s := range steps {
		s.run(h, c.Config)
	}
}

// Try sends the request of a case without Steps, with a harness that has not been used, and compares nothing. Its results are those
// of [Harness.Try].
func (c *Case) Try(h *Harness) (*Result, error) {
	h.tb.Helper()
	c.prepare(h, "Case.Try")
	c.set(h)
	r, err := c.Request.http()
	if err != nil {
		return nil, err
	}
	return h.Try(c.Config, r)
}

// prepare sets what the harness must know before its first request.
func (c *Case) prepare(h *Harness, what string) {
	h.tb.Helper()
	h.prepare(what, func() {
		for name, value := range c.Variables {
			h.variables[name] = value
		}
		h.grants, h.http, h.tokenHosts, h.authType = c.Grants, c.AllowHTTP, c.UserTokenHosts, c.Type
	})
	for !c.Time.IsZero() && !h.Now().Equal(c.Time) {
		h.Advance(c.Time.Sub(h.Now())) // a Duration has at most 292 years
	}
}

// refused checks that the configuration has the problems of the case.
func (c *Case) refused(h *Harness) {
	h.tb.Helper()
	e := expecting{h, c.place}
	problems := h.Problems(c.Config)
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Path+": "+p.Message)
	}
	if len(problems) != len(c.Problems) {
		e.errorf("the configuration has %d problems, and not %d: %q", len(problems), len(c.Problems), texts)
	}
	for _, want := range c.Problems {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, want) }) {
			e.errorf("no problem contains %q: %q", want, texts)
		}
	}
	for _, text := range texts {
		if !slices.ContainsFunc(c.Problems, func(want string) bool { return strings.Contains(text, want) }) {
			e.errorf("the configuration has the problem %q, which is not expected", text)
		}
	}
}

// set sets what the step changes in its host.
func (s *Step) set(h *Harness) {
	h.tb.Helper()
	for name, value := range s.Secrets {
		h.Secret(name, value)
	}
	for name, algorithm := range s.Keys {
		h.Key(name, algorithm)
	}
	if s.User != nil {
		u := *s.User
		h.As(host.User{ID: u.ID, TenantID: u.Tenant, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName, Token: u.Token})
	}
	if s.Random != "" {
		h.Random(s.Random)
	}
	for target, replies := range s.Endpoints {
		h.TokenEndpoint(target, answersOf(replies)...)
	}
	if len(s.Answers) > 0 {
		h.API(answersOf(s.Answers)...)
	}
}

// run does what the step says, and compares the result.
func (s *Step) run(h *Harness, config Config) {
	h.tb.Helper()
	if s.Restart {
		h.Restart()
	}
	h.Advance(s.Advance)
	s.set(h)
	e := expecting{h, s.place}
	exchanges, calls := len(h.Exchanges()), len(h.Calls())
	switch {
	case s.Consent != nil:
		s.consent(e, config)
	case s.Disconnect:
		e.failure(h.Disconnect(config), s.Expect.Error)
	case s.Request != nil:
		s.request(e, config)
	}
	if s.Expect.Exchanges != nil {
		e.exchanges(h.Exchanges()[exchanges:], s.Expect.Exchanges)
	}
	for _, call := range h.Calls()[calls:] {
		if most := s.Expect.Fuel; most > 0 && call.Fuel > most {
			e.errorf("the plugin used %d units of fuel, and not at most %d", call.Fuel, most)
		}
	}
}

// request sends the step's request, as often at once as it says, and compares the result of each.
func (s *Step) request(e expecting, config Config) {
	e.harness.tb.Helper()
	all := make([]struct {
		result *Result
		err    error
	}, max(1, s.Request.Parallel))
	var sending sync.WaitGroup
	for i := range all {
		r, err := s.Request.http()
		if err != nil {
			e.fatalf("the request: %v", err)
		}
		send := func() { all[i].result, all[i].err = e.harness.Try(config, r) }
		if len(all) > 1 {
			sending.Go(send)
		} else {
			send()
		}
	}
	sending.Wait()
	for _, one := range all {
		s.compare(e, one.result, one.err)
	}
}

// compare compares the result of a request.
func (s *Step) compare(e expecting, result *Result, err error) {
	e.harness.tb.Helper()
	want := s.Expect
	if !e.failure(err, want.Error) {
		return
	}
	attempts := 0
	if result != nil {
		attempts = result.Attempts
	}
	switch {
	case want.Attempts != nil && attempts != *want.Attempts:
		e.errorf("the API got %d requests, and not %d", attempts, *want.Attempts)
	case want.Attempts == nil && err != nil && attempts > 0:
		e.errorf("the API got the request, but an error is expected: if it is one of a later attempt, say how many with attempts")
	}
	switch {
	case want.Status == 0:
	case result == nil || result.Response == nil:
		e.errorf("the caller gets no answer, and not one with the status %d", want.Status)
	case result.Response.StatusCode != want.Status:
		e.errorf("the caller gets the status %d, and not %d", result.Response.StatusCode, want.Status)
	}
	if result == nil {
		if want.ofRequest() {
			e.errorf("the API got no request, so that its url, headers, query, form and body cannot be as expected")
		}
		return
	}
	e.target(result.Request.URL, want)
	body, _ := io.ReadAll(result.Request.Body)
	e.message(result.Request.Header, string(body), want.Headers, want.Form, want.Body)
}

// consent goes through the consent of a user.
func (s *Step) consent(e expecting, config Config) {
	e.harness.tb.Helper()
	asked := false
	err := e.harness.Consent(config, func(page *url.URL) url.Values {
		asked = true
		e.target(page, s.Expect)
		answer := url.Values{}
		for name, value := range s.Consent {
			answer.Set(name, value)
		}
		return answer
	})
	if e.failure(err, s.Expect.Error) && !asked && s.Expect.ofRequest() {
		e.errorf("the browser went to no page, so that its url and query cannot be as expected")
	}
}

// http returns the request.
func (r *Request) http() (*http.Request, error) {
	method := r.Method
	switch {
	case method == "" && r.Body == "":
		method = http.MethodGet
	case method == "":
		method = http.MethodPost
	}
	var body io.Reader
	if r.Body != "" {
		body = strings.NewReader(r.Body)
	}
	made, err := http.NewRequest(method, r.URL, body) //nolint:noctx // Try adds the context
	if err != nil {
		return nil, err
	}
	for name, value := range r.Headers {
		made.Header.Add(name, value)
	}
	return made, nil
}

// answersOf returns the answers that replies describe.
func answersOf(replies []Reply) (answers []Answer) {
	for _, r := range replies {
		answers = append(answers, r.answer)
	}
	return answers
}

// answer is the [Answer] that the reply describes.
func (r Reply) answer(request *http.Request) (*http.Response, error) {
	if r.Unreachable {
		return Unreachable()(request)
	}
	status := r.Status
	if status == 0 {
		status = http.StatusOK
	}
	body := r.Body
	if r.JSON != nil {
		document, err := json.Marshal(r.JSON)
		if err != nil {
			return nil, fmt.Errorf("hosttest: the answer is not JSON: %w", err)
		}
		body = string(document)
	}
	response, err := JSON(status, body)(request)
	if r.JSON == nil {
		response.Header.Del("Content-Type")
	}
	for name, value := range r.Headers {
		response.Header.Set(name, value)
	}
	return response, err
}
