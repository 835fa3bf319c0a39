package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// rotation is a token endpoint that redeems each refresh token once, and revokes the grant at a second use (RFC 9700 section
// 4.14.2).
type rotation struct {
	mu      sync.Mutex
	current string
	sent    map[string]int
	revoked bool
	issued  int
	// before may answer in place of the endpoint. It is called after a token was redeemed if after is set.
	before, after func(r *http.Request) (*http.Response, error)
}

func newRotation(seed string) *rotation {
	return &rotation{current: seed, sent: map[string]int{}}
}

func (s *rotation) answer(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	token := form.Get("refresh_token")
	s.sent[token]++
	if s.before != nil {
		return s.before(r)
	}
	if token != s.current || s.revoked {
		s.revoked = true
		return testworld.Response(http.StatusBadRequest, `{"error":"invalid_grant"}`), nil
	}
	s.issued++
	s.current = fmt.Sprintf("rotated-refresh-token-%d", s.issued)
	if s.after != nil {
		return s.after(r)
	}
	return testworld.Response(http.StatusOK, fmt.Sprintf(`{"access_token":"access-token-%d","expires_in":3600,"refresh_token":%q}`, s.issued, s.current)), nil
}

// twice returns the tokens that were sent more than once.
func (s *rotation) twice() (tokens []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, n := range s.sent {
		if n > 1 {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// refresher returns a guest that redeems the refresh token of a state. change may change its exchange.
func refresher(change func(*contract.Exchange)) *guest {
	secret := []string{contract.SinkToken}
	g := &guest{about: abi.Description{
		Type: "refresher", Uses: []string{contract.GroupToken, contract.GroupCache, contract.GroupState},
		Fields: []abi.Field{
			{Name: "token_url", Kind: abi.KindURL, Required: true, Sinks: secret},
			sealedField("refresh_token", secret...), sealedField("client_secret", secret...),
		},
		Answers: []abi.Answer{
			{Name: "access_token", From: "json:/access_token", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}, Required: true},
			{Name: "refresh_token", From: "json:/refresh_token", Kind: contract.AnswerSealed, Sinks: secret, State: "refresh_token"},
		},
		State: []abi.State{{Name: "refresh_token", Seed: "refresh_token"}},
	}}
	g.authenticate = func(env contract.Env) (string, error) {
		token, ok := env.CacheGet("access_token")
		if !ok {
			reply, err := redeem(env, change)
			if err != nil {
				return "", err
			}
			token = reply.Answers["access_token"]
			env.CacheSet("access_token", token, 3540)
		}
		return header("Authorization", "Bearer "+token), nil
	}
	return g
}

func redeem(env contract.Env, change func(*contract.Exchange)) (reply contract.ExchangeReply, err error) {
	refresh, ok := env.StateGet("refresh_token")
	if !ok {
		return reply, errors.New("there is no refresh token")
	}
	e := contract.Exchange{URL: value(env, "token_url"), Form: []abi.Pair{{Name: "refresh_token", Value: refresh}}}
	if secret := value(env, "client_secret"); secret != "" {
		e.Form = append(e.Form, abi.Pair{Name: "client_secret", Value: secret})
	}
	if change != nil {
		change(&e)
	}
	reply = exchange(env, e)
	if reply.Status >= 400 {
		err = fmt.Errorf("the endpoint answered %d", reply.Status)
	}
	return reply, err
}

func exchange(env contract.Env, e contract.Exchange) (reply contract.ExchangeReply) {
	if err := json.Unmarshal(env.Exchange([]byte(marshal(e))), &reply); err != nil {
		panic("a test's document: " + err.Error())
	}
	return reply
}

// seeded returns a configuration of the refresher.
func seeded(pairs ...any) config {
	return with(config{"token_url": tokenURL, "refresh_token": "{{ get_secret('seed') }}"}, pairs...)
}

const firstSeed = "the-first-refresh-token"

// grants is a cluster whose nodes have the refresher.
func grants(t *testing.T) (*cluster, *rotation) {
	t.Helper()
	server := newRotation(firstSeed)
	return newCluster(t, server.answer), server
}

// granted adds a node with a guest and returns its world and a connector.
func granted(c *cluster, g *guest, auth config) (*world, *host.Connector) {
	w := c.world(withoutBuiltIns, withGuest(g))
	w.canaryOf("seed", firstSeed)
	return w, w.connectAs("crm", "refresher", auth)
}

func bearerOf(w *world) string { return w.api.Last().Header.Get("Authorization") }

// grantError returns the GrantError of a request that must fail with one.
func grantError(t *testing.T, w *world, c *host.Connector, condition host.Condition) *host.GrantError {
	t.Helper()
	err := w.refuse(c, get(t.Context()), host.StageToken)
	var lost *host.GrantError
	if !errors.As(err, &lost) || lost.Condition != condition || lost.Connector != "crm" || err.Retryable() != (condition == host.ConditionUncertain) {
		t.Fatalf("the error is %v, want a grant that is %s", err, condition)
	}
	return lost
}

// A refresh token that rotates is redeemed once, by node after node. threats.md 123
func TestARotatingTokenGoesFromNodeToNode(t *testing.T) {
	c, server := grants(t)
	for i := 1; i <= 12; i++ {
		w, connector := granted(c, refresher(nil), seeded()) // each node starts anew
		w.get(connector)
		w.get(connector)
		if want := fmt.Sprintf("Bearer access-token-%d", i); bearerOf(w) != want {
			t.Fatalf("request %d has %q, want %q", i, bearerOf(w), want)
		}
		c.clock.Advance(time.Hour)
	}
	if twice := server.twice(); twice != nil || len(server.sent) != 12 {
		t.Errorf("%d tokens were sent, and %q twice", len(server.sent), twice)
	}
}

// A server that does not rotate gets the same token again.
func TestNonRotatingToken(t *testing.T) {
	c, server := grants(t)
	for _, answer := range []string{
		`{"access_token":"an-access-token"}`, `{"access_token":"an-access-token","refresh_token":null}`,
		`{"access_token":"an-access-token","refresh_token":""}`, `{"access_token":"an-access-token","refresh_token":"` + firstSeed + `"}`,
		`{"access_token":"an-access-token","refresh_token":" "}`,
	} {
		server.before = respond(http.StatusOK, answer)
		w, connector := granted(c, refresher(nil), seeded())
		w.get(connector)
		c.clock.Advance(time.Hour)
	}
	if server.sent[firstSeed] != 5 {
		t.Errorf("the token was sent %d times, want 5: %v", server.sent[firstSeed], server.sent)
	}
}

// A host that ends between the redemption and the write loses the grant of a server that rotates: it takes no token twice.
// threats.md 124
func TestACrashAfterTheRedemptionLosesTheGrant(t *testing.T) {
	c, server := grants(t)
	dying := &failingStore{Store: c.store.Store}
	server.after = func(*http.Request) (*http.Response, error) {
		dying.down.Store(true)
		return testworld.Response(http.StatusOK, `{"access_token":"an-access-token","refresh_token":"`+server.current+`"}`), nil
	}
	crashed, gone := context.WithCancel(context.Background())
	s := must(host.NewState(t.Context(), host.StateConfig{Store: dying, Keys: [][]byte{stateKey}, Clock: c.clock.Now}))(t)
	w := newWorld(t, withoutBuiltIns, withGuest(refresher(nil)), func(h *host.Config) { h.State, h.Clock = s, c.clock.Now })
	w.login = c.login
	w.setSecret("seed", firstSeed)
	w.get(w.connectAs("crm", "refresher", seeded())) // this host has the token, and nobody else
	gone()
	if err := s.Close(crashed); err == nil {
		t.Error("closing the state says that nothing is lost")
	}
	c.clock.Advance(time.Minute)
	server.after = nil
	later, connector := granted(c, refresher(nil), seeded())
	grantError(t, later, connector, host.ConditionUncertain) // the host that has the answer has seven seconds to write it
	c.clock.Advance(7 * time.Second)
	grantError(t, later, connector, host.ConditionLost)
	if server.sent[firstSeed] != 2 || len(server.sent) != 1 {
		t.Errorf("%v were sent", server.sent)
	}
	// A new seed renews it.
	server.current, server.revoked = "the-second-refresh-token", false
	later.setSecret("seed", "the-second-refresh-token")
	later.get(connector)
	if bearerOf(later) != "Bearer access-token-2" {
		t.Errorf("a new seed has %q", bearerOf(later))
	}
}

// The code invalid_grant says that the token is not valid, in any status. Nobody sends it again.
func TestRefusedGrant(t *testing.T) {
	for _, code := range []int{200, 400, 401, 500} {
		c, server := grants(t)
		server.before = respond(code, `{"error":"invalid_grant","error_description":"hunter2"}`)
		w, connector := granted(c, refresher(nil), seeded())
		refused := grantError(t, w, connector, host.ConditionRefused)
		if answer, ok := errors.AsType[*host.TokenError](refused); !ok || answer.Status != code || answer.Code != "invalid_grant" || strings.Contains(refused.Error(), "hunter2") {
			t.Errorf("%d: refused = %v", code, refused)
		}
		server.before = nil
		grantError(t, w, connector, host.ConditionRefused)
		later, same := granted(c, refresher(nil), seeded())
		grantError(t, later, same, host.ConditionRefused)
		if server.sent[firstSeed] != 1 {
			t.Errorf("%d: the token was sent %d times", code, server.sent[firstSeed])
		}
	}
}

// After a refusal that is not of the token, it is sent again.
func TestARefusalOfTheClientKeepsTheGrant(t *testing.T) {
	for name, answer := range map[string]answer{
		"401": respond(401, `{"error":"invalid_client"}`), "403": status(403), "429": status(429), "503": status(503),
		"500 and a code": respond(500, `{"error":"invalid_scope"}`), "200 and a code": respond(200, `{"error":"unauthorized_client"}`),
	} {
		c, server := grants(t)
		server.before = answer
		w, connector := granted(c, refresher(nil), seeded())
		refused := w.refuse(connector, get(t.Context()), host.StageToken)
		server.before = nil
		c.clock.Advance(time.Hour)
		w.get(connector)
		if bearerOf(w) != "Bearer access-token-1" || errors.As(refused, new(*host.GrantError)) {
			t.Errorf("%s: the request has %q after %v", name, bearerOf(w), refused)
		}
	}
}

// The plugin may try again after a refusal that is not of the token, and not after a redemption.
func TestStateUsedOncePerCall(t *testing.T) {
	again := func(statuses ...int) (*cluster, *rotation, *guest) {
		c, server := grants(t)
		g := refresher(nil)
		g.authenticate = func(env contract.Env) (string, error) {
			if reply, err := redeem(env, nil); len(statuses) > 0 && (err == nil || reply.Status != statuses[0]) {
				t.Errorf("the first answer is %d, %v", reply.Status, err)
			}
			server.before = nil
			reply, err := redeem(env, nil)
			if err != nil {
				return "", err
			}
			return header("Authorization", "Bearer "+reply.Answers["access_token"]), nil
		}
		if len(statuses) > 0 {
			server.before = status(statuses[0])
		}
		return c, server, g
	}
	c, _, g := again(401)
	w, connector := granted(c, g, seeded())
	w.get(connector)
	if bearerOf(w) != "Bearer access-token-1" {
		t.Errorf("the request has %q", bearerOf(w))
	}
	c, server, g := again()
	w, connector = granted(c, g, seeded())
	w.refuse(connector, get(t.Context()), host.StagePlugin, "a state is used once in a call")
	if len(server.sent) != 1 || server.twice() != nil {
		t.Errorf("%v were sent", server.sent)
	}
}

// What net/http or another client would send again is refused before anything leaves. threats.md 125
func TestStateExchangeNotRepeated(t *testing.T) {
	for words, change := range map[string]func(*contract.Exchange){
		"GET": func(e *contract.Exchange) {
			e.Method, e.Query, e.Form = http.MethodGet, e.Form, nil
		},
		"an Idempotency-Key": func(e *contract.Exchange) { e.Headers = []abi.Pair{{Name: "X-Idempotency-Key", Value: "1"}} },
	} {
		c, server := grants(t)
		w, connector := granted(c, refresher(change), seeded())
		w.refuse(connector, get(t.Context()), host.StagePlugin, words)
		if len(server.sent) != 0 {
			t.Errorf("%s: %v were sent", words, server.sent)
		}
		well, same := granted(c, refresher(nil), seeded())
		well.get(same) // nothing was sent, so nothing is lost
	}
}

// A state cannot be missed: neither by an exchange before state_get, nor by token_request, nor by naming other answers.
func TestStateAnswerKept(t *testing.T) {
	c, server := grants(t)
	for words, call := range map[string]func(env contract.Env){
		"before state_get": func(env contract.Env) { exchange(env, contract.Exchange{URL: value(env, "token_url")}) },
		"after state_get": func(env contract.Env) {
			env.StateGet("refresh_token")
			env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "token_url")})))
		},
		"no state in": func(env contract.Env) { env.StateGet("password") },
	} {
		g := refresher(nil)
		g.authenticate = func(env contract.Env) (string, error) {
			call(env)
			return "", errors.New("the call goes on")
		}
		w, connector := granted(c, g, seeded())
		w.refuse(connector, get(t.Context()), host.StagePlugin, words)
	}
	if len(server.sent) != 0 {
		t.Errorf("%v were sent", server.sent)
	}
	few := refresher(func(e *contract.Exchange) { e.Answers = []string{"access_token"} })
	w, connector := granted(c, few, seeded())
	for range 3 {
		w.get(connector)
		c.clock.Advance(time.Hour)
	}
	if twice := server.twice(); twice != nil {
		t.Errorf("%q were sent twice", twice)
	}
}

