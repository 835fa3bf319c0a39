package connections_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/connections"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

const file = `
connectors:
  - name: calendar
    url: https://api.example
    auth:
      type: oauth_authorization_code
      config: {client_id: me, client_auth: none, authorization_url: "https://login.example/a", token_url: "https://login.example/t"}
  - {name: open, url: "https://open.example", auth: {type: none}}
state: {type: sqlite, path: state.db, keys: "{{ get_secret('k') }}"}
`

// world is a set of connectors with its connections.
type world struct {
	*connections.Connections
	t   *testing.T
	now time.Time
	set *connectors.Set
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := testworld.Must(sqlite.OpenMemory(t.Context(), sqlite.Options{}))(t)
	state := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: db, Keys: [][]byte{[]byte("a state key of 32 bytes, for all")}}))(t)
	w := &world{t: t, now: time.Date(2026, 11, 28, 12, 30, 0, 0, time.UTC)}
	w.set = testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte(file), connectors.Options{
		Host: host.Config{Secrets: host.MapSecrets{"k": "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="}, Base: testworld.NewServer(testworld.Respond(http.StatusOK, `{"access_token": "a", "refresh_token": "r", "token_type": "Bearer"}`))},
		OpenState: func(_ context.Context, _ *connectors.State, c *host.Config) error {
			c.State = state
			return nil
		},
	}))(t)
	w.Connections = connections.New(connections.Config{
		Clock: func() time.Time { return w.now }, Node: "a", Store: &records.Store{Records: db, State: state}, Connector: w.connector, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() {
		_ = errors.Join(w.set.Close(context.Background()), state.Close(context.Background()), db.Close())
	})
	return w
}

func (w *world) connector(permalink string) *gateway.Connector {
	for _, c := range w.set.Connectors {
		if c.Definition().Permalink == permalink {
			return c
		}
	}
	return nil
}

// consent has users of acme connect an account.
func (w *world) consent(users ...string) {
	w.t.Helper()
	const own, binding = "https://gateway.example/connect/callback/calendar", "a binding of 24 letters."
	for _, user := range users {
		ctx, c := host.WithUser(w.t.Context(), host.User{ID: user, TenantID: "acme"}), w.connector("calendar")
		target := testworld.Must(url.Parse(testworld.Must(c.Upstream().BeginConsent(ctx, host.ConsentRequest{RedirectURI: own, Binding: binding}))(w.t)))(w.t)
		_, err := c.Callback(ctx, host.AuthorizationResponse{RedirectURI: own, Binding: binding, Response: url.Values{"state": target.Query()["state"], "code": {"x"}}})
		testworld.Check(w.t, err)
	}
}

// request notes a request of a user, and writes it.
func (w *world) request(user string, e gateway.Event) {
	w.t.Helper()
	e.Connector, e.Tenant, e.User, e.Began = "calendar", "acme", user, w.now
	e.Served = w.connector(e.Connector)
	w.Request(&e)
	w.Flush(w.t.Context())
}

func (w *world) list(f connections.Filter) (text string) {
	w.t.Helper()
	all, _, err := w.List(w.t.Context(), f, "", 50)
	testworld.Check(w.t, err)
	for _, c := range all {
		text += fmt.Sprintf("%s %s %s used %s; ", c.User, c.Condition, c.Account, c.Used.Format("15:04"))
	}
	return text
}

func (w *world) shows(f connections.Filter, want string) {
	w.t.Helper()
	if got := w.list(f); got != want {
		w.t.Errorf("%+v: %s\nwant: %s", f, got, want)
	}
}

func lost(c host.Condition) gateway.Event {
	return gateway.Event{Status: 502, Problem: "not-connected", Stage: "token", Err: &host.GrantError{Condition: c}}
}

// A connection is listed from its consent on, or from its next use, with what its last request has met.
func TestConnections(t *testing.T) {
	w := newWorld(t)
	ann := host.User{ID: "ann", TenantID: "acme", Email: "ann@acme.test"}
	testworld.Check(t, w.Connected(t.Context(), ann, "calendar", gateway.Account{Label: "ann@calendar.test", Scopes: []string{"read"}, Since: w.now}))
	w.shows(connections.Filter{}, "ann connected ann@calendar.test used 00:00; ")
	good := gateway.Event{Status: 200, Sent: w.now}
	w.consent("ann", "bob", "carl")
	w.request("ann", good)
	w.request("bob", good)
	w.shows(connections.Filter{Tenant: "acme"}, "bob connected  used 12:00; ann connected ann@calendar.test used 12:00; ")
	w.shows(connections.Filter{Email: "ann@acme.test"}, "ann connected ann@calendar.test used 12:00; ")
	w.now = w.now.Add(time.Hour)
	w.request("bob", lost(host.ConditionRefused))
	w.request("carl", lost(host.ConditionUncertain))
	w.shows(connections.Filter{Connector: "calendar", Condition: host.ConditionRefused}, "bob refused  used 12:00; ")
	w.shows(connections.Filter{User: "carl", Tenant: "acme"}, "carl uncertain  used 00:00; ")
	w.shows(connections.Filter{User: "carl", Tenant: "other"}, "")
	counts, err := w.Counts(t.Context(), "calendar", "open")
	if got := fmt.Sprint(counts); err != nil || got != "map[calendar:map[connected:1 refused:1 uncertain:1]]" {
		t.Errorf("counts = %s, err = %v", got, err)
	}
	w.request("bob", lost(host.ConditionNotConnected))
	w.request("dan", gateway.Event{Status: 403, Problem: "not-connected"})
	w.shows(connections.Filter{Connector: "calendar"}, "carl uncertain  used 00:00; ann connected ann@calendar.test used 12:00; ")
}

