package host_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

// sharedState returns a State of a store with these keys.
func sharedState(t *testing.T, store state.Store, keys ...[]byte) *host.State {
	t.Helper()
	s := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: store, Keys: keys}))(t)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// A secret that a tenant has given is sealed in the store, is the one of all nodes, and has a fingerprint in place of its value. After its
// removal no other store answers for it (threats.md 580).
func TestOwnedSecret(t *testing.T) {
	const name, canary = "tenants/acme/orders", "canary-of-a-tenant"
	inner := &failingStore{Store: state.NewMemory(nil)}
	first, second := sharedState(t, inner, stateKey).Secrets(), sharedState(t, inner, stateKey).Secrets()
	lower := host.FirstOf(second, host.MapSecrets{name: "lower"})
	wantSecret := func(want string) {
		t.Helper()
		if got, err := lower.Secret(t.Context(), name); err != nil || got != want {
			t.Errorf("secret = %q, err = %v, want %q", got, err, want)
		}
	}
	wantSecret("lower")
	testworld.Check(t, first.Set(t.Context(), name, canary, "ann"))
	wantSecret(canary)
	info, err := second.Info(t.Context(), name)
	if err != nil || len(info.Fingerprint) != 6 || info.Author != "ann" {
		t.Errorf("info = %+v, err = %v", info, err)
	}
	testworld.Check(t, first.Set(t.Context(), name, canary+"2", "bob"))
	wantSecret(canary + "2")
	if now := testworld.Must(second.Info(t.Context(), name))(t); now.Fingerprint == info.Fingerprint || now.Author != "bob" {
		t.Errorf("info = %+v after %+v", now, info)
	}
	testworld.Check(t, first.Remove(t.Context(), name, "ann"))
	if got, err := lower.Secret(t.Context(), name); !errors.Is(err, host.ErrOwnedRemoved) || errors.Is(err, host.ErrSecretNotFound) {
		t.Errorf("after its removal: %q, %v", got, err)
	}
	if all := strings.Join(inner.held, "\n"); all == "" || strings.Contains(all, canary) || strings.Contains(all, "acme") {
		t.Error("the store has regions the secret or its tenant")
	}
	for bad, text := range map[string]string{"orders": "x", "tenants/A/orders": "x", "tenants/acme/../b": "x", name: " "} {
		if err := first.Set(t.Context(), bad, text, "ann"); err == nil {
			t.Errorf("%s = %q: it was set", bad, text)
		}
	}
	if _, err := first.Secret(t.Context(), "orders"); !errors.Is(err, host.ErrSecretNotFound) {
		t.Errorf("a secret of nobody: %v", err)
	}
}

// A secret and a variable of one name are two texts. A new state key seals both, and a grant is counted as one beside them.
func TestOwnedRekey(t *testing.T) {
	const name = "tenants/acme/region"
	newKey := []byte("another state key of 32 bytes...")
	store := state.NewMemory(nil)
	s := sharedState(t, store, stateKey)
	testworld.Check(t, s.Secrets().Set(t.Context(), name, "secret", "ann"))
	testworld.Check(t, s.Variables().Set(t.Context(), name, "eu", "ann"))
	sealed := s.Seal(s.Name("a", "b"), []byte("text"))
	if counts, err := sharedState(t, store, newKey, stateKey).Rekey(t.Context()); err != nil || counts.Sealed != 3 { // with the key of names
		t.Errorf("counts = %+v, err = %v", counts, err)
	}
	s = sharedState(t, store, newKey)
	for what, owned := range map[string]*host.Owned{"secret": s.Secrets(), "eu": s.Variables()} {
		if got, err := owned.Secret(t.Context(), name); err != nil || got != what {
			t.Errorf("text = %q, err = %v, want %q", got, err, what)
		}
	}
	if grants, err := s.Grants(t.Context()); err != nil || len(grants) != 0 {
		t.Errorf("grants = %v, err = %v", grants, err)
	}
	both := sharedState(t, store, newKey, stateKey)
	value, current, err := both.Open(both.Name("a", "b"), sealed)
	if err != nil || string(value) != "text" || current {
		t.Errorf("value = %q, current = %t, err = %v", value, current, err)
	}
	if _, _, err := both.Open(both.Name("ab"), sealed); err == nil {
		t.Error("a value opens in another record")
	}
}

// A variable that a tenant has given counts with the next request, for that tenant alone, and one of Variables goes before it.
func TestOwnedVariable(t *testing.T) {
	s := sharedState(t, state.NewMemory(nil), stateKey)
	regions := make(chan string, 1)
	h := testworld.Must(host.New(t.Context(), host.Config{
		State: s, OwnedVariables: s.Variables(), Variables: map[string]string{"tenants/fixed/region": "ap"},
		Base: testworld.Answer(func(r *http.Request) (*http.Response, error) {
			regions <- r.Header.Get("X-Region")
			return testworld.Response(http.StatusOK, ""), nil
		}),
	}))(t)
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	connector := testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{Name: "orders", Origins: []string{"https://api.test"}, Auth: []host.Auth{{
		Type: "api_key", Config: map[string]any{"in": "header", "key": "X-Region", "value": "{{ get_variable('region', 'tenant') }}"},
	}}}))(t)
	template := testworld.Must(h.Template("{{ get_variable('region', 'tenant') }}"))(t)
	wantRegion := func(tenant, want string) {
		t.Helper()
		ctx := host.WithUser(t.Context(), host.User{ID: "ann", TenantID: tenant})
		r := testworld.Must(http.NewRequestWithContext(ctx, http.MethodGet, "https://api.test/", nil))(t)
		response, err := connector.Transport(nil).RoundTrip(r)
		text, templateErr := template.Render(ctx)
		if want == "" {
			if err == nil || templateErr == nil {
				t.Errorf("%s has no region: it is sent", tenant)
			}
			return
		}
		testworld.Check(t, err)
		_ = response.Body.Close()
		if got := <-regions; got != want || text.Value != want {
			t.Errorf("the region of %s is %q, and %q in a template, want %q", tenant, got, text.Value, want)
		}
		if value, ok := h.Variable(ctx, "tenants/"+tenant+"/region"); !ok || value != want {
			t.Errorf("the region of %s: %q, %t", tenant, value, ok)
		}
	}
	wantRegion("acme", "")
	testworld.Check(t, s.Variables().Set(t.Context(), "tenants/acme/region", "eu", "ann"))
	wantRegion("acme", "eu")
	wantRegion("acme", "eu")
	testworld.Check(t, s.Variables().Set(t.Context(), "tenants/acme/region", "us", "ann"))
	testworld.Check(t, s.Variables().Set(t.Context(), "tenants/fixed/region", "us", "ann"))
	wantRegion("acme", "us")
	wantRegion("fixed", "ap")
	wantRegion("other", "")
	testworld.Check(t, s.Variables().Remove(t.Context(), "tenants/acme/region", "ann"))
	wantRegion("acme", "")
}
