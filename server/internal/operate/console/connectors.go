package console

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/explain"
	"github.com/keywright/keywright/server/internal/trial"
)

type connectorsView struct {
	Connectors []connectorRow
	// All, Failing and Idle count the connectors, and those of these conditions.
	All, Failing, Idle int
	// Query is a part of the permalink, the name or the URL of each connector. More is the number of those that are left out.
	Query string
	More  int
}

// maxRows is the number of connectors on a page. Those with trouble come first if there are more.
const maxRows = 100

type connectorRow struct {
	Permalink, Name, Type string
	// Mark is the condition in a word: working, working again, some fail, failing, secret missing, idle. Class is its colour, and Sign its sign.
	Mark, Class, Sign string
	summary
	// Token is the condition of the token, and TokenClass its colour.
	Token, TokenClass string
	Secrets           []secretState
	// Missing is the number of secrets that cannot be read.
	Missing int
}

// bar is a minute in the picture of the last minutes.
type bar struct {
	X                   int
	Y, Height, Bad, Top float64
}

func (c *Console) connectors(s *State, r *http.Request) (any, error) {
	view := &connectorsView{All: len(s.Set.Connectors), Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	query := strings.ToLower(view.Query)
	for _, connector := range s.Set.Connectors {
		d := connector.Definition()
		if !strings.Contains(strings.ToLower(d.Permalink+"\n"+d.Name+"\n"+connector.BaseURL().String()), query) {
			continue
		}
		row := c.row(r.Context(), s, connector)
		view.Connectors = append(view.Connectors, row)
		switch row.Class {
		case "bad", "warn":
			view.Failing++
		case "soft":
			view.Idle++
		}
	}
	if view.More = len(view.Connectors) - maxRows; view.More > 0 {
		slices.SortStableFunc(view.Connectors, func(a, b connectorRow) int {
			return strings.Index("bad warn good soft", a.Class) - strings.Index("bad warn good soft", b.Class)
		})
		view.Connectors = view.Connectors[:maxRows]
	}
	return view, nil
}

func (c *Console) row(ctx context.Context, s *State, connector *gateway.Connector) connectorRow {
	now := c.config.Clock()
	d := connector.Definition()
	row := connectorRow{Permalink: d.Permalink, Name: d.Name, Type: d.Auth.Type(), summary: c.config.Recorder.summary(d.Permalink, now)}
	row.Secrets = c.secretsOf(ctx, s, connector.Secrets())
	for _, secret := range row.Secrets {
		if secret.Problem != "" {
			row.Missing++
		}
	}
	row.Token, row.TokenClass = row.token(now)
	row.Mark, row.Class, row.Sign = row.condition(now)
	return row
}

// condition returns the condition of a connector in words, with its colour and its sign.
func (r *connectorRow) condition(now time.Time) (mark, class, sign string) {
	const calm = time.Minute // the time after the last failure from which on a connector whose requests succeed counts as working again
	switch {
	case r.Missing > 0:
		return "secret missing", "bad", "▲"
	case r.Failed > 0 && r.Since > 0 && now.Sub(r.Last.Time) >= calm:
		return "working again", "good", "●"
	case r.Failed > 0 && r.Failed*2 >= r.Lately:
		return "failing", "bad", "▲"
	case r.Failed > 0:
		return "some fail", "warn", "▲"
	case r.Lately > 0:
		return "working", "good", "●"
	}
	return "idle", "soft", "○"
}

// token returns the condition of the token that was used last.
func (r *connectorRow) token(now time.Time) (text, class string) {
	switch {
	case !r.Closed.IsZero():
		return fmt.Sprintf("refused; asked again in %s", lasts(r.Closed.Sub(now))), "bad"
	case r.Expires.IsZero():
		return "–", "soft"
	case r.Expires.After(now):
		return lasts(r.Expires.Sub(now)) + " left", ""
	}
	return "ended; the next request gets another", "soft"
}

// rate returns a number of requests in the window as a number per second.
func rate(requests uint64) string {
	switch perSecond := float64(requests) / (window * 60); {
	case requests == 0:
		return "0"
	case perSecond < 0.1:
		return "< 0.1"
	case perSecond < 10:
		return fmt.Sprintf("%.1f", perSecond)
	default:
		return count(uint64(perSecond))
	}
}

// barHeight is the height of the picture of the last minutes, and barWidth the width of a minute.
const barHeight, barWidth = 18.0, 5

// bars returns the picture of the last minutes, in which failures are at the bottom.
func bars(minutes [window]minute) (all []bar) {
	maxRequests := uint32(1)
	for _, m := range minutes {
		maxRequests = max(maxRequests, m.requests)
	}
	for i, m := range minutes {
		if m.requests == 0 {
			continue
		}
		scale := barHeight / float64(maxRequests)
		height := max(1.5, float64(m.requests)*scale)
		bad := 0.0
		if m.failed > 0 {
			bad = min(height, max(1.5, float64(m.failed)*scale))
		}
		all = append(all, bar{X: i * barWidth, Y: barHeight - height, Height: height - bad, Bad: bad, Top: barHeight - bad})
	}
	return all
}

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
	Form    trial.Try
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

// shownUser is the user for whom the page shows the request if the form names nobody.
var shownUser = host.User{ID: "ann", Email: "ann@example.com", TenantID: "t1"}

func find(s *State, r *http.Request) (*gateway.Connector, error) {
	permalink := r.PathValue("permalink")
	i := slices.IndexFunc(s.Set.Connectors, func(c *gateway.Connector) bool { return c.Definition().Permalink == permalink })
	if i < 0 {
		return nil, &failure{http.StatusNotFound, fmt.Sprintf("there is no connector %q", host.Printable(permalink))}
	}
	return s.Set.Connectors[i], nil
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
	d := connector.Definition()
	view := &connectorView{
		connectorRow: c.row(r.Context(), s, connector), URL: d.URL, Methods: d.Methods, Paths: strings.Join(d.Paths, ", "),
		Certificate: connector.Upstream().LastClientCertificate(), Failures: c.config.Recorder.failures(d.Permalink), Form: form, Example: trial.ExamplePath(d.Paths),
	}
	view.Form.Method = cmp.Or(view.Form.Method, d.Methods[0])
	text, err := explain.Text(host.WithUser(r.Context(), cmp.Or(form.User, shownUser)), connector, form.Method, form.Path)
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
	result, err := trial.Run(r.Context(), c.config.Gateway, connector.Definition().Permalink, form)
	if err != nil {
		return nil, &failure{http.StatusBadRequest, host.Printable(err.Error())}
	}
	event := result.Event.(gateway.Event)
	view := c.one(s, r, connector, form)
	view.Result = &testResult{
		Result: result, Way: wayOf(&event), Text: utf8.Valid(result.Body), Preview: string(result.Body),
		Download: template.URL("data:application/octet-stream;base64," + base64.StdEncoding.EncodeToString(result.Body)), //nolint:gosec // of base64
	}
	return view, nil
}

func readForm(r *http.Request) (t trial.Try, err error) {
	const maxForm = 1 << 20 // the maximum number of bytes of the form of a test
	r.Body = http.MaxBytesReader(nil, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return t, &failure{http.StatusBadRequest, "the form cannot be read: it has at most 1 MiB"}
	}
	value := func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	return trial.Try{
		Method: value("method"), Path: value("path"), Body: r.PostForm.Get("body"), AskAnew: value("anew") != "", ErrorDescription: value("description") != "",
		User: host.User{ID: value("id"), Email: value("email"), TenantID: value("tenant")},
	}, nil
}