// What a request met before a consent does not count after it: the record of a user who connects at once stays.
func TestConsentAfterRequest(t *testing.T) {
	w := newWorld(t)
	early := gateway.Event{Connector: "calendar", Tenant: "acme", User: "ann", Began: w.now, Status: 403, Problem: "not-connected", Served: w.connector("calendar")}
	w.Request(&early)
	w.now = w.now.Add(time.Second)
	testworld.Check(t, w.Connected(t.Context(), host.User{ID: "ann", TenantID: "acme"}, "calendar", gateway.Account{Label: "ann@calendar.test", Since: w.now}))
	w.Flush(t.Context())
	w.shows(connections.Filter{}, "ann connected ann@calendar.test used 00:00; ")
}

// A use is written once an hour, and not with each request.
func TestUseRate(t *testing.T) {
	w := newWorld(t)
	w.consent("ann")
	good := gateway.Event{Status: 200, Sent: w.now}
	w.request("ann", good)
	testworld.Check(t, w.Disconnected(t.Context(), host.User{ID: "ann", TenantID: "other"}, "calendar"))
	first, _, _ := w.List(t.Context(), connections.Filter{}, "", 1)
	w.request("ann", good)
	second, _, _ := w.List(t.Context(), connections.Filter{}, "", 1)
	if len(first) != 1 || len(second) != 1 || first[0].ID != second[0].ID {
		t.Errorf("connections = %+v, then %+v", first, second)
	}
	e := gateway.Event{Connector: "calendar", Tenant: "acme", User: "ann", Began: w.now, Sent: w.now, Status: 200, Served: w.connector("calendar")}
	if n := testing.AllocsPerRun(100, func() { w.Request(&e) }); n > 0 {
		t.Errorf("a request allocates %.0f times", n)
	}
}

// A use that is written after the end of its connection does not bring it back (threats.md 592).
func TestUseBeforeEnd(t *testing.T) {
	w := newWorld(t)
	w.consent("ann")
	e := gateway.Event{Connector: "calendar", Tenant: "acme", User: "ann", Began: w.now, Sent: w.now, Status: 200, Served: w.connector("calendar")}
	w.Request(&e)
	w.Flush(t.Context())
	w.shows(connections.Filter{}, "ann connected  used 12:00; ")
	e.Began = w.now.Add(time.Hour)
	w.Request(&e)
	all, _, _ := w.List(t.Context(), connections.Filter{}, "", 1)
	testworld.Check(t, w.End(t.Context(), all[0]))
	w.Flush(t.Context())
	w.shows(connections.Filter{}, "")
}

// The end of a connection forgets its grant and its record. That of a connector which is not in the file is refused.
func TestEnd(t *testing.T) {
	w := newWorld(t)
	ann := host.User{ID: "ann", TenantID: "acme"}
	for _, connector := range []string{"calendar", "gone"} {
		testworld.Check(t, w.Connected(t.Context(), ann, connector, gateway.Account{Since: w.now}))
	}
	all, _, err := w.List(t.Context(), connections.Filter{User: "ann"}, "", 9)
	testworld.Check(t, err)
	for _, c := range all {
		one, ok, err := w.Get(t.Context(), c.ID)
		if err != nil || !ok || one.Connector != c.Connector {
			t.Errorf("the connection %s: %+v, %t, %v", c.ID, one, ok, err)
		}
		err = w.End(t.Context(), one)
		if removed := c.Connector == "gone"; removed != (err != nil && strings.Contains(err.Error(), "not in the file")) {
			t.Errorf("the end at %s: %v", c.Connector, err)
		}
	}
	if rest, _, _ := w.List(t.Context(), connections.Filter{}, "", 9); len(rest) != 1 || rest[0].Connector != "gone" {
		t.Errorf("what is left: %+v", rest)
	}
	if _, ok, err := w.Get(t.Context(), "../x"); ok || err != nil {
		t.Errorf("a made-up ID: %t, %v", ok, err)
	}
}
