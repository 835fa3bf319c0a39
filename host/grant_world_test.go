package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"

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
	secret := []string{abi.SinkToken}
	g := &guest{about: abi.Description{
		Type: "refresher", Uses: []string{contract.GroupToken, contract.GroupCache, contract.GroupState},
		Fields: []abi.Field{
			{Name: "token_url", Kind: abi.KindURL, Required: true, Sinks: secret},
			sealedField("refresh_token", secret...), sealedField("client_secret", secret...),
		},
		Answers: []abi.Answer{
			{Name: "access_token", From: "json:/access_token", Kind: contract.AnswerSealed, Sinks: []string{abi.SinkHeader}, Required: true},
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
	c := config{"token_url": tokenURL, "refresh_token": "{{ get_secret('seed') }}"}
	for i := 0; i < len(pairs); i += 2 {
		c[pairs[i].(string)] = pairs[i+1]
	}
	return c
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
	w.setSecret("seed", firstSeed)
	w.Hide("the seed", firstSeed)
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
