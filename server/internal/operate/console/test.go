package console

import (
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/trial"
)

// maxForm is the maximum number of bytes of the form of a test.
const maxForm = 1 << 20

// testResult is the result of an operator's test.
type testResult struct {
	*trial.Result
	// Text reports whether the body is text, and Shown is the body then. Download is the body as a link, byte for byte.
	Text     bool
	Shown    string
	Download template.URL
	Way      []Step
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
	result, err := trial.Run(r.Context(), c.config.Gateway, connector.Definition().Permalink, trial.Try{
		Method: f.Method, Path: f.Path, Body: f.Body, AskAnew: f.Anew, ErrorDescription: f.Description, User: host.User{ID: f.ID, Email: f.Email, TenantID: f.Tenant},
	})
	if err != nil {
		return nil, &failure{http.StatusBadRequest, host.Printable(err.Error())}
	}
	event := result.Event.(gateway.Event)
	return &testResult{
		Result: result, Way: wayOf(&event), Text: utf8.Valid(result.Body), Shown: string(result.Body),
		Download: template.URL("data:application/octet-stream;base64," + base64.StdEncoding.EncodeToString(result.Body)), //nolint:gosec // of base64
	}, nil
}
