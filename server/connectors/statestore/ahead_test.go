package statestore_test

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

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
	database, err := sqlite.Open(ctx, filepath.Join(dir, "state.db"), sqlite.Options{Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
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
