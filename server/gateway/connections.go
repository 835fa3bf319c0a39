package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/urlpath"
	"github.com/keywright/keywright/server/gateway/internal/connectpage"
	"github.com/keywright/keywright/server/gateway/internal/transform"
	"github.com/keywright/keywright/server/internal/trial"
)

// Account describes the account that a user has connected.
type Account struct {
	// Label is the name of the account, such as ada@orders.test, or "".
	Label string `json:"account,omitempty"`
	// Scopes are the scopes that the connector asked for.
	Scopes []string `json:"scopes,omitempty"`
	// Since is the time of the consent, and Used that of the last use. Each is zero if it is not known.
	Since time.Time `json:"since,omitzero"`
	Used  time.Time `json:"used,omitzero"`
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
	// Try is the path of a GET below url, such as /me, by which a secret of a tenant is tried. Without it, none is sent.
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
	name, problems := k.patterns.CompileResponse(a.Name)
	k.keep("consent.account.name", problems)
	c.accountName = name
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
	if all := v.gateway.config.Connections; all != nil {
		a := Account{Label: v.accountLabel(ctx, connector, user), Scopes: connector.scopes(), Since: v.gateway.config.Clock()}
		v.logUnkept(ctx, all.Connected(ctx, user, connector.definition.Permalink, a))
	}
}

func (v *visit) logUnkept(ctx context.Context, err error) {
	if err != nil {
		v.gateway.config.Logger.LogAttrs(ctx, slog.LevelWarn, "what users see of a connection cannot be kept or read", slog.String("request_id", v.event.ID), slog.Any("error", err))
	}
}

// accountLabel asks the API for the name of the account that the user has connected. It is "" if the API does not say it in time.
func (v *visit) accountLabel(ctx context.Context, connector *running, user host.User) string {
	const labelTime = 5 * time.Second
	if connector.accountName == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(host.WithUser(ctx, user), labelTime)
	defer cancel()
	r := (&http.Request{Method: http.MethodGet, URL: &url.URL{}, Header: http.Header{"Accept": {"application/json"}}}).WithContext(ctx)
	plain := *connector.Connector
	plain.shapes = shapes{} // the answer is not for the caller
	w := &testedAnswer{header: http.Header{}, method: r.Method, cancel: cancel}
	c := v.gateway.newCall(r, w.header)
	c.connector, c.callerURL, c.event.Tenant, c.event.User = &plain, r.URL, user.TenantID, user.ID
	path := strings.TrimPrefix(connector.definition.Consent.Account.Path, "/")
	w.serve(func() {
		if err := c.forward(ctx, &running{Connector: &plain}, w, r, trial.Incoming{Method: r.Method, Path: path, Header: r.Header, Trusted: true}); err != nil {
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
	v.logUnkept(ctx, err)
	return connectpage.Printable(string(label))
}

// connection is a connection in the list of a user.
type connection struct {
	Connector string         `json:"connector"`
	Name      string         `json:"name"`
	Condition host.Condition `json:"condition"`
	// Age is the time since the grant was renewed, redeemed, sent without an answer, lost or refused last.
	Age int64 `json:"age_seconds"`
	// State is the condition, and Words has the scopes, in the user's language.
	State string   `json:"state"`
	Words []string `json:"-"`
	Account
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
		one := connection{
			Connector: permalink, Name: connector.definition.Name, Condition: found.Condition, Age: int64(found.Age / time.Second),
			State: v.words.Say("state." + string(found.Condition)), Account: Account{Scopes: connector.scopes()},
		}
		if from := v.gateway.config.Connections; from != nil && found.Condition != host.ConditionNotConnected {
			a, ok, err := from.Account(ctx, user, permalink)
			v.logUnkept(ctx, err)
			if ok {
				one.Account, one.Label = a, connectpage.Printable(a.Label)
			}
		}
		one.Words = v.words.ScopeWords(one.Scopes, v.generation.Consent.Scopes)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b connection) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Connector, b.Connector))
	})
	return all, nil
}

func (v *visit) list() error {
	ctx, user, release, err := viewer(v)
	if err != nil {
		return err
	}
	defer release()
	all, err := v.connections(ctx, user)
	if err != nil {
		return err
	}
	if v.page == nil {
		words := map[string]string{"connect": v.words.Say("button.connect"), "change": v.words.Say("button.change"), "disconnect": v.words.Say("button.disconnect")}
		return v.json(map[string]any{"connections": all, "words": words})
	}
	p := v.newPage("list")
	p.List, p.User, p.Admin = all, nameOf(user), isAdmin(v, user) == nil
	return v.show(p)
}

// nameOf returns the name by which a user knows the own account.
func nameOf(user host.User) string {
	return connectpage.Printable(cmp.Or(user.Email, user.Username, user.ID))
}
