package statestore_test

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/connectors/statestore"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

const (
	oneKey     = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	anotherKey = "EjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJCrze8="
)

// ending ends a context once the state key was read, so that no connection is made.
type ending struct {
	host.MapSecrets
	end func()
}

func (e ending) Secret(ctx context.Context, name string) (string, error) {
	if name == "k" {
		defer e.end()
	}
	return e.MapSecrets.Secret(ctx, name)
}

// A connection to a database that could be anybody's is in the log. threats.md 139
func TestUnverifiedDatabaseLog(t *testing.T) {
	for parameters, want := range map[string]bool{
		"h.example/d": true, "h.example/d?sslmode=disable": true, "h.example/d?sslmode=require": true, "h.example/d?sslmode=prefer": true,
		"h.example/d?sslmode=verify-full": false, "127.0.0.1/d": false, "[::1]/d": false, "localhost/d": false,
		"127.0.0.1,h.example/d": true, "/d?host=%2Frun%2Fpostgresql": false,
	} {
		var log strings.Builder
		ended, cancel := context.WithCancel(t.Context())
		set := testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte("connectors: [{name: a, url: 'https://a.example', auth: {type: none}}]\n"+
			"state: {type: postgres, url: \"{{ get_secret('url') }}\", keys: \"{{ get_secret('k') }}\"}"), connectors.Options{
			Host: host.Config{Secrets: ending{host.MapSecrets{"k": oneKey, "url": "postgres://u:p@" + parameters}, cancel}}, WithoutStore: true,
		}))(t)
		if _, err := statestore.Open(ended, set.State, statestore.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}); err == nil {
			t.Error("the store is open")
		}
		if got := strings.Contains(log.String(), "is not verified"); got != want {
			t.Errorf("%s: a warning is in the log: %t", parameters, got)
		}
		testworld.Check(t, set.Close(t.Context()))
	}
}

// open loads a file and opens its store.
func open(t *testing.T, file, state string, secrets host.MapSecrets) (*statestore.Store, error) {
	t.Helper()
	var opened *statestore.Store
	set, err := connectors.Read(t.Context(), file, []byte("connectors: [{name: a, url: 'https://a.example', auth: {type: none}}]\nstate: "+state), connectors.Options{
		Host: host.Config{Secrets: secrets},
		OpenState: func(ctx context.Context, s *connectors.State, c *host.Config) (err error) {
			if opened, err = statestore.Open(ctx, s, statestore.Options{}); err == nil {
				c.State = opened.State
			}
			return err
		},
	})
	if err == nil {
		err = set.Close(t.Context())
	}
	return opened, err
}

// A file of SQLite is made beside the file of connectors, for its owner only. With another state key it is refused, and the
// error shows no key. threats.md 139
func TestSQLite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "connectors.yaml")
	const state = `{type: sqlite, path: state.db, keys: "{{ get_secret('k') }}"}`
	for range 2 {
		store := testworld.Must(open(t, file, state, host.MapSecrets{"k": oneKey}))(t)
		testworld.Check(t, store.Close(t.Context()))
	}
	info, err := os.Stat(filepath.Join(dir, "state.db"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("info = %v, err = %v", info, err)
	}
	_, err = open(t, file, state, host.MapSecrets{"k": anotherKey})
	if err == nil || !strings.Contains(err.Error(), "state key") || strings.Contains(err.Error(), anotherKey[:8]) {
		t.Errorf("with another key: %v", err)
	}
	store := testworld.Must(open(t, file, `{type: sqlite, path: state.db, keys: ["{{ get_secret('new') }}", "{{ get_secret('k') }}"]}`, host.MapSecrets{"k": oneKey, "new": anotherKey}))(t)
	testworld.Check(t, store.Close(t.Context()))
}

// A database that cannot be reached is an error with the place of the member, and without the password. threats.md 139
func TestNoDatabase(t *testing.T) {
	const canary = "c4n4ry0x9"
	_, err := open(t, "connectors.yaml", `{type: postgres, url: "{{ get_secret('url') }}", keys: "{{ get_secret('k') }}"}`, host.MapSecrets{
		"k": oneKey, "url": "postgres://user:" + canary + "@127.0.0.1:1/database",
	})
	if err == nil || !strings.Contains(err.Error(), "connectors.yaml:2:8: state: ") || !strings.Contains(err.Error(), "the database cannot be reached") {
		t.Errorf("err = %v", err)
	}
	if err != nil && (strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), oneKey[:8])) {
		t.Errorf("the error shows a secret: %v", err)
	}
}

