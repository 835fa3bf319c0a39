package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlpath"
	"github.com/keywright/keywright/server/gateway/internal/connectpage"
	"github.com/keywright/keywright/server/gateway/internal/transform"
	"github.com/keywright/keywright/server/internal/trial"
)

// Account describes the account that a user has connected.
type Account struct {
	// Label is the name of the account, such as ada@orders.test, or "".
	Label string
	// Scopes are the scopes that the connector asked for.
	Scopes []string
	// Since is the time of the consent, and Used that of the last use. Each is zero if it is not known.
	Since, Used time.Time
}

// Connections keeps the accounts of users. Its methods are called concurrently. None of them may keep a grant from being used: an error is
// logged, and the user sees less.
type Connections interface {
	// Connected keeps the account that a user has connected to the connector with a permalink.
	Connected(ctx context.Context, user host.User, connector string, a Account) error
	// Disconnected forgets the account.
	Disconnected(ctx context.Context, user host.User, connector string) error
	// Account returns the account, and false if it is not known.
	Account(ctx context.Context, user host.User, connector string) (a Account, ok bool, err error)
}

// ConnectorConsent says what users see of an account that they connect.
type ConnectorConsent struct {
	// Account says how the name of the account is found.
	Account *AccountName
	// Scopes has words for users for scopes of this connector, in place of those of gateway.consent.
	Scopes map[string]string
	// Try is the path of a GET below url, such as /me, by which a secret is tried that a tenant gives. Without it, none is sent.
	Try string
}

// AccountName is the request that finds the name of an account: a GET right after the consent, with the new grant.
type AccountName struct {
	// Path is the path of the request below url, such as /me. It need not be one of paths. Without it, the path of url.
	Path string
	// Name is an expression or a template over response.body, as in response.body, whose value is the name: response.body.email.
	Name string `file:",required"`
}

// compileAccount compiles the request for the name of an account.
func (k *compiler) compileAccount(c *Connector) {
	a := c.definition.Consent.Account
	if a == nil {
		return
	}
	if a.Path != "" && (!strings.HasPrefix(a.Path, "/") || strings.ContainsAny(a.Path, "?#{") || urlpath.Check(a.Path) != nil) {
		k.Wrong("consent.account.path", "is not a path, such as /me")
	}
	var problems []*expr.Error
	c.accountName, problems = k.patterns.CompileResponse(a.Name)
	for _, p := range problems {
		k.At(problem.Place{Column: p.Column}, "consent.account.name", "%s", p.Message)
	}
}

// scopes returns the scopes that the connector asks for, as they are in its configuration.
func (c *Connector) scopes() (all []string) {
	for _, auth := range c.definition.Auth {
		if text, _ := auth.Config["scope"].(string); !strings.Contains(text, "{{") {
			all = append(all, strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })...)
		}
	}
	return all
}

var hostInURL = regexp.MustCompile(`https?://([^/'"?#\s{}]+)(?:[/'"?#]|$)`)

// signInHost returns the host where users sign in, or "" if the configuration does not say it literally.
func (c *Connector) signInHost() string {
	for _, auth := range c.definition.Auth {
		for _, field := range []string{"authorization_url", "issuer"} {
			text, _ := auth.Config[field].(string)
			if found := hostInURL.FindStringSubmatch(text); found != nil {
				return found[1]
			}
		}
	}
	return ""
}

// connected keeps what the user sees of a new connection.
func (v *visit) connected(ctx context.Context, connector *running, user host.User) {
	all := v.gateway.config.Connections
	if all == nil || user.ID == "" {
		return
	}
	a := Account{Scopes: connector.scopes(), Since: v.gateway.config.Clock()}
	if connector.accountName != nil {
		a.Label = v.accountLabel(ctx, connector, user)
	}
	v.unkept(ctx, all.Connected(ctx, user, connector.definition.Permalink, a))
}

func (v *visit) unkept(ctx context.Context, err error) {
	if err != nil {
		v.gateway.config.Logger.LogAttrs(ctx, slog.LevelWarn, "what users see of a connection cannot be kept or read",
			slog.String("request_id", v.event.ID), slog.String("error", host.Printable(err.Error())))
	}
}

