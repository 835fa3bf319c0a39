package oidcprovider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

// shared has the store of state and the time of several hosts.
type shared struct {
	w     *provider
	store state.Store
	auth  object

	mu  sync.Mutex
	now time.Time
}

// newShared starts a provider with a client that has the consent of a user. The refresh tokens of the client rotate, unless the
// client is the one that is named stays.
func newShared(t *testing.T, client string) *shared {
	t.Helper()
	w := newProvider(t, []object{{"client_id": client, "client_secret": reservedSecret, "token_endpoint_auth_method": "client_secret_post"}})
	s := &shared{w: w, now: time.Now()}
	s.store = state.NewMemory(s.clock)
	w.secrets["crm"] = reservedSecret
	s.auth = object{
		"client_id": client, "client_secret": "{{ get_secret('crm') }}",
		"refresh_token": "{{ get_secret('seed') }}", "token_url": w.issuer + "/token",
	}
	s.consent()
	return s
}

// consent sets the seed to the refresh token of a new consent.
func (s *shared) consent() {
	var grant struct {
		RefreshToken string `json:"refresh_token"`
	}
	s.w.ask(http.MethodGet, "/grant?client="+s.auth["client_id"].(string), nil, &grant)
	s.w.secrets["seed"] = grant.RefreshToken
}

func (s *shared) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *shared) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// node is a host of its own.
type node struct {
	*shared
	host      *host.Host
	state     *host.State
	connector *host.Connector
}

// node starts a host with a store.
func (s *shared) node(store state.Store) *node {
	t := s.w.t
	t.Helper()
	kept := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: store, Keys: [][]byte{[]byte(strings.Repeat("k", 32))}, Clock: s.clock}))(t)
	c := s.w.config()
	c.BuiltIns, c.State, c.Clock = []host.Plugin{module(t, "../../plugins/refreshtoken/refreshtoken.wasm")}, kept, s.clock
	h := testworld.Must(host.New(t.Context(), c))(t)
	connector := testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{
		Name: "api", Origins: []string{s.w.issuer}, Auth: []host.Auth{{Type: "oauth_refresh_token", Config: s.auth}},
	}))(t)
	return &node{s, h, kept, connector}
}

// stop ends the host, and what it keeps for its store.
func (n *node) stop(ctx context.Context) error {
	return errors.Join(n.host.Close(context.Background()), n.state.Close(ctx))
}

// me asks the provider's API who the user is.
func (n *node) me() error {
	n.w.t.Helper()
	answer, status, err := n.w.get(&http.Client{Transport: n.connector.Transport(nil)}, "/me", host.User{})
	if err == nil && (status != http.StatusOK || answer["sub"] != "ann") {
		n.w.t.Errorf("the API answers %d: %v", status, answer)
	}
	return err
}

// redeemed returns the numbers of redemptions and of refusals.
func (s *shared) redeemed() (redeemed, refused int) {
	for _, r := range s.w.seen() {
		switch {
		case r.Path != "/token":
		case r.Status == http.StatusOK:
			redeemed++
		default:
			refused++
		}
	}
	return redeemed, refused
}

// lost fails the test unless an error is that of a grant in a condition.
func lost(t *testing.T, err error, condition host.Condition) {
	t.Helper()
	var grant *host.GrantError
	if !errors.As(err, &grant) || grant.Condition != condition {
		t.Fatalf("the error is %v, want a grant that is %s", err, condition)
	}
}