const withRefreshAhead = `
connectors:
  - name: Orders
    url: https://api.example/orders
    auth: {type: oauth_client_credentials, config: {client_id: gateway, client_secret: "{{ get_secret('s') }}", token_url: "https://login.example/token"}}
    refresh_ahead: 2m
    timeout: 10m
state: {type: sqlite, path: state.db, keys: "{{ get_secret('k') }}"}
`

// node is a set of connectors on the database of a file.
type node struct {
	t    *testing.T
	sent http.RoundTripper
	api  *testworld.Server
	// ahead has a value after each call that was to replace a token ahead of its end.
	ahead chan host.Attempt
}

// newNode returns a node. All nodes of a test have one clock, which is also that of the database, and one token endpoint.
func newNode(t *testing.T, dir string, clock *testworld.Clock, login http.RoundTripper) *node {
	t.Helper()
	n := &node{t: t, api: testworld.NewServer(testworld.Respond(http.StatusOK, "")), ahead: make(chan host.Attempt, 1)}
	base := testworld.Answer(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "login.example" {
			return login.RoundTrip(r)
		}
		return n.api.RoundTrip(r)
	})
	ctx := context.Background() // the end of the test is after the store was closed
	database := testworld.Must(sqlite.Open(ctx, filepath.Join(dir, "state.db"), sqlite.Options{Clock: clock.Now}))(t)
	var shared *host.State
	set := testworld.Must(connectors.Read(ctx, filepath.Join(dir, "connectors.yaml"), []byte(withRefreshAhead), connectors.Options{
		Host: host.Config{Secrets: host.MapSecrets{"s": "a-client-secret", "k": oneKey}, Base: base, Clock: clock.Now, Observe: func(_ context.Context, a host.Attempt) {
			if a.Ahead {
				n.ahead <- a
			}
		}},
		OpenState: func(ctx context.Context, _ *connectors.State, c *host.Config) (err error) {
			shared, err = host.NewState(ctx, host.StateConfig{Store: database, Keys: [][]byte{[]byte("a state key of 32 bytes, for all")}, Clock: clock.Now, Lease: time.Hour})
			c.State = shared
			return err
		},
	}))(t)
	t.Cleanup(func() {
		for _, end := range []func() error{func() error { return set.Close(ctx) }, func() error { return shared.Close(ctx) }, database.Close} {
			testworld.Check(t, end())
		}
	})
	n.sent = set.Connectors[0].Upstream().Transport(nil)
	return n
}

// bearer sends a request and returns the token that the API received.
func (n *node) bearer() string {
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "https://api.example/orders", nil)
	if err != nil {
		n.t.Error(err)
		return ""
	}
	response, err := n.sent.RoundTrip(r)
	if err != nil {
		n.t.Error(err)
		return ""
	}
	_ = response.Body.Close()
	return n.api.Last().Header.Get("Authorization")
}

// crowd sends a thousand requests at once, in turn on each node.
func crowd(nodes ...*node) {
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() { nodes[i%len(nodes)].bearer() })
	}
	all.Wait()
}

// Two nodes with one database replace a token once, ahead of its end. A thousand callers are answered meanwhile, while the
// token endpoint has not answered.
func TestOneNodeReplacesATokenAhead(t *testing.T) {
	dir, clock := t.TempDir(), testworld.NewClock(time.Unix(1_700_000_000, 0))
	login := testworld.NewServer(testworld.Token("t1", 3600))
	one, two := newNode(t, dir, clock, login), newNode(t, dir, clock, login)
	crowd(one, two)
	if n := login.Count(); n != 1 {
		t.Fatalf("%d token requests at first, want 1", n)
	}
	asked, answers := make(chan struct{}, 2), make(chan struct{})
	login.Answer(func(r *http.Request) (*http.Response, error) {
		asked <- struct{}{}
		<-answers
		return testworld.Token("t2", 3600)(r)
	})
	clock.Advance(3540*time.Second - 2*time.Minute)
	crowd(one, two)
	<-asked
	crowd(one, two)
	if a, b := one.bearer(), two.bearer(); a != "Bearer t1" || b != "Bearer t1" {
		t.Errorf("the nodes have %q and %q meanwhile", a, b)
	}
	close(answers)
	first, second := one, two
	var attempt host.Attempt
	select {
	case attempt = <-one.ahead:
	case attempt = <-two.ahead:
		first, second = two, one
	}
	if got := first.bearer(); got != "Bearer t2" || attempt.Exchanges != 1 || attempt.Err != nil {
		t.Errorf("the node that asked has %q, after %+v", got, attempt)
	}
	clock.Advance(2 * time.Minute) // the second node learns of it at the end of its token at the latest
	crowd(one, two)
	if got := second.bearer(); got != "Bearer t2" || login.Count() != 2 {
		t.Errorf("the other node has %q after %d token requests", got, login.Count())
	}
}