// accountLabel asks the API for the name of the account that the user has connected. It is "" if the API does not say it in time.
func (v *visit) accountLabel(ctx context.Context, connector *running, user host.User) string {
	const labelTime = 5 * time.Second
	ctx, cancel := context.WithTimeout(host.WithUser(ctx, user), labelTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://unknown.invalid/", http.NoBody)
	if err != nil {
		return ""
	}
	plain := *connector.Connector
	plain.shapes = shapes{} // the answer is not for the caller
	w := &testedAnswer{header: http.Header{}, method: r.Method, cancel: cancel}
	c := v.gateway.newCall(r, w.header)
	c.connector, c.callerURL, c.event.Tenant, c.event.User = &plain, r.URL, user.TenantID, user.ID
	path := strings.TrimPrefix(connector.definition.Consent.Account.Path, "/")
	w.serve(func() {
		err := c.forward(ctx, &running{Connector: &plain}, w, r, trial.Incoming{Method: r.Method, Path: path, Header: http.Header{"Accept": {"application/json"}}, Trusted: true})
		if err != nil {
			c.fail(ctx, w, err)
		}
	})
	c.connector = connector.Connector
	c.observe()
	if w.status != http.StatusOK || w.cut != "" {
		return ""
	}
	label, _, err := connector.accountName.Run(ctx, &transform.Input{
		User: &user, Variable: func(name string) (string, bool) { return connector.host.Variable(ctx, name) }, Now: v.gateway.config.Clock,
		Response: transform.Response{StatusCode: w.status, Header: w.sentHeader, Body: w.body.Bytes()},
	})
	if err != nil {
		v.gateway.config.Logger.LogAttrs(ctx, slog.LevelInfo, "the name of an account cannot be found", slog.String("request_id", v.event.ID), slog.String("error", host.Printable(err.Error())))
		return ""
	}
	return connectpage.Printable(string(label))
}

// connection is a connection in the list of a user.
type connection struct {
	Connector string         `json:"connector"`
	Name      string         `json:"name"`
	Condition host.Condition `json:"condition"`
	// Age is the time since the grant was renewed, redeemed, sent without an answer, lost or refused last.
	Age int64 `json:"age_seconds"`
	// State is the condition in the user's language.
	State   string     `json:"state"`
	Account string     `json:"account,omitempty"`
	Scopes  []string   `json:"scopes,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	Used    *time.Time `json:"used,omitempty"`

	running *running
	scopes  []string
	about   Account
}

// connections returns the connections of a user, sorted by name.
func (v *visit) connections(ctx context.Context, user host.User) ([]connection, error) {
	all := []connection{}
	for permalink, connector := range v.generation.connectors {
		if !connector.consents.NeedsConsent() {
			continue
		}
		found, err := connector.consents.Connection(ctx)
		if err != nil {
			return nil, connectionProblem(err)
		}
		one := connection{Connector: permalink, Name: connector.definition.Name, Condition: found.Condition, Age: int64(found.Age / time.Second), running: connector}
		one.State = v.words.Plain(connectpage.Say(states[found.Condition].key))
		one.Scopes = connector.scopes()
		if from := v.gateway.config.Connections; from != nil && found.Condition != host.ConditionNotConnected {
			a, ok, err := from.Account(ctx, user, permalink)
			v.unkept(ctx, err)
			if ok {
				one.about, one.Account, one.Scopes, one.Since, one.Used = a, connectpage.Printable(a.Label), a.Scopes, known(a.Since), known(a.Used)
			}
		}
		one.scopes = v.scopeWords(connector, one.Scopes)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b connection) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Connector, b.Connector))
	})
	return all, nil
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (v *visit) scopeWords(connector *running, scopes []string) []string {
	return v.words.ScopeWords(scopes, connector.definition.Consent.Scopes, v.generation.Consent.Scopes)
}

// states says how the list shows a condition.
var states = map[host.Condition]struct{ key, mood, advice, button string }{
	host.ConditionNotConnected: {"state.none", "soft", "", "button.connect"},
	host.ConditionConnected:    {"state.connected", "good", "", "button.change"},
	host.ConditionUncertain:    {"state.uncertain", "soft", "state.uncertain.text", "button.again"},
	host.ConditionLost:         {"state.ended", "bad", "state.ended.text", "button.again"},
	host.ConditionRefused:      {"state.ended", "bad", "state.ended.text", "button.again"},
}

// row returns the row of a connection in the page.
func (v *visit) row(c connection) connectpage.Row {
	state := states[c.Condition]
	row := connectpage.Row{Name: c.Name, State: connectpage.Say(state.key), Mood: state.mood, Account: c.Account, Scopes: c.scopes}
	if state.advice != "" {
		advice := connectpage.Say(state.advice)
		row.Advice = &advice
	}
	now := v.gateway.config.Clock()
	for key, t := range map[string]*time.Time{"since": c.Since, "used": c.Used} {
		if t != nil {
			row.Times = append(row.Times, connectpage.Say(key, "date", v.words.Date(*t, now)))
		}
	}
	slices.SortFunc(row.Times, func(a, b connectpage.Text) int { return cmp.Compare(a.Key, b.Key) })
	path := "/connect/" + c.Connector
	row.Buttons = []connectpage.Button{{Label: connectpage.Say(state.button), Of: c.Name, Path: path, Main: c.Condition != host.ConditionConnected}}
	if c.Condition != host.ConditionNotConnected {
		row.Buttons = append(row.Buttons, connectpage.Button{Label: connectpage.Say("button.disconnect"), Of: c.Name, Path: path + "/disconnect"})
	}
	return row
}

func (v *visit) list() error {
	if _, err := v.crossOrigin(v.generation, v.w, v.r); err != nil && !v.navigates() {
		return err
	}
	ctx, user, release, err := v.user()
	if err != nil {
		return err
	}
	defer release()
	all, err := v.connections(ctx, user)
	if err != nil {
		return err
	}
	if v.page == nil {
		words := map[string]string{}
		for _, name := range []string{"connect", "change", "disconnect"} {
			words[name] = v.words.Plain(connectpage.Say("button." + name))
		}
		return v.json(map[string]any{"connections": all, "words": words})
	}
	who := connectpage.Say("list.user", "user", nameOf(user))
	p := &connectpage.Page{Heading: connectpage.Say("list.title"), User: &who, SignOut: v.generation.Consent.SignOut}
	for _, c := range all {
		p.Rows = append(p.Rows, v.row(c))
	}
	if len(all) == 0 {
		p.Lines = []connectpage.Text{connectpage.Say("list.none")}
	}
	if to := v.generation.Consent.ReturnTo; to != "" {
		p.Buttons = []connectpage.Button{{Label: connectpage.Say("button.back"), Path: to}}
	}
	return v.show(http.StatusOK, p)
}

// nameOf returns the name by which a user knows the own account.
func nameOf(user host.User) string {
	return connectpage.Printable(cmp.Or(user.Email, user.Username, user.ID))
}
