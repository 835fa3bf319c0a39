package connectors_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// A tenant's own key of the store of state takes the place of the one in the stores below within a second, and so does a variable. The
// state key is in those below.
func TestOwnedSecrets(t *testing.T) {
	const file = `
secrets: [{type: state}, {type: env}]
state: {type: sqlite, path: state.db, keys: "{{ get_secret('state-key') }}"}
connectors:
  - name: crm
    url: "https://{{ get_variable('site', 'tenant') }}.crm.example"
    hosts: ["*.crm.example"]
    auth: {type: bearer, config: {token: "{{ get_secret('crm', 'tenant') }}"}}
`
	t.Setenv("KEYWRIGHT_SECRET_STATE_KEY", "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=")
	synctest.Test(t, func(t *testing.T) {
		var shared *host.State
		set := testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte(file), connectors.Options{
			OpenState: func(ctx context.Context, s *connectors.State, c *host.Config) (err error) {
				settings, err := s.Read(ctx)
				if err == nil {
					shared, err = host.NewState(ctx, host.StateConfig{Store: state.NewMemory(nil), Keys: [][]byte{[]byte(settings.Keys[0])}})
				}
				c.State = shared
				return err
			},
		}))(t)
		acme := host.User{ID: "ann", TenantID: "acme"}
		if err := set.CheckSecret(t.Context(), "tenants/*/crm", acme); err == nil {
			t.Error("a secret that nobody has given is there")
		}
		testworld.Check(t, shared.Secrets().Set(t.Context(), "tenants/acme/crm", "k1", "ann"))
		testworld.Check(t, shared.Variables().Set(t.Context(), "tenants/acme/site", "eu", "ann"))
		time.Sleep(time.Second) // of the bubble
		testworld.Check(t, set.CheckSecret(t.Context(), "tenants/*/crm", acme))
		if site, ok := set.Host.Variable(t.Context(), "tenants/acme/site"); !ok || site != "eu" || set.Owned != shared {
			t.Errorf("site = %q, %t", site, ok)
		}
		_ = set.Close(context.Background())
		_ = shared.Close(context.Background())
	})
}

// A file without a store of state, or with two such stores of secrets, is refused.
func TestOwnedSecretsProblems(t *testing.T) {
	const connector = "connectors: [{name: a, url: 'https://a.example', auth: {type: none}}]\n"
	wantProblems(t, "secrets: [{type: state}]\n"+connector, connectors.Options{}, `connectors.yaml:1:11: secrets[0]: is a store of state, and the file has none: add the member state`)
	wantProblems(t, "secrets: [{type: state}, {type: state}]\nstate: {type: sqlite, path: state.db, keys: \"{{ get_secret('k') }}\"}\n"+connector, connectors.Options{WithoutStore: true},
		`connectors.yaml:1:26: secrets[1]: is there twice: the file has one store of state`)
}
