package host_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
)

// Another client secret keeps the grant: the token that is sent is the newest, and not the seed. threats.md 126
func TestGrantSurvivesNewClientSecret(t *testing.T) {
	c, server := grants(t)
	auth := seeded("client_secret", "{{ get_secret('client') }}")
	w, connector := granted(c, refresher(nil), auth)
	for i := range 3 {
		w.setSecret("client", fmt.Sprintf("client-secret-%d", i))
		w.get(connector)
	}
	other := refresher(nil)
	other.about.Version = "2.0.0"
	later, same := granted(c, other, seeded("token_url", "https://login.test/other"))
	later.get(same)
	if twice := server.twice(); twice != nil || len(server.sent) != 4 {
		t.Errorf("%v were sent, %q twice", server.sent, twice)
	}
}

// A grant is of those for whom its seed is. One seed for all users is sent once, and that of each user is kept apart.
// threats.md 126
func TestGrantPerSeed(t *testing.T) {
	ann := host.User{ID: "1", TenantID: "acme", Email: "ann@example.com"}
	bob := host.User{ID: "2", TenantID: "acme", Email: "bob@example.com"}
	c, server := grants(t)
	w, connector := granted(c, refresher(nil), seeded("client_secret", "{{ user.email }}"))
	for _, u := range []host.User{ann, bob, ann} {
		w.send(connector, get(host.WithUser(t.Context(), u)))
	}
	if twice := server.twice(); twice != nil || len(server.sent) != 2 {
		t.Errorf("one seed for two users: %v were sent", server.sent)
	}

	c, server = grants(t)
	server.before = status(500)
	w, connector = granted(c, refresher(nil), seeded("refresh_token", "{{ get_secret('seed') }}-of-{{ tenant_id }}"))
	for _, tenant := range []string{"acme", "beta"} {
		_, err := w.try(connector, get(host.WithUser(t.Context(), host.User{ID: "1", TenantID: tenant})))
		var lost *host.GrantError
		if !errors.As(err, &lost) || lost.Tenant != tenant || lost.User != "" {
			t.Errorf("the error of %s is %v", tenant, err)
		}
	}
	if len(server.sent) != 2 || server.twice() != nil {
		t.Errorf("a seed for each tenant: %v were sent", server.sent)
	}

	c, server = grants(t)
	server.before = status(500)
	w, connector = granted(c, refresher(nil), seeded("refresh_token", "{{ get_secret('seed') }}-of-{{ user.id }}"))
	for _, u := range []host.User{ann, bob} {
		_, err := w.try(connector, get(host.WithUser(t.Context(), u)))
		var lost *host.GrantError
		if !errors.As(err, &lost) || lost.User != u.ID || lost.Tenant != "" || !strings.Contains(err.Error(), fmt.Sprintf("of user %q is uncertain", u.ID)) {
			t.Errorf("the error of %s is %v", u.ID, err)
		}
	}
	if len(server.sent) != 2 || server.twice() != nil {
		t.Errorf("a seed for each user: %v were sent", server.sent)
	}
	if _, err := w.try(connector, get(host.WithUser(t.Context(), host.User{Email: "x@example.com"}))); err == nil {
		t.Error("a user without an id has a grant")
	}
}

// Each connector of a type has a grant of its own: the token of one goes to no server of another, and its seed is none of another.
// threats.md 126
func TestGrantsOfTwoConnectors(t *testing.T) {
	c, server := grants(t)
	server.before = respond(http.StatusOK, `{"access_token":"an-access-token"}`)
	w, crm := granted(c, refresher(nil), seeded())
	w.setSecret("other", "the-seed-of-erp")
	erp := w.connectAs("erp", "refresher", seeded("refresh_token", "{{ get_secret('other') }}", "token_url", "https://login.test/erp"))
	for range 2 {
		for seed, connector := range map[string]*host.Connector{firstSeed: crm, "the-seed-of-erp": erp} {
			w.get(connector)
			if sent := c.login.Last().Form().Get("refresh_token"); sent != seed {
				t.Errorf("%q was sent, want %q", sent, seed)
			}
		}
		c.clock.Advance(time.Hour)
	}
}

// A seed that was replaced before is refused, because it was used.
func TestOldSeedRefused(t *testing.T) {
	c, server := grants(t)
	w, connector := granted(c, refresher(nil), seeded())
	w.get(connector)
	server.current = "the-second-refresh-token"
	w.setSecret("seed", "the-second-refresh-token")
	w.get(connector)
	w.setSecret("seed", firstSeed)
	c.clock.Advance(time.Hour)
	w.refuse(connector, get(t.Context()), host.StageToken, "was used before")
	if twice := server.twice(); twice != nil {
		t.Errorf("%q were sent twice", twice)
	}
}

// Without its store, nothing is sent, and the error is one that passes.
func TestStateWithoutStore(t *testing.T) {
	c, server := grants(t)
	w, connector := granted(c, refresher(nil), seeded())
	c.store.down.Store(true)
	if err := w.refuse(connector, get(t.Context()), host.StageToken, "the store of state does not answer"); !err.Retryable() {
		t.Errorf("not retryable: %v", err)
	}
	if len(server.sent) != 0 {
		t.Errorf("%v were sent", server.sent)
	}
	c.store.down.Store(false)
	c.clock.Advance(time.Minute)
	w.get(connector)
}

// A grant that no state key opens is an error that stays until a person mends it, as after a key was forgotten.
func TestUnopenedGrant(t *testing.T) {
	c, server := grants(t)
	w, connector := granted(c, refresher(nil), seeded())
	w.get(connector)
	c.clock.Advance(2 * time.Hour)
	c.store.got = func(row state.Row) state.Row {
		row.Value = bytes.Repeat([]byte{1}, len(row.Value))
		return row
	}
	if err := w.refuse(connector, get(t.Context()), host.StageToken, "add the key that other nodes have"); err.Retryable() {
		t.Errorf("retryable: %v", err)
	}
	if len(server.sent) != 1 {
		t.Errorf("%v were sent", server.sent)
	}
}

// An explanation shows a made-up state, and neither asks the store nor sends anything.
func TestExplainAState(t *testing.T) {
	c, server := grants(t)
	w, connector := granted(c, refresher(nil), seeded())
	c.store.down.Store(true)
	e, err := w.explain(connector, get(t.Context()))
	if err != nil || len(e.Steps) != 1 || e.Steps[0].Exchange.Body != "refresh_token=<refresh_token>" || len(server.sent) != 0 {
		t.Errorf("%+v, %v; %v were sent", e, err, server.sent)
	}
	c.store.down.Store(false)
}

// A connector whose type has a state needs a store of state, and its seed may not be a user's token.
func TestStateChecks(t *testing.T) {
	w := newWorld(t, withoutBuiltIns, withGuest(refresher(nil)), func(c *host.Config) { c.UserTokenHosts = []string{"login.test"} })
	w.setSecret("seed", firstSeed)
	problems := strings.Join(w.problems("refresher", seeded("refresh_token", "{{ user.token }}")), "\n")
	for _, words := range []string{"auth.type: auth type refresher keeps tokens that may be used once, which needs a store of state", "auth.config.refresh_token: names user.token, which a grant would outlive"} {
		if !strings.Contains(problems, words) {
			t.Errorf("the problems are %s, want %q", problems, words)
		}
	}
}
