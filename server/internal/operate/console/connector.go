package console

import (
	"net/http"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/explain"
	"github.com/keywright/keywright/server/internal/trial"
)

// connectorView is the page of one connector.
type connectorView struct {
	connectorRow
	// URL and Methods are those of the definition.
	URL     string
	Methods []string
	Paths   string
	// Certificate is the client certificate that was needed last, or nil.
	Certificate *host.ClientCertificate
	// Failures are the last failures, the newest first.
	Failures []Failure
	// Form has the values of the form, and Example is a path that callers may ask for.
	Form    testForm
	Example string
	// Explained is the request as keywright explain shows it. NotExplained says why it cannot be shown.
	Explained, NotExplained string
	// Result is the result of a test, or nil.
	Result *testResult
}

// AskAnew reports whether a test may have to ask a token endpoint anew to find out more.
func (v *connectorView) AskAnew() bool {
	return !v.Closed.IsZero() || v.Result != nil && v.Result.Refusal != nil
}

// testForm has the values of the form with which an operator tests a connector.
type testForm struct {
	Method, Path, Body, Email, ID, Tenant string
	// Anew asks token endpoints although refusals of them are remembered.
	Anew bool
	// Description asks for what token endpoints say about a refusal.
	Description bool
}

// shownUser returns the user for whom the page shows the request: that of the form, or a made-up one if the fields are empty.
func (f *testForm) shownUser() host.User {
	if f.ID == "" && f.Email == "" && f.Tenant == "" {
		return host.User{ID: "ann", Email: "ann@example.com", TenantID: "t1"}
	}
	return host.User{ID: f.ID, Email: f.Email, TenantID: f.Tenant}
}

// find returns the connector in the path of a request.
func find(s *State, r *http.Request) (*gateway.Connector, error) {
	permalink := r.PathValue("permalink")
	i := slices.IndexFunc(s.Set.Connectors, func(c *gateway.Connector) bool { return c.Definition().Permalink == permalink })
	if i < 0 {
		return nil, notFound("there is no connector %q", host.Printable(permalink))
	}
	return s.Set.Connectors[i], nil
}

// connector returns the view of the connector in the path of a request.
func (c *Console) connector(s *State, r *http.Request) (any, error) {
	connector, err := find(s, r)
	if err != nil {
		return nil, err
	}
	return c.one(s, r, connector, testForm{}), nil
}

// one returns the view of a connector, with its request for the values of a form.
func (c *Console) one(s *State, r *http.Request, connector *gateway.Connector, form testForm) *connectorView {
	d := connector.Definition()
	view := &connectorView{
		connectorRow: c.row(r.Context(), s, connector), URL: d.URL, Methods: d.Methods, Paths: strings.Join(d.Paths, ", "),
		Certificate: connector.Upstream().LastClientCertificate(), Failures: c.config.Recorder.failures(d.Permalink), Form: form, Example: trial.ExamplePath(d.Paths),
	}
	if view.Form.Method == "" {
		view.Form.Method = d.Methods[0]
	}
	text, err := explain.Text(host.WithUser(r.Context(), form.shownUser()), connector, form.Method, form.Path)
	if view.Explained = text; err != nil {
		view.NotExplained = host.Printable(err.Error())
	}
	return view
}
