package host_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// cachingConsenter returns a guest with consent that caches its access tokens, also that of the run of connect.
func cachingConsenter() *guest {
	g := consenter()
	g.about.Uses = append(g.about.Uses, contract.GroupCache)
	g.about.Answers = append(g.about.Answers, abi.Answer{Name: "access_token", From: "json:/access_token", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}})
	keep := func(env contract.Env, name, text string) string {
		token := exchange(env, contract.Exchange{URL: value(env, "token_url"), Form: []abi.Pair{{Name: name, Value: text}}}).Answers["access_token"]
		env.CacheSet("access_token", token, 3600)
		return token
	}
	g.connect = func(env contract.Env) (string, error) {
		keep(env, "code", "the-code-of-alice")
		return "", nil
	}
	g.authenticate = func(env contract.Env) (string, error) {
		token, ok := env.CacheGet("access_token")
		if !ok {
			refresh, ok := env.StateGet("refresh_token")
			if !ok {
				return "", errors.New("no refresh token")
			}
			token = keep(env, "refresh_token", refresh)
		}
		return header("Authorization", "Bearer "+token), nil
	}
	return g
}

// What a plugin caches in its run of connect serves nobody after the grant was taken back (threats.md 145).
func TestTokensOfTheRunOfConnect(t *testing.T) {
	w, connector := guestConsents(consenting(t, "the-code-of-alice"), cachingConsenter())
	check(t, finish(t, w, connector, alice, back(begin(t, connector, alice), "the-code-of-alice")))
	w.send(connector, get(forUser(t, alice)))
	check(t, connector.Disconnect(forUser(t, alice)))
	condition(t, connector, alice, host.ConditionNotConnected)
	w.refuse(connector, get(forUser(t, alice)), host.StageToken, "is not there")
}

// askedStore calls before and after each Get. after may change the row.
type askedStore struct {
	state.Store
	before func(ctx context.Context) error
	after  func(*state.Row)
}

func (s *askedStore) Get(ctx context.Context, id state.ID) (row state.Row, err error) {
	if s.before != nil {
		if err := s.before(ctx); err != nil {
			return row, err
		}
	}
	row, err = s.Store.Get(ctx, id)
	if s.after != nil {
		s.after(&row)
	}
	return row, err
}

// asked returns a cluster whose store is an askedStore.
func asked(t *testing.T) (*cluster, *askedStore) {
	t.Helper()
	c := consenting(t, "the-first-code")
	s := &askedStore{Store: c.store.Store}
	c.store.Store = s
	return c, s
}

// connectedNode adds a node at which alice has connected, and has sent a request.
func connectedNode(t *testing.T, c *cluster) (*world, *host.Connector) {
	t.Helper()
	w, connector := consents(c)
	check(t, finish(t, w, connector, alice, back(begin(t, connector, alice), "the-first-code")))
	w.send(connector, get(forUser(t, alice)))
	return w, connector
}

// Requests that are cancelled while they ask whether a grant is still there do not keep a node from noticing that it is not
// (threats.md 146).
func TestCancelledRequestsAfterAGrantWasTakenBack(t *testing.T) {
	c, store := asked(t)
	_, first := connectedNode(t, c)
	two, second := consents(c)
	two.send(second, get(forUser(t, alice)))
	check(t, first.Disconnect(forUser(t, alice)))
	c.clock.Advance(30 * time.Second)
	ctx, cancel := context.WithCancel(forUser(t, alice))
	store.before = func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}
	_, _ = two.try(second, get(ctx))
	store.before = nil
	two.refuse(second, get(forUser(t, alice)), host.StageToken, "is not there")
}

// A grant that is taken back while another request asks for it is not used by a later request (threats.md 146).
func TestDisconnectDuringRequest(t *testing.T) {
	c, store := asked(t)
	w, connector := connectedNode(t, c)
	c.clock.Advance(30 * time.Second)
	store.after = func(*state.Row) {
		store.after = nil
		if err := connector.Disconnect(forUser(t, alice)); err != nil {
			t.Error(err)
		}
	}
	_, _ = w.try(connector, get(forUser(t, alice)))
	w.refuse(connector, get(forUser(t, alice)), host.StageToken, "is not there")
}

// A plugin caches a token under a new key in each call, for as long as it may. The store of state keeps none for more than a day
// (threats.md 10).
func TestStoreFillingPlugin(t *testing.T) {
	c, store := asked(t)
	g := refresher(nil)
	n := 1
	g.authenticate = func(env contract.Env) (string, error) {
		key := strings.Repeat("x", n) // as that of a clock would be
		_, _ = env.CacheGet(key)
		reply := exchange(env, contract.Exchange{URL: value(env, "token_url"), Answers: []string{"access_token"}, Form: []abi.Pair{{Name: "refresh_token", Value: value(env, "refresh_token")}}})
		env.CacheSet(key, reply.Answers["access_token"], 1<<31)
		return header("Authorization", "Bearer "+reply.Answers["access_token"]), nil
	}
	c.login = testworld.NewServer(func(*http.Request) (*http.Response, error) {
		return testworld.Response(http.StatusOK, `{"access_token":"an-access-token"}`), nil
	})
	w, connector := granted(c, g, seeded())
	for ; n <= 5; n++ {
		w.send(connector, get(t.Context()))
	}
	rows := func() (n int) {
		if err := store.Rows(t.Context(), func(state.ID, state.Row) error {
			n++
			return nil
		}); err != nil {
			t.Error(err)
		}
		return n
	}
	if got := rows(); got < 6 {
		t.Errorf("there are %d rows", got)
	}
	c.clock.Advance(24 * time.Hour)
	if got := rows(); got != 1 { // the key of the names
		t.Errorf("after a day there are %d rows", got)
	}
}

