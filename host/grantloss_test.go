package host_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

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

var errReset = errors.New("connection reset by peer")

// failed are the answers that do not say whether a token was redeemed.
var failed = map[string]answer{
	"cut": func(*http.Request) (*http.Response, error) { return nil, errReset },
	"an answer that breaks off": func(*http.Request) (*http.Response, error) {
		response := testworld.Response(http.StatusOK, "")
		response.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"access_token":"`), iotest.ErrReader(errReset)))
		return response, nil
	},
	"500": status(500), "502": status(502), "504": status(504), "520": status(520), "a redirect": status(302),
	"200 without a token": respond(200, `{}`), "200 and no JSON": respond(200, `<html>`), "200 and a failure": respond(200, `{"error":"server_error"}`),
	"500 and an error of its own": respond(500, `{"error":"server_error"}`),
}

// unkept are the answers after which there is nothing to try.
var unkept = map[string]answer{
	"a token that is too long to keep": respond(200, `{"access_token":"an-access-token","refresh_token":"`+strings.Repeat("r", 33<<10)+`"}`),
	"a token that is no text":          respond(200, `{"access_token":"an-access-token","refresh_token":{}}`),
	"200 and an error of its own":      respond(200, `{"error":"bad_refresh_token"}`),
}

// After an answer that does not say what became of the token, the grant is uncertain. For a second nobody sends the token, and callers
// learn when to come back. Then a request sends it again, from any node, and if that goes well, its user has noticed nothing else.
// threats.md 124, specification.md "a refresh token whose answer was lost"
func TestUnansweredGrant(t *testing.T) {
	for name, answer := range failed {
		t.Run(name, func(t *testing.T) {
			c, server := grants(t)
			server.before = answer
			w, connector := granted(c, refresher(nil), seeded())
			later, same := granted(c, refresher(nil), seeded())
			first := grantError(t, w, connector, host.ConditionUncertain)
			if first.Err == nil || w.logged("is uncertain") != 1 {
				t.Errorf("the error is %v, and the log has %d lines", first, w.logged("is uncertain"))
			}
			server.before = nil
			for _, n := range []caller{{w, connector}, {later, same}} {
				if e := grantError(t, n.w, n.c, host.ConditionUncertain); e.RetryAfter != first.RetryAfter || e.RetryAfter > time.Second || e.RetryAfter < 800*time.Millisecond {
					t.Errorf("callers come back after %s, the first one after %s", e.RetryAfter, first.RetryAfter)
				}
			}
			if server.sent[firstSeed] != 1 {
				t.Errorf("the token was sent %d times", server.sent[firstSeed])
			}
			c.clock.Advance(first.RetryAfter)
			later.get(same)
			w.get(connector)
			if bearerOf(later) != "Bearer access-token-1" || bearerOf(w) != "Bearer access-token-1" || server.sent[firstSeed] != 2 {
				t.Errorf("%v were sent", server.sent)
			}
		})
	}
}

// The waits before a token is sent again double for all nodes together, up to five minutes, and Retry-After is one.
func TestAnUncertainGrantWaitsLonger(t *testing.T) {
	c, server := grants(t)
	server.before = status(502)
	nodes := []caller{}
	for range 2 {
		w, connector := granted(c, refresher(nil), seeded())
		nodes = append(nodes, caller{w, connector})
	}
	for i, longest := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		e := grantError(t, nodes[i%2].w, nodes[i%2].c, host.ConditionUncertain)
		if longest *= time.Second; e.RetryAfter > longest || e.RetryAfter < longest*4/5 || server.sent[firstSeed] != i+1 {
			t.Errorf("after attempt %d of %v the wait is %s", i+1, server.sent, e.RetryAfter)
		}
		c.clock.Advance(e.RetryAfter)
	}
	server.before = func(*http.Request) (*http.Response, error) {
		response := testworld.Response(http.StatusBadGateway, "")
		response.Header.Set("Retry-After", "77")
		return response, nil
	}
	if e := grantError(t, nodes[0].w, nodes[0].c, host.ConditionUncertain); e.RetryAfter != 77*time.Second {
		t.Errorf("with Retry-After: 77 the wait is %s", e.RetryAfter)
	}
}

// A grant is lost, and its token not sent again, after an answer whose token cannot be kept, and for an operator who wants none to be sent
// again, after each that does not say what became of it. Each request says how to renew the grant, and the log whose it is.
// threats.md 124
func TestLostGrant(t *testing.T) {
	run := func(name string, answer answer, never bool) {
		t.Run(name, func(t *testing.T) {
			c, server := grants(t)
			server.before = answer
			w, later := grantedOnce(c, never), grantedOnce(c, never)
			lost := grantError(t, w.w, w.c, host.ConditionLost)
			if !strings.Contains(lost.Error(), ": configure a new auth.config.refresh_token") || lost.Err == nil || w.w.logged("may be lost") != 1 {
				t.Errorf("the error is %v, and the log has %d lines", lost, w.w.logged("may be lost"))
			}
			server.before = nil
			for range 2 {
				grantError(t, later.w, later.c, host.ConditionLost)
				grantError(t, w.w, w.c, host.ConditionLost)
				c.clock.Advance(time.Hour)
			}
			if server.sent[firstSeed] != 1 {
				t.Errorf("the token was sent %d times", server.sent[firstSeed])
			}
		})
	}
	for name, answer := range unkept {
		run(name, answer, false)
	}
	for name, answer := range failed {
		run("never again: "+name, answer, true)
	}
}

// grantedOnce adds a node with the refresher. If never is set, it sends no token again.
func grantedOnce(c *cluster, never bool) caller {
	w, _ := granted(c, refresher(nil), seeded())
	connector := w.open(host.ConnectorConfig{Auth: []host.Auth{{Type: "refresher", Config: seeded()}}, NeverResend: never})
	return caller{w, connector}
}

// A process that was stopped between the intent and the request sends nothing after the deadline of the attempt, with whatever base: here, a
// tracer stops it. The token was not redeemed then. threats.md 300
func TestNoSendAfterDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := grants(t)
		stops := true
		tracer := &spans{began: func(s host.Span) {
			if s.Name == event.Exchange && stops {
				stops = false
				time.Sleep(time.Minute) // in the bubble's time
			}
		}}
		w := c.world(withoutBuiltIns, withGuest(refresher(nil)), withTracer(tracer))
		w.setSecret("seed", firstSeed)
		connector := w.connectAs("crm", "refresher", seeded())
		if _, err := w.try(connector, get(t.Context())); err == nil || server.sent[firstSeed] != 0 || !strings.Contains(err.Error(), "nothing was sent") {
			t.Errorf("%v were sent: %v", server.sent, err)
		}
		w.get(connector)
		if server.sent[firstSeed] != 1 {
			t.Errorf("%v were sent", server.sent)
		}
	})
}
