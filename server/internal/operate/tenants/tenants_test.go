package tenants_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/operate/tenants"
)

const file = `
connectors:
  - name: crm
    url: https://{{ get_variable('site', 'tenant') }}.crm.example/v1
    hosts: ["*.crm.example"]
    auth: {type: bearer, config: {token: "{{ get_secret('crm', 'tenant') }}"}}
    consent: {try: /me}
  - name: signed
    url: https://signed.example
    auth: {type: jwt, config: {algorithm: RS256, private_key: "{{ get_secret('pem', 'tenant') }}", claims: {sub: a}}}
`

// world is a gateway before an API that accepts one key.
type world struct {
	*tenants.Tenants
	t     *testing.T
	set   *connectors.Set
	state *host.State
	paths []string
}

const right = "the-right-key-of-acme"

func newWorld(t *testing.T, text string) *world {
	t.Helper()
	w := &world{t: t}
	w.state = testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: state.NewMemory(nil), Keys: [][]byte{[]byte("a state key of 32 bytes, for all")}}))(t)
	api := testworld.Answer(func(r *http.Request) (*http.Response, error) {
		w.paths = append(w.paths, r.URL.Host+r.URL.Path)
		if r.URL.Host == "inside.crm.example" {
			return nil, errors.New("dial tcp 10.1.2.3:443: connection refused")
		}
		if r.Header.Get("Authorization") == "Bearer "+right {
			return testworld.Response(http.StatusOK, "{}"), nil
		}
		return testworld.Response(http.StatusUnauthorized, "no"), nil
	})
	w.set = testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte(text), connectors.Options{
		Host: host.Config{Base: api, Secrets: host.MapSecrets{"state-key": "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="}},
		OpenState: func(_ context.Context, _ *connectors.State, c *host.Config) error {
			c.State = w.state
			return nil
		},
	}))(t)
	w.Tenants = &tenants.Tenants{Clock: time.Now, Current: func() *connectors.Set { return w.set }}
	t.Cleanup(func() { _ = errors.Join(w.set.Close(context.Background()), w.state.Close(context.Background())) })
	return w
}

const withState = "secrets: [{type: state}]\nstate: {type: sqlite, path: state.db, keys: \"{{ get_secret('state-key') }}\"}\n"

// A key of a tenant is tried before it is kept: only the one that the API takes is, and nobody reads it back (threats.md 581).
func TestSet(t *testing.T) {
	w := newWorld(t, withState+file)
	textOf := func(kind, name string) tenants.Text {
		t.Helper()
		for _, text := range testworld.Must(w.List(t.Context(), "acme"))(t) {
			if text.Kind == kind && text.Name == name {
				return text
			}
		}
		t.Fatalf("no connector asks for the %s %s", kind, name)
		return tenants.Text{}
	}
	testworld.Check(t, w.Set(t.Context(), "acme", tenants.Variable, "site", "eu", "ann"))
	tryErr := &tenants.TryError{}
	if err := w.Set(t.Context(), "acme", tenants.Secret, "crm", "a-wrong-key", "ann"); !errors.As(err, &tryErr) || tryErr.Status != http.StatusUnauthorized || strings.Contains(err.Error(), "a-wrong-key") {
		t.Errorf("a wrong key: %v", err)
	}
	if text := textOf(tenants.Secret, "crm"); text.Fingerprint != "" {
		t.Errorf("a wrong key was kept: %+v", text)
	}
	testworld.Check(t, w.Set(t.Context(), "acme", tenants.Secret, "crm", right, "ann"))
	text := textOf(tenants.Secret, "crm")
	if len(text.Fingerprint) != 6 || text.Author != "ann" || len(text.Connectors) != 1 || text.Label == "" {
		t.Errorf("text = %+v", text)
	}
	if want := "eu.crm.example/v1/me"; len(w.paths) != 2 || w.paths[1] != want {
		t.Errorf("requests = %v, want %s", w.paths, want)
	}
	if err := w.Set(t.Context(), "acme", tenants.Secret, "pem", "no key", "ann"); !errors.As(err, &tryErr) || tryErr.Connector != "signed" {
		t.Errorf("a key that is none: %v", err)
	}
	testworld.Check(t, w.Remove(t.Context(), "acme", tenants.Secret, "crm", "bob"))
	if text := textOf(tenants.Secret, "crm"); text.Fingerprint != "" || text.Author != "bob" {
		t.Errorf("after its removal: %+v", text)
	}
}

// What makes no host of the API is not kept, and an error says nothing of the network inside (threats.md 596).
func TestSetHost(t *testing.T) {
	w := newWorld(t, withState+file)
	testworld.Check(t, w.Set(t.Context(), "acme", tenants.Variable, "site", "eu", "ann"))
	testworld.Check(t, w.Set(t.Context(), "acme", tenants.Secret, "crm", right, "ann"))
	first := testworld.Must(w.List(t.Context(), "acme"))(t)
	for site, want := range map[string]string{"inside": "cannot be reached", "x@127.0.0.1": "no label", "evil.example/#": "no label", "a.b": "no label"} {
		tryErr := &tenants.TryError{}
		if err := w.Set(t.Context(), "acme", tenants.Variable, "site", site, "ann"); !errors.As(err, &tryErr) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "10.1") {
			t.Errorf("the site %s: %v", site, err)
		}
	}
	for i, text := range testworld.Must(w.List(t.Context(), "acme"))(t) {
		if text.Fingerprint != first[i].Fingerprint {
			t.Errorf("%s was replaced: %+v", text.Name, text)
		}
	}
}

// A name that no connector asks of tenants cannot be given, nor can anything without a store for it.
func TestSetRefuses(t *testing.T) {
	w := newWorld(t, withState+file)
	for _, name := range []string{"state-key", "crm/../state-key", ""} {
		if err := w.Set(t.Context(), "acme", tenants.Secret, name, "x", "ann"); err == nil || !strings.Contains(err.Error(), "no connector asks") {
			t.Errorf("the secret %q: %v", name, err)
		}
	}
	if err := w.Set(t.Context(), "../acme", tenants.Variable, "site", "x", "ann"); err == nil {
		t.Error("the variable of a tenant with a path for an ID was set")
	}
	bare := newWorld(t, strings.NewReplacer("{type: state}", "{type: env}").Replace(withState)+file)
	if err := bare.Set(t.Context(), "acme", tenants.Secret, "crm", "x", "ann"); !errors.Is(err, tenants.ErrNoStore) {
		t.Errorf("without a store: %v", err)
	}
}
