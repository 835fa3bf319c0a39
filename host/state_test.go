package host_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

// stateKey is the state key of each node.
var stateKey = []byte("a state key of 32 bytes, for all")

// failingStore is a store that fails while it is down, and that remembers what it was given.
type failingStore struct {
	state.Store
	down atomic.Bool
	// got, if not nil, returns what is read in place of a row.
	got func(state.Row) state.Row
	// dropping, if not nil, is called before a value is deleted. If it returns an error, the value stays.
	dropping func() error

	mu   sync.Mutex
	held []string
}

var errStoreDown = errors.New("connection refused")

func (s *failingStore) Get(ctx context.Context, id state.ID) (state.Row, error) {
	if s.down.Load() {
		return state.Row{}, errStoreDown
	}
	row, err := s.Store.Get(ctx, id)
	if s.got != nil && row.Value != nil {
		row = s.got(row)
	}
	return row, err
}

func (s *failingStore) Put(ctx context.Context, l state.Lease, value []byte, expires time.Duration, release bool) (bool, error) {
	if s.down.Load() {
		return false, errStoreDown
	}
	s.mu.Lock()
	s.held = append(s.held, string(l.ID[:])+string(value))
	s.mu.Unlock()
	return s.Store.Put(ctx, l, value, expires, release)
}

func (s *failingStore) Delete(ctx context.Context, id state.ID, generation int64) (bool, error) {
	if s.dropping != nil {
		if err := s.dropping(); err != nil {
			return false, err
		}
	}
	return s.Store.Delete(ctx, id, generation)
}

// withState returns a change of a configuration that adds a state with a store in memory, which has the clock of the host.
func withState(t *testing.T, store *failingStore) func(*host.Config) {
	return func(c *host.Config) {
		store.Store = state.NewMemory(c.Clock)
		s := must(host.NewState(t.Context(), host.StateConfig{Store: store, Keys: [][]byte{stateKey}, Clock: c.Clock}))(t)
		t.Cleanup(func() {
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		c.State = s
	}
}

// cluster is several nodes with one store, one token endpoint and one clock.
type cluster struct {
	t        *testing.T
	store    *failingStore
	clock    *testworld.Clock
	login    *testworld.Server
	degraded atomic.Int64
}

func newCluster(t *testing.T, login answer) *cluster {
	clock := testworld.NewClock(start)
	return &cluster{t: t, store: &failingStore{Store: state.NewMemory(clock.Now)}, clock: clock, login: testworld.NewServer(login)}
}

// node returns a world that is a node of its own, and its connector.
func (c *cluster) node(change ...func(*host.Config)) (*world, *host.Connector) {
	c.t.Helper()
	w := c.world(change...)
	w.canaryOf("s", "the-same-on-all-of-them")
	return w, w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
}

// world returns a world that is a node of its own. What the store was given is searched for the credentials of each world.
func (c *cluster) world(change ...func(*host.Config)) *world {
	c.t.Helper()
	var s *host.State
	w := newWorld(c.t, append(change, func(h *host.Config) {
		s = must(host.NewState(c.t.Context(), host.StateConfig{
			Store: c.store, Keys: [][]byte{stateKey}, Clock: c.clock.Now, Logger: h.Logger, Degraded: func(error) { c.degraded.Add(1) },
		}))(c.t)
		h.State, h.Clock = s, c.clock.Now
	})...)
	w.login, w.Clock = c.login, c.clock
	c.t.Cleanup(func() {
		check(c.t, s.Close(context.Background()))
		c.store.mu.Lock()
		defer c.store.mu.Unlock()
		for _, text := range c.store.held {
			w.Out("the store", text)
		}
	})
	return w
}

// Of a thousand callers on three nodes, one causes a token request, and all get its token. A node that is started later does
// not ask again. The store learns neither the token nor the secret.
func TestOneExchangeForAllNodes(t *testing.T) {
	c := newCluster(t, token("a-token-for-all-nodes", 3600))
	nodes, connectors := make([]*world, 3), make([]*host.Connector, 3)
	for i := range nodes {
		nodes[i], connectors[i] = c.node()
	}
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			if status, err := nodes[i%3].try(connectors[i%3], get(t.Context())); err != nil || status != http.StatusOK {
				t.Errorf("a caller got %d, %v", status, err)
			}
		})
	}
	all.Wait()
	late, connector := c.node()
	late.get(connector)
	for _, w := range append(nodes, late) {
		for _, r := range w.api.Received() {
			if got := r.Header.Get("Authorization"); got != "Bearer a-token-for-all-nodes" {
				t.Fatalf("a request has %q", got)
			}
		}
	}
	if n := c.login.Count(); n != 1 {
		t.Errorf("there were %d token requests, want one", n)
	}
}

