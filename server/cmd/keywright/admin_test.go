package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/api"
	users "github.com/keywright/keywright/server/internal/operate/connections"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/internal/operate/tenants"
	"github.com/keywright/keywright/server/internal/serve/audit"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

const administered = `
secrets: [{type: state}]
state: {type: sqlite, path: state.db, keys: "{{ get_secret('k') }}"}
connectors:
  - name: calendar
    url: https://api.example
    auth: {type: oauth_authorization_code, config: {client_id: me, client_auth: none, authorization_url: "https://login.example/a", token_url: "https://login.example/t"}}
  - {name: crm, url: "https://crm.example", auth: {type: bearer, config: {token: "{{ get_secret('crm', 'tenant') }}"}}}
`

// administeredGateway returns the URL of the admin API of a gateway, and its connections.
func administeredGateway(t *testing.T) (string, *users.Connections) {
	t.Helper()
	db := testworld.Must(sqlite.OpenMemory(t.Context(), sqlite.Options{}))(t)
	state := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: db, Keys: [][]byte{[]byte("a state key of 32 bytes, for all")}}))(t)
	set := testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte(administered), connectors.Options{
		Host: host.Config{Secrets: host.MapSecrets{"k": "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="}},
		OpenState: func(_ context.Context, _ *connectors.State, c *host.Config) error {
			c.State = state
			return nil
		},
	}))(t)
	store, discard, use := &records.Store{Records: db, State: state}, slog.New(slog.DiscardHandler), func() *connectors.Set { return set }
	all := users.New(users.Config{Clock: time.Now, Store: store, Logger: discard, Connector: func(permalink string) *gateway.Connector {
		c, _ := set.Find(permalink)
		return c
	}})
	server := httptest.NewServer(api.New(api.Config{
		Clock: time.Now, Set: use, Connections: all, Tenants: &tenants.Tenants{Clock: time.Now, Current: use},
		Acts: acts.New(acts.Config{Clock: time.Now, Logger: discard, Audit: func() *audit.Log { return nil }, Store: store}),
	}))
	t.Cleanup(func() {
		server.Close()
		_ = errors.Join(set.Close(context.Background()), state.Close(context.Background()), db.Close())
	})
	return server.URL, all
}

// Connections of users are listed and ended from the command line.
func TestConnectionsCommands(t *testing.T) {
	admin, all := administeredGateway(t)
	for _, user := range []string{"ann", "bob", "carl"} {
		testworld.Check(t, all.Connected(t.Context(), host.User{ID: user, TenantID: "acme"}, "calendar", gateway.Account{Label: user + "@calendar.test"}))
	}
	testworld.Check(t, all.Connected(t.Context(), host.User{ID: "ann", TenantID: "acme"}, "gone", gateway.Account{}))
	code, stdout, errs := keywright(t.Context(), "connections", "list", "--admin", admin, "--user", "bob")
	if code != exitOK || !strings.HasPrefix(stdout, "connector  tenant  user  account ") || !strings.Contains(stdout, "\ncalendar   acme    bob   bob@calendar.test  connected") || strings.Count(stdout, "\n") != 2 {
		t.Errorf("exit %d, %s%s", code, stdout, errs)
	}
	if code, stdout, errs := keywright(t.Context(), "connections", "list", "--admin", admin, "--user", "nobody"); code != exitOK || strings.Count(stdout, "\n") != 1 {
		t.Errorf("of nobody: exit %d, %s%s", code, stdout, errs)
	}
	if code, stdout, _ := keywright(t.Context(), "connections", "end", "--admin", admin, "--connector", "calendar", "--json"); code != exitOK || !strings.Contains(stdout, `"ended": 3`) {
		t.Errorf("exit %d, %s", code, stdout)
	}
	if code, stdout, _ := keywright(t.Context(), "connections", "end", "--admin", admin, "--tenant", "acme"); code != exitFailure || stdout != "0 ended, 1 still there\n" {
		t.Errorf("exit %d, %s", code, stdout)
	}
	exitsWith(t, exitUsage, "at least one says whose connections end", "connections", "end", "--admin", admin)
}

// A secret of a tenant is set from stdin, and never shown.
func TestSecretCommands(t *testing.T) {
	admin, _ := administeredGateway(t)
	set := func(name, text string) (int, string) {
		var out, errs strings.Builder
		code := run(t.Context(), []string{"secret", "set", "--admin", admin, name}, strings.NewReader(text), &out, &errs, noEnvironment)
		return code, out.String() + errs.String()
	}
	if code, text := set("tenants/acme/crm", "the-key-of-acme\n"); code != exitOK || text != "" {
		t.Errorf("exit %d, %s", code, text)
	}
	code, stdout, errs := keywright(t.Context(), "secret", "list", "--admin", admin, "--tenant", "acme")
	if code != exitOK || !strings.Contains(stdout, "\nsecret  crm ") || !strings.Contains(stdout, "local") || strings.Contains(stdout, "the-key") {
		t.Errorf("exit %d, %s%s", code, stdout, errs)
	}
	for name, want := range map[string]string{"crm": "no name of a secret of a tenant", "tenants/acme/other": "no connector asks a tenant"} {
		if code, text := set(name, "the-key"); code == exitOK || !strings.Contains(text, want) || strings.Contains(text, "the-key") {
			t.Errorf("%s: exit %d, %s", name, code, text)
		}
	}
	if code, text := set("tenants/acme/crm", "\n"); code != exitFailure || !strings.Contains(text, "stdin has no secret") {
		t.Errorf("without a secret: exit %d, %s", code, text)
	}
	exitsWith(t, exitOK, "", "secret", "remove", "--admin", admin, "tenants/acme/crm")
	exitsWith(t, exitUsage, "without --tenant", "secret", "list", "--admin", admin)
	exitsWith(t, exitUsage, "argument too many", "secret", "set", "--admin", admin, "tenants/acme/crm", "the-key")
	exitsWith(t, exitUsage, "use https", "secret", "remove", "--admin", "http://gateway.test", "--token-file", testworld.File(t, "token", "a-token-of-operators"), "tenants/acme/crm")
}
