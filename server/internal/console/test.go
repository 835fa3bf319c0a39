package console

import (
	"encoding/base64"
	"html/template"
	"math"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// maxForm is the maximum number of bytes of the form of a test.
const maxForm = 1 << 20

// testResult is the result of an operator's test.
type testResult struct {
	*gateway.TestResult
	// Phrase is the reason phrase of the status, and Took the time of the test.
	Phrase string
	Took   string
	// Text reports whether the body is text, and Shown is the body then. Download is the body as a link, byte for byte.
	Text     bool
	Shown    string
	Download template.URL
	Way      []Step
	// Ago and Until are the times of a remembered refusal, for people.
	Ago, Until string
	// Exchanged and Answered have the exchanges and the API's answers for people.
	Exchanged, Answered []string
}

// test tests the connector in the path of a request with the values of its form, and returns its view.
func (c *Console) test(s *State, r *http.Request) (any, error) {
	connector, err := find(s, r)
	if err != nil {
		return nil, err
	}
	form, err := readForm(r)
	if err != nil {
		return nil, err
	}
	result, err := c.run(r, connector, form)
	if err != nil {
		return nil, err
	}
	view := c.one(s, r, connector, form)
	view.Result = result
	return view, nil
}

// readForm returns the values of the form of a test.
func readForm(r *http.Request) (f testForm, err error) {
	r.Body = http.MaxBytesReader(nil, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return f, &failure{http.StatusBadRequest, "the form cannot be read: it has at most 1 MiB"}
	}
	value := func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	return testForm{
		Method: value("method"), Path: value("path"), Body: r.PostForm.Get("body"), Email: value("email"), ID: value("id"), Tenant: value("tenant"),
		Anew: value("anew") != "", Description: value("description") != "",
	}, nil
}

// run runs a test.
func (c *Console) run(r *http.Request, connector *gateway.Connector, f testForm) (*testResult, error) {
	result, err := c.config.Gateway.RunTest(r.Context(), connector.Definition().Permalink, gateway.Try{
		Method: f.Method, Path: f.Path, Body: f.Body, AskAnew: f.Anew, ErrorDescription: f.Description, User: gateway.TriedUser{ID: f.ID, Email: f.Email, TenantID: f.Tenant},
	})
	if err != nil {
		return nil, &failure{http.StatusBadRequest, host.Printable(err.Error())}
	}
	e := &result.Event
	at := e.FailedAt()
	if e.NotConnected() {
		at = e.Stage
	}
	shown := &testResult{
		TestResult: result, Phrase: http.StatusText(result.Status), Took: took(e.Total), Way: wayOf(e, at),
		Text: utf8.Valid(result.Body), Shown: string(result.Body),
		Download: template.URL("data:application/octet-stream;base64," + base64.StdEncoding.EncodeToString(result.Body)), //nolint:gosec // of base64
	}
	if refused := result.Refused; refused != nil {
		shown.Ago, shown.Until = lasts(seconds(refused.AgeSeconds)), lasts(seconds(math.Ceil(refused.RetrySeconds)))
		if refused.JustAsked() {
			shown.Ago = "less than 1 s"
		}
	}
	for _, exchange := range result.Exchanges {
		shown.Exchanged = append(shown.Exchanged, exchange.String())
	}
	for _, answer := range result.Answers {
		shown.Answered = append(shown.Answered, answer.String())
	}
	return shown, nil
}

// seconds returns a number of seconds as a duration.
func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