// A token that the API refuses is dropped for all nodes: a node that has never seen it does not get it. A node that finds out
// later drops no newer token.
func TestA401DropsTheTokenForAllNodes(t *testing.T) {
	c := newCluster(t, tokens(3600))
	first, one := c.node()
	second, two := c.node()
	first.get(one)
	second.get(two)
	first.api.Answer(refusing("t1"))
	second.api.Answer(refusing("t1"))
	for _, request := range []struct {
		w    *world
		c    *host.Connector
		want int
	}{{first, one, 2}, {second, two, 2}, {second, two, 2}, {first, one, 2}} {
		status, err := request.w.try(request.c, get(t.Context()))
		if got := request.w.api.Last().Header.Get("Authorization"); err != nil || status != http.StatusOK || got != "Bearer t2" || c.login.Count() != request.want {
			t.Errorf("got %d, %v with %q after %d token requests, want %d", status, err, got, c.login.Count(), request.want)
		}
	}
	third, three := c.node()
	if got := third.get(three).Header.Get("Authorization"); got != "Bearer t2" || c.login.Count() != 2 {
		t.Errorf("a new node has %q after %d token requests", got, c.login.Count())
	}
}

// A token that was dropped on one node, whose request cannot be sent again, is asked for anew by the next node.
func TestDropSeenByLaterNodes(t *testing.T) {
	c := newCluster(t, tokens(3600))
	first, one := c.node()
	first.get(one)
	first.api.Answer(refusing("t1"))
	once := postOf(t, io.MultiReader(strings.NewReader("a body")))
	if status, err := first.try(one, once); status != http.StatusUnauthorized || err != nil {
		t.Fatalf("got %d, %v", status, err)
	}
	second, two := c.node()
	if got := second.get(two).Header.Get("Authorization"); got != "Bearer t2" {
		t.Errorf("the next node has %q", got)
	}
}

// While a refused token is being dropped from the store, no other call of the node takes it from there: all would be refused
// until the next drop.
func TestTokenDuringDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, tokens(3600))
		c.store.Store = state.NewMemory(time.Now)
		w, connector := c.node()
		w.get(connector)
		w.api.Answer(refusing("t1"))
		meanwhile := make(chan int, 1)
		c.store.dropping = func() error {
			go func() {
				status, err := w.try(connector, get(t.Context()))
				if err != nil {
					t.Error(err)
				}
				meanwhile <- status
			}()
			synctest.Wait()
			return nil
		}
		for _, of := range []func() (int, error){
			func() (int, error) { return w.try(connector, get(t.Context())) },
			func() (int, error) { return <-meanwhile, nil },
		} {
			if status, err := of(); status != http.StatusOK || err != nil {
				t.Errorf("got %d, %v", status, err)
			}
		}
		if n := c.login.Count(); n != 2 {
			t.Errorf("there were %d token requests, want 2", n)
		}
	})
}

// A node that cannot drop a refused token from the store does not take it from there again.
func TestFailedDropRemembered(t *testing.T) {
	c := newCluster(t, tokens(3600))
	w, connector := c.node()
	w.get(connector)
	w.api.Answer(refusing("t1"))
	c.store.dropping = func() error { return errStoreDown }
	if status, err := w.try(connector, get(t.Context())); status != http.StatusOK || err != nil {
		t.Errorf("got %d, %v", status, err)
	}
	second, two := c.node()
	if got := second.get(two).Header.Get("Authorization"); got != "Bearer t2" || c.login.Count() != 2 {
		t.Errorf("another node has %q after %d token requests", got, c.login.Count())
	}
}

// While the store is down, each node asks for itself. Its log says so once a minute. When the store answers again, nodes share.
func TestWithoutTheStoreEachNodeAsksForItself(t *testing.T) {
	c := newCluster(t, tokens(60+1800))
	first, one := c.node()
	second, two := c.node()
	c.store.down.Store(true)
	for range 3 {
		first.get(one)
		second.get(two)
	}
	if n := c.login.Count(); n != 2 || c.degraded.Load() != 2 {
		t.Errorf("%d token requests, and %d without the store, want 2", n, c.degraded.Load())
	}
	if n := first.logged("the store of state failed"); n != 1 {
		t.Errorf("the log has %d lines about the store", n)
	}
	c.store.down.Store(false)
	c.clock.Advance(time.Hour)
	first.get(one)
	second.get(two)
	if n := c.login.Count(); n != 3 {
		t.Errorf("%d token requests after the store is back, want 3", n)
	}
}

