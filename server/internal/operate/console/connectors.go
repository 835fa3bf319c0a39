package console

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/explain"
	"github.com/keywright/keywright/server/internal/operate/remedy"
	"github.com/keywright/keywright/server/internal/trial"
)

type connectorView struct {
	*entry
	// Token is the condition of what was got last, TokenClass its colour, and TokenName its name.
	Token, TokenClass, TokenName string
	// URL and Methods are those of the definition.
	URL     string
	Methods []string
	Paths   string
	// OtherRequests counts the requests of the last minute on OtherNodes.
	OtherRequests uint32
	// Causes are the groups of failures that failed last, the newest first, and More is the number of others.
	Causes []*activity.Group
	More   int
	// Form has the values of the form, and Example is a path that callers may ask for.
	Form    trial.Try
	Example string
	// Explained is the request as keywright explain shows it. NotExplained says why it cannot be shown.
	Explained, NotExplained string
	// Result is the result of a test, or nil.
	Result *testResult
}

// token sets the condition of the token that was used last. Of an auth type that asks no token endpoint, that is a key to sign with.
func (v *connectorView) token(s *State, auths host.Auths, now time.Time) {
	v.TokenName, v.TokenClass = "Signing key", "soft"
	for _, auth := range auths {
		if p, _ := s.Set.Host.Plugin(auth.Type); slices.Contains(p.Uses, contract.GroupToken) {
			v.TokenName = "Token"
		}
	}
	switch {
	case !v.Closed.IsZero():
		v.Token, v.TokenClass = fmt.Sprintf("refused; asked again in %s", remedy.Lasts(v.Closed.Sub(now))), "bad"
	case v.Expires.IsZero():
	case v.TokenName != "Token":
		v.Token = "of " + v.Expires.UTC().Format("2 January") + ", made anew when it ends"
	case v.Expires.After(now):
		v.Token, v.TokenClass = remedy.Lasts(v.Expires.Sub(now))+" left", ""
	default:
		v.Token = "ended; the next request gets another"
	}
}

// AskAnew reports whether a test may have to ask a token endpoint anew to find out more.
func (v *connectorView) AskAnew() bool {
	return !v.Closed.IsZero() || v.Result != nil && v.Result.Refusal != nil
}

// shownUser is the user for whom the page shows the request if the form names nobody.
var shownUser = trial.User{ID: "ann", Email: "ann@example.com", TenantID: "t1"}

func find(s *State, r *http.Request) (*gateway.Connector, error) {
	connector, err := s.Set.Find(r.PathValue("permalink"))
	if err != nil {
		return nil, &failure{http.StatusNotFound, "", err.Error()}
	}
	return connector, nil
}

func (c *Console) connector(s *State, r *http.Request) (any, error) {
	connector, err := find(s, r)
	if err != nil {
		return nil, err
	}
	return c.one(s, r, connector, trial.Try{}), nil
}

// one returns the view of a connector, with its request for the values of a form.
func (c *Console) one(s *State, r *http.Request, connector *gateway.Connector, form trial.Try) *connectorView {
	const maxCauses = 8 // the maximum number of groups on the page. The page of failures has all
	d := connector.Definition()
	view := &connectorView{
		entry: c.entryOf(s, connector), URL: d.URL, Methods: d.Methods, Paths: strings.Join(d.Paths, ", "),
		Form: form, Example: trial.ExamplePath(d.Paths),
	}
	view.OtherRequests = s.view.RequestsOn(view.OtherNodes, d.Permalink)
	view.find(r.Context(), c, s)
	view.Causes = view.Groups[:min(len(view.Groups), maxCauses)]
	view.More = len(view.Groups) - len(view.Causes)
	view.token(s, d.Auth, c.config.Clock())
	view.Form.Method = cmp.Or(view.Form.Method, d.Methods[0])
	text, err := explain.Text(host.WithUser(r.Context(), host.User(cmp.Or(form.User, shownUser))), connector, form.Method, form.Path)
	if view.Explained = text; err != nil {
		view.NotExplained = host.Printable(err.Error())
	}
	return view
}

type testResult struct {
	*trial.Result
	// Text reports whether the body is text, and Preview is the body then. Download is the body as a link, byte for byte.
	Text     bool
	Preview  string
	Download template.URL
	Way      []activity.Step
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
	var result *trial.Result
	err = c.config.Acts.Do(r.Context(), acts.FromRequest(r, "test", connector.Definition().Permalink), func() error {
		result, err = trial.Run(r.Context(), c.config.Gateway, connector.Definition().Permalink, form)
		return err
	})
	switch {
	case errors.Is(err, acts.ErrUnrecorded):
		return nil, away(err)
	case err != nil:
		return nil, &failure{http.StatusBadRequest, "", host.Printable(err.Error())}
	}
	event := result.Event.(gateway.Event)
	view := c.one(s, r, connector, form)
	view.Result = &testResult{
		Result: result, Way: activity.Way(&event), Text: utf8.Valid(result.Body), Preview: string(result.Body),
		Download: template.URL("data:application/octet-stream;base64," + base64.StdEncoding.EncodeToString(result.Body)), //nolint:gosec // of base64
	}
	return view, nil
}

func readForm(r *http.Request) (t trial.Try, err error) {
	const maxForm = 1 << 20 // the maximum number of bytes of the form of a test
	r.Body = http.MaxBytesReader(nil, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return t, &failure{http.StatusBadRequest, "", "the form cannot be read: it has at most 1 MiB"}
	}
	value := func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	return trial.Try{
		Method: value("method"), Path: value("path"), Body: r.PostForm.Get("body"), AskAnew: value("anew") != "", ErrorDescription: value("description") != "",
		User: trial.User{ID: value("id"), Email: value("email"), TenantID: value("tenant")},
	}, nil
}