// If the token of a grant cannot be read, the grant is forgotten, and the error says that it was not revoked (threats.md 149).
func TestDisconnectUnopenedGrant(t *testing.T) {
	c, store := asked(t)
	_, connector := connectedNode(t, c)
	store.after = func(row *state.Row) {
		if row.Value != nil {
			row.Value[0]++
		}
	}
	if err := connector.Disconnect(forUser(t, alice)); !errors.Is(err, host.ErrNotRevoked) {
		t.Errorf("the error is %v", err)
	}
	store.after = nil
	condition(t, connector, alice, host.ConditionNotConnected)
}

// A consent that is under way is kept as JSON, which has no form for each ID. The grant of a user with such an ID is not that of
// another one, who has the ID that is left of it (threats.md 131).
func TestGrantsOfNonUTF8IDs(t *testing.T) {
	w, connector := consents(consenting(t, "the-code-of-jose"))
	for _, jose := range []host.User{{ID: "jos\xe9"}, {ID: "jose", TenantID: "acm\xe9"}} {
		target, err := connector.BeginConsent(forUser(t, jose), host.ConsentRequest{RedirectURI: redirectURI, Binding: binding})
		if err == nil {
			u, _ := url.Parse(target)
			_ = finish(t, w, connector, host.User{}, back(u.Query(), "the-code-of-jose"))
			t.Errorf("a consent of %q begins", jose)
		}
		condition(t, connector, host.User{ID: strings.ToValidUTF8(jose.ID, "\ufffd"), TenantID: strings.ToValidUTF8(jose.TenantID, "\ufffd")}, host.ConditionNotConnected)
		w.refuse(connector, get(forUser(t, jose)), host.StageTemplate, "UTF-8")
	}
}

// The host keeps a seed as JSON, which has no form for each text. It sends the seed as it is configured, or not at all.
func TestNonUTF8Seed(t *testing.T) {
	c, server := grants(t)
	w, connector := granted(c, refresher(nil), seeded())
	w.setSecret("seed", "a-refresh-token\xff")
	w.refuse(connector, get(t.Context()), host.StageConfig, "refresh_token is not UTF-8")
	if len(server.sent) > 0 {
		t.Errorf("the endpoint got %v", server.sent)
	}
}

// A server that has refused to revoke one grant is asked to revoke the next one (threats.md 149).
func TestRevocationsAfterARefusal(t *testing.T) {
	server := newIssuer("the-first-code", "the-second-code")
	c := newCluster(t, func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/revoke" {
			return testworld.Response(http.StatusUnauthorized, `{"error":"invalid_client"}`), nil
		}
		return server.answer(r)
	})
	w, connector := consents(c, "revocation_url", "https://login.test/revoke")
	for i, code := range []string{"the-first-code", "the-second-code"} {
		check(t, finish(t, w, connector, alice, back(begin(t, connector, alice), code)))
		if err := connector.Disconnect(forUser(t, alice)); !errors.Is(err, host.ErrNotRevoked) {
			t.Errorf("the error is %v", err)
		}
		if n := c.login.Count(); n != 2*(i+1) {
			t.Errorf("after %d grants there were %d requests, want a code and a revocation for each", i+1, n)
		}
	}
}

// A new consent replaces a grant and does not revoke it, because many servers would revoke the new one as well.
func TestReplacedGrantKeepsToken(t *testing.T) {
	server := newIssuer("the-first-code", "the-second-code")
	revoked := 0
	c := newCluster(t, func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/revoke" {
			revoked++
		}
		return server.answer(r)
	})
	w, connector := consents(c, "revocation_url", "https://login.test/revoke")
	for _, code := range []string{"the-first-code", "the-second-code"} {
		check(t, finish(t, w, connector, alice, back(begin(t, connector, alice), code)))
	}
	if revoked > 0 {
		t.Error("the grant before was revoked")
	}
	condition(t, connector, alice, host.ConditionConnected)
}

// A node asks the store once in 30 seconds whether a grant is still there, and asks again after its clock was set back
// (threats.md 146).
func TestGrantStoreReads(t *testing.T) {
	c, store := asked(t)
	w, connector := connectedNode(t, c)
	n := 0
	store.before = func(context.Context) error {
		n++
		return nil
	}
	for _, step := range []struct {
		later time.Duration
		asks  bool
	}{
		{0, false},
		{30*time.Second - 1, false},
		{1, true},
		{0, false},
		{-time.Second, true},
		{0, false},
	} {
		c.clock.Advance(step.later)
		before := n
		w.send(connector, get(forUser(t, alice)))
		if n > before != step.asks {
			t.Errorf("%v later, the store is asked %d times", step.later, n-before)
		}
	}
}