// Another node does not keep a token longer than the node that asked for it.
func TestASharedTokenEndsWithItsTime(t *testing.T) {
	c := newCluster(t, tokens(60+600))
	first, one := c.node()
	first.get(one)
	c.clock.Advance(599 * time.Second)
	second, two := c.node()
	if got := second.get(two).Header.Get("Authorization"); got != "Bearer t1" {
		t.Errorf("after 599 s, another node has %q", got)
	}
	c.clock.Advance(time.Second)
	if got := second.get(two).Header.Get("Authorization"); got != "Bearer t2" {
		t.Errorf("after 600 s, another node has %q", got)
	}
}

// Only the same connector with the same secrets gets what another node has stored.
func TestNodesShareWithEqualsOnly(t *testing.T) {
	c := newCluster(t, tokens(3600))
	first, one := c.node()
	first.get(one)
	second, _ := c.node()
	second.get(second.connectAs("another", "oauth_client_credentials", oauth("{{ get_secret('s') }}")))
	second.setSecret("s", "another secret")
	second.get(second.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")))
	for i, want := range []string{"Bearer t2", "Bearer t3"} {
		if got := second.api.Received()[i].Header.Get("Authorization"); got != want {
			t.Errorf("request %d has %q, want %q", i, got, want)
		}
	}
}

// What a token endpoint refuses one node, no node asks again until the wait is over, which doubles for all of them together.
// After a token, the count begins anew.
func TestARefusalHoldsForAllNodes(t *testing.T) {
	c := newCluster(t, respond(http.StatusUnauthorized, `{"error": "invalid_client"}`))
	first, one := c.node()
	second, two := c.node()
	for i, pass := range []struct {
		w     *world
		c     *host.Connector
		later time.Duration
		want  int
	}{
		{first, one, 0, 1},
		{second, two, 0, 1},
		{second, two, 1100 * time.Millisecond, 2},
		{first, one, 1500 * time.Millisecond, 2}, // the second wait is 1.6 to 2 s
		{first, one, 700 * time.Millisecond, 3},
		{second, two, 3 * time.Second, 3}, // the third is 3.2 to 4 s
	} {
		c.clock.Advance(pass.later)
		_, err := pass.w.try(pass.c, get(t.Context()))
		var refused *host.TokenError
		if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized || refused.Code != "invalid_client" || refused.RetryAfter <= 0 {
			t.Errorf("request %d: the error is %v", i, err)
		}
		if pass.later == 700*time.Millisecond && refused.RetryAfter < 3200*time.Millisecond {
			t.Errorf("request %d: the third wait is %v", i, refused.RetryAfter)
		}
		if n := c.login.Count(); n != pass.want {
			t.Errorf("request %d: there were %d token requests, want %d", i, n, pass.want)
		}
	}
	c.clock.Advance(time.Hour)
	c.login.Answer(token("a-token-at-last", 3600))
	first.get(one)
	c.login.Answer(respond(http.StatusUnauthorized, `{"error": "invalid_client"}`))
	c.clock.Advance(2 * time.Hour)
	if _, err := first.try(one, get(t.Context())); first.refusedAfter(err) > time.Second {
		t.Errorf("after a token, the first wait is that of %v", err)
	}
}

// While the store is down, a node waits for as long as the endpoint says, as it does without a store.
func TestRetryAfterWithoutTheStore(t *testing.T) {
	c := newCluster(t, respond(http.StatusTooManyRequests, "", "Retry-After", "600"))
	w, connector := c.node()
	c.store.down.Store(true)
	_, err := w.try(connector, get(t.Context()))
	if wait := w.refusedAfter(err); wait != 10*time.Minute {
		t.Errorf("the endpoint is asked again after %v, want 10 minutes", wait)
	}
}

// refusedAfter returns the time that the error of a refused token says to wait.
func (w *world) refusedAfter(err error) time.Duration {
	w.t.Helper()
	var refused *host.TokenError
	if !errors.As(err, &refused) {
		w.t.Fatalf("the error is %v", err)
	}
	return refused.RetryAfter
}

// The log says once a minute that the store fails. Degraded is called each time. Without both, the host works as well.
func TestFailingStoreLog(t *testing.T) {
	c := newCluster(t, tokens(70))
	w, connector := c.node()
	c.store.down.Store(true)
	// A token is used for 10 seconds. A clock that is set back does not stop the log.
	for i, later := range []time.Duration{0, 30 * time.Second, 30 * time.Second, -24 * time.Hour} {
		c.clock.Advance(later)
		w.get(connector)
		if n, want := w.logged("the store of state failed"), []int{1, 1, 2, 3}[i]; n != want {
			t.Errorf("after %d requests, the log has %d lines about the store, want %d", i+1, n, want)
		}
	}
	if n := c.degraded.Load(); n != 4 {
		t.Errorf("Degraded was called %d times, want 4", n)
	}
	store := &failingStore{}
	silent := newWorld(t, withState(t, store))
	silent.canary("s")
	store.down.Store(true)
	silent.get(silent.connect("oauth_client_credentials", client()))
}
