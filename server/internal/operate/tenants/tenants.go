// Package tenants takes the secrets and variables that connectors ask of a tenant, tries them, and keeps them in the store of state.
package tenants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/explain"
	"github.com/keywright/keywright/server/internal/secretstore"
	"github.com/keywright/keywright/server/internal/trial"
)

// The kinds of a Text.
const (
	Secret   = "secret"
	Variable = "variable"
)

// A Text is a secret or a variable that connectors ask of a tenant. Its connectors are permalinks.
type Text = gateway.TenantText

// Tenants has what tenants have given.
type Tenants struct {
	Clock func() time.Time
	// Current returns the connectors in use.
	Current func() *connectors.Set
}

// ErrNoStore is the error if the file has no store for what tenants give.
var ErrNoStore = errors.New("the file has no store for what tenants give: add {type: state} to secrets, above stores that have the same names")

const owned = "tenants/*/"

// textsOf returns what connectors ask of tenants, by kind and name.
func textsOf(set *connectors.Set) (all []Text) {
	for _, c := range set.Connectors {
		fields := c.FieldSecrets()
		for kind, names := range map[string][]string{Secret: c.Secrets(), Variable: c.Variables()} {
			for _, full := range names {
				name, ok := strings.CutPrefix(full, owned)
				if !ok {
					continue
				}
				i := slices.IndexFunc(all, func(t Text) bool { return t.Kind == kind && t.Name == name })
				if i < 0 {
					i = len(all)
					all = append(all, Text{Kind: kind, Name: name})
				}
				all[i].Connectors = append(all[i].Connectors, c.Definition().Permalink)
				if kind == Secret {
					describe(&all[i], set, c, fields, full)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b Text) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return all
}

// describe adds what the plugin says of the field in which a connector names a secret.
func describe(t *Text, set *connectors.Set, c *gateway.Connector, fields map[string][]string, secret string) {
	for _, auth := range c.Definition().Auth {
		plugin, _ := set.Host.Plugin(auth.Type)
		for _, f := range plugin.Fields {
			for field, secrets := range fields {
				if t.Label == "" && slices.Contains(secrets, secret) && (field == f.Name || strings.HasSuffix(field, "."+f.Name)) {
					t.Label, t.Obtain = f.Doc, f.Obtain
				}
			}
		}
	}
}

// List returns what connectors ask of a tenant, with what the tenant has given. It has no text itself.
func (t *Tenants) List(ctx context.Context, tenant string) ([]Text, error) {
	set := t.Current()
	if set.Owned == nil {
		return nil, ErrNoStore
	}
	all := textsOf(set)
	for i := range all {
		info, err := store(set, all[i].Kind).Info(ctx, nameOf(tenant, all[i].Name))
		if err != nil {
			return nil, err
		}
		if all[i].Fingerprint, all[i].Author = info.Fingerprint, info.Author; info.Author != "" {
			all[i].Changed = t.Clock().Add(-info.Age)
		}
	}
	return all, nil
}

func store(set *connectors.Set, kind string) *host.Owned {
	if kind == Variable {
		return set.Owned.Variables()
	}
	return set.Owned.Secrets()
}

func nameOf(tenant, name string) string { return "tenants/" + tenant + "/" + name }

// find returns what connectors ask of a tenant under a kind and a name.
func (t *Tenants) find(kind, name string) (*connectors.Set, Text, error) {
	set := t.Current()
	if set.Owned == nil {
		return nil, Text{}, ErrNoStore
	}
	all := textsOf(set)
	i := slices.IndexFunc(all, func(a Text) bool { return a.Kind == kind && a.Name == name })
	if i < 0 {
		return nil, Text{}, fmt.Errorf("no connector asks a tenant for a %s %s: a connector names it as get_%s('%s', 'tenant')", kind, host.Printable(name), kind, host.Printable(name))
	}
	return set, all[i], nil
}

// A TryError says that what a tenant has given does not work. Nothing was kept.
type TryError struct {
	Connector string
	// Status is that with which the API answered, or 0.
	Status int
	// Text says what is wrong, for a person. It has nothing of what was given.
	Text string
}

func (e *TryError) Error() string { return e.Connector + ": " + e.Text }

// Set tries a text of a tenant with each connector that asks for it, and keeps it if all of them take it. The error is a [*TryError] if
// one does not.
func (t *Tenants) Set(ctx context.Context, tenant, kind, name, text, author string) error {
	set, want, err := t.find(kind, name)
	if err != nil {
		return err
	}
	candidate := secretstore.WithCandidate(ctx, kind, nameOf(tenant, name), text)
	for _, c := range set.Connectors {
		if slices.Contains(want.Connectors, c.Definition().Permalink) {
			if err := t.try(candidate, c, tenant); err != nil {
				return err
			}
		}
	}
	return store(set, kind).Set(ctx, nameOf(tenant, name), text, author)
}

// Remove removes what a tenant has given.
func (t *Tenants) Remove(ctx context.Context, tenant, kind, name, author string) error {
	set, _, err := t.find(kind, name)
	if err != nil {
		return err
	}
	return store(set, kind).Remove(ctx, nameOf(tenant, name), author)
}

// try makes a request of a connector, and sends it if the connector says where to.
func (t *Tenants) try(ctx context.Context, c *gateway.Connector, tenant string) error {
	const tryTime = 15 * time.Second
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	d := c.Definition()
	user := host.User{ID: "tenant", TenantID: tenant}
	_, err := explain.Text(host.WithUser(ctx, user), c, "", "")
	refusal, ok := errors.AsType[*trial.Refusal](err)
	_, ofText := textFailure(err)
	if ofText && !errors.Is(err, host.ErrSecretNotFound) && !errors.Is(err, host.ErrOwnedRemoved) || ok && refusal.Detail == urlcheck.ErrLabel.Error() {
		return &TryError{Connector: d.Permalink, Text: reason(err)}
	}
	if err != nil || d.Consent.Try == "" || c.Upstream().NeedsConsent() {
		return nil // something else is still missing, which is no mistake of what was given
	}
	return t.send(host.WithUser(ctx, user), c)
}

// send sends the request that shows whether a text of a tenant works.
func (t *Tenants) send(ctx context.Context, c *gateway.Connector) error {
	d := c.Definition()
	wrong := func(err error) error { return &TryError{Connector: d.Permalink, Text: reason(err)} }
	out, err := trial.NewOutgoing(ctx, c, trial.Incoming{Method: http.MethodGet, Path: strings.TrimPrefix(d.Consent.Try, "/"), Trusted: true})
	if err != nil {
		return wrong(err)
	}
	r, err := out.Request(ctx, nil)
	if err != nil {
		return wrong(err)
	}
	response, err := answers.Final(c.Upstream().GuardedTransport(nil).RoundTrip(r))
	if err != nil {
		return wrong(err)
	}
	_ = response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		text := cmp.Or(trial.Remedy(response, t.Clock()), http.StatusText(response.StatusCode))
		return &TryError{d.Permalink, response.StatusCode, fmt.Sprintf("the API answers %d: %s", response.StatusCode, text)}
	}
	return nil
}

// textFailure returns the failure of a request because of its templates or keys, before anything was sent.
func textFailure(err error) (failed *host.Error, ok bool) {
	failed, ok = errors.AsType[*host.Error](err)
	return failed, ok && (failed.Stage == host.StageSign || failed.Stage == host.StageTemplate || failed.Stage == host.StageMutation)
}

// reason says why a request did not work. It has nothing of the network inside, such as an address or whether a host is there: the
// administrator of a tenant reads it.
func reason(err error) string {
	if refusal, ok := errors.AsType[*trial.Refusal](err); ok {
		return refusal.Detail
	}
	if token, ok := errors.AsType[*host.TokenError](err); ok {
		return host.Printable(token.Error())
	}
	if failed, ok := textFailure(err); ok && !failed.Retryable() { // such as of a store of secrets
		return host.Printable(failed.Err.Error())
	}
	return "the API, or the server that gives its tokens, cannot be reached: a test of the connector says why"
}
