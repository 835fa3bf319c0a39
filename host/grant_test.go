package host_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

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
	} {
		server.before = respond(http.StatusOK, answer)
		w, connector := granted(c, refresher(nil), seeded())
		w.get(connector)
		c.clock.Advance(time.Hour)
	}
	if server.sent[firstSeed] != 4 {
		t.Errorf("the token was sent %d times, want 4: %v", server.sent[firstSeed], server.sent)
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
	s, err := host.NewState(t.Context(), host.StateConfig{Store: dying, Keys: [][]byte{stateKey}, Clock: c.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
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
		var answer *host.TokenError
		if !errors.As(refused, &answer) || answer.Status != code || answer.Code != "invalid_grant" || strings.Contains(refused.Error(), "hunter2") {
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
		w.refuse(connector, get(t.Context()), host.StageToken)
		server.before = nil
		c.clock.Advance(time.Hour)
		w.get(connector)
		if bearerOf(w) != "Bearer access-token-1" {
			t.Errorf("%s: the request has %q", name, bearerOf(w))
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