// 200 refreshes in a row go well at a provider that rotates refresh tokens and revokes the grant at a second use. After each
// few, the host is started anew. The provider is the judge: when the test then uses a token twice, the grant is gone, and the
// host says so.
// threats.md 123
func TestRotatingRefreshTokens(t *testing.T) {
	s := newShared(t, "rotates")
	n := s.node(s.store)
	for i := range 200 {
		if i%7 == 6 {
			testworld.Check(t, n.stop(t.Context()))
			n = s.node(s.store)
		}
		if err := n.me(); err != nil {
			t.Fatalf("refresh %d: %v", i, err)
		}
		s.advance(2 * time.Hour)
	}
	if redeemed, refused := s.redeemed(); redeemed != 200 || refused != 0 {
		t.Errorf("%d redemptions and %d refusals, want 200 and none", redeemed, refused)
	}
	var answer object
	status := s.w.ask(http.MethodPost, "/token", url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {s.w.secrets["seed"]}, "client_id": {"rotates"}, "client_secret": {reservedSecret},
	}, &answer)
	if status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Fatalf("the provider answers %d, %v, and cannot judge", status, answer)
	}
	lost(t, n.me(), host.ConditionRefused)
	testworld.Check(t, n.stop(t.Context()))
}

// A refresh token that does not rotate is used again and again.
func TestLastingRefreshTokens(t *testing.T) {
	s := newShared(t, "stays")
	for range 5 {
		n := s.node(s.store)
		testworld.Check(t, errors.Join(n.me(), n.stop(t.Context())))
		s.advance(2 * time.Hour)
	}
	if redeemed, refused := s.redeemed(); redeemed != 5 || refused != 0 {
		t.Errorf("%d redemptions and %d refusals, want 5 and none", redeemed, refused)
	}
}

// here is an API that is always there.
type here struct{}

func (here) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
}

// A thousand callers on two hosts with one store, and an access token that has expired, cause one redemption. threats.md 123
func TestOneRedemptionForTwoHosts(t *testing.T) {
	s := newShared(t, "rotates")
	nodes := []*node{s.node(s.store), s.node(s.store)}
	for round := 1; round <= 3; round++ {
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.w.issuer+"/me", nil)
				if err != nil {
					t.Error(err)
					return
				}
				response, err := nodes[i%2].connector.Transport(here{}).RoundTrip(r)
				if err != nil {
					t.Error(err)
					return
				}
				_ = response.Body.Close()
			})
		}
		all.Wait()
		if redeemed, refused := s.redeemed(); redeemed != round || refused != 0 {
			t.Fatalf("round %d: %d redemptions and %d refusals", round, redeemed, refused)
		}
		s.advance(2 * time.Hour)
	}
	for _, n := range nodes {
		testworld.Check(t, errors.Join(n.me(), n.stop(t.Context())))
	}
}

// dying is a store that takes the intent, and then nothing more, for the host that is about to end.
type dying struct {
	state.Store
	puts atomic.Int64
}

func (d *dying) Put(ctx context.Context, l state.Lease, value []byte, expires time.Duration, release bool) (bool, error) {
	if d.puts.Add(1) > 1 {
		return false, io.ErrClosedPipe
	}
	return d.Store.Put(ctx, l, value, expires, release)
}

// A host ends after the provider has redeemed the token and before the store has the next one. Another sends the token once more, the
// provider takes that for theft, and the grant is reported as lost. The user may consent anew. threats.md 124
func TestACrashBetweenRedemptionAndWrite(t *testing.T) {
	s := newShared(t, "rotates")
	first := s.node(s.store)
	testworld.Check(t, errors.Join(first.me(), first.stop(t.Context())))
	s.advance(2 * time.Hour)
	crashed := s.node(&dying{Store: s.store})
	if err := crashed.me(); err != nil {
		t.Fatal(err) // it has the token, and nobody else
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if err := crashed.stop(gone); err == nil {
		t.Error("the host ends without a word about the token that it could not write")
	}
	s.advance(time.Minute)
	n := s.node(s.store)
	lost(t, n.me(), host.ConditionUncertain) // the host that has the answer has seven seconds to write it
	s.advance(7 * time.Second)
	lost(t, n.me(), host.ConditionLost)
	s.advance(2 * time.Hour)
	lost(t, n.me(), host.ConditionLost)
	if redeemed, refused := s.redeemed(); redeemed != 2 || refused != 1 {
		t.Errorf("%d redemptions and %d refusals, want 2 and one", redeemed, refused)
	}
	s.consent()
	if err := n.me(); err != nil {
		t.Errorf("after a new consent: %v", err)
	}
	testworld.Check(t, n.stop(t.Context()))
}