// A new state is kept even if something else of the answer is missing.
func TestStateKeptOnPartialAnswer(t *testing.T) {
	c, server := grants(t)
	server.after = func(*http.Request) (*http.Response, error) {
		return testworld.Response(http.StatusOK, `{"refresh_token":"`+server.current+`"}`), nil
	}
	w, connector := granted(c, refresher(nil), seeded())
	w.refuse(connector, get(t.Context()), host.StageToken, "without access_token")
	server.after = nil
	c.clock.Advance(time.Hour)
	w.get(connector)
	if bearerOf(w) != "Bearer access-token-2" || server.twice() != nil {
		t.Errorf("the request has %q; %v were sent", bearerOf(w), server.sent)
	}
}

// Of a thousand callers on two hosts with one store, one redeems the token. threats.md 123
func TestOneRedemptionForTwoHosts(t *testing.T) {
	c, server := grants(t)
	one, first := granted(c, refresher(nil), seeded())
	two, second := granted(c, refresher(nil), seeded())
	for round := 1; round <= 3; round++ {
		var all sync.WaitGroup
		for i := range 1000 {
			w, connector := one, first
			if i%2 == 1 {
				w, connector = two, second
			}
			all.Go(func() {
				if status, err := w.try(connector, get(t.Context())); err != nil || status != http.StatusOK {
					t.Errorf("a caller got %d, %v", status, err)
				}
			})
		}
		all.Wait()
		if len(server.sent) != round || server.twice() != nil {
			t.Fatalf("round %d: %v were sent", round, server.sent)
		}
		c.clock.Advance(time.Hour)
	}
}

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
		if lost, ok := errors.AsType[*host.GrantError](err); !ok || lost.Tenant != tenant || lost.User != "" {
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
		if lost, ok := errors.AsType[*host.GrantError](err); !ok || lost.User != u.ID || lost.Tenant != "" || !strings.Contains(err.Error(), fmt.Sprintf("of user %q is uncertain", u.ID)) {
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
