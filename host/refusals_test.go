package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// The host does not repeat a refused token request at once: threats.md 62 and 63, specification.md "the endpoint refuses".

// refusedFor sends a request that the token endpoint refuses or has refused, and returns RetryAfter of its error.
func (w *world) refusedFor(ctx context.Context, c *host.Connector) time.Duration {
	w.t.Helper()
	var answer *host.TokenError
	if err := w.refuse(c, get(ctx), host.StageToken); !errors.As(err, &answer) {
		w.t.Fatalf("the error is %v, want a TokenError", err)
	}
	return answer.RetryAfter
}

var wrongSecret = respond(http.StatusUnauthorized, `{"error":"invalid_client"}`)

func TestWrongSecretBackoff_threats_62(t *testing.T) {
	w, c := tokenWorld(t, wrongSecret)
	var asked []time.Duration // the time since the previous request
	var last time.Time
	for before := 0; len(asked) < 14; w.Advance(100 * time.Millisecond) {
		var answer *host.TokenError
		err := w.refuse(c, get(t.Context()), host.StageToken, "401 (invalid_client); it is asked again in ")
		if !errors.As(err, &answer) || answer.Status != 401 || answer.Code != "invalid_client" || answer.RetryAfter <= 0 {
			t.Fatalf("the error is %#v", answer)
		}
		if n := w.login.Count(); n > before {
			before = n
			if now := w.Now(); !last.IsZero() {
				asked = append(asked, now.Sub(last))
			}
			last = w.Now()
		} else if wait := answer.RetryAfter - time.Second; wait > 0 {
			w.Advance(wait)
		}
	}
	want := time.Second
	for i, wait := range asked {
		if wait < want-want/5 || wait > want+200*time.Millisecond {
			t.Errorf("it is asked for the %d. time after %v, want up to a fifth less than %v", i+2, wait, want)
		}
		want = min(2*want, 5*time.Minute)
	}
	if last := asked[len(asked)-4:]; len(slices.Compact(slices.Clone(last))) == 1 {
		t.Errorf("the waits %v have no jitter", asked)
	}
	if n := w.logged("it is asked again"); n != len(asked)+1 {
		t.Errorf("%d log lines for %d refusals", n, len(asked)+1)
	}
}

// RetryAfter is exact: the host asks the endpoint again at that time, and not before.
func TestRetryAfterOfARefusal_threats_62(t *testing.T) {
	now := start.UTC()
	for _, c := range []struct {
		name       string
		status     int
		body       string
		retryAfter string
		least      time.Duration // 0 means that the next request asks
		most       time.Duration
	}{
		{"400", 400, `{"error":"invalid_grant"}`, "", 800 * time.Millisecond, time.Second},
		{"400 without a code", 400, ``, "", 800 * time.Millisecond, time.Second},
		{"403", 403, ``, "", 800 * time.Millisecond, time.Second},
		{"401 with a long body", 401, string(make([]byte, 100<<10)), "", 800 * time.Millisecond, time.Second},
		{"200, as GitHub", 200, `{"error":"incorrect_client_credentials"}`, "", 800 * time.Millisecond, time.Second},
		{"200, as Slack", 200, `{"ok":false,"error":"invalid_client","access_token":""}`, "5", 5 * time.Second, 5 * time.Second},
		{"404 with a code", 404, `{"error":"invalid_client"}`, "", 800 * time.Millisecond, time.Second},
		{"422 with a code", 422, `{"error":"invalid_grant"}`, "", 800 * time.Millisecond, time.Second},
		{"429", 429, ``, "", 800 * time.Millisecond, time.Second},
		{"429 in seconds", 429, ``, "30", 30 * time.Second, 30 * time.Second},
		{"429 at a date", 429, ``, now.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second, 90 * time.Second},
		{"503 in seconds", 503, ``, " 7 ", 7 * time.Second, 7 * time.Second},
		{"500 in seconds", 500, ``, "7", 7 * time.Second, 7 * time.Second},
		{"401 in seconds", 401, ``, "600", 10 * time.Minute, 10 * time.Minute},
		{"too long", 503, ``, "86400", time.Hour, time.Hour},
		{"far too long", 503, ``, "99999999999999999999999", time.Hour, time.Hour},
		{"at a date too far", 503, ``, "Fri, 31 Dec 9999 23:59:59 GMT", time.Hour, time.Hour},
		{"no number", 401, ``, "soon", 800 * time.Millisecond, time.Second},
		{"a negative number", 401, ``, "-5", 800 * time.Millisecond, time.Second},
		{"at once", 401, ``, "0", 800 * time.Millisecond, time.Second},
		{"at a date that is over", 503, ``, now.Add(-time.Hour).Format(http.TimeFormat), 0, 0},
		{"503 at once", 503, ``, "0", 0, 0},
		{"500", 500, ``, "", 0, 0},
		{"503", 503, `{"error":"temporarily_unavailable"}`, "", 0, 0},
		{"ask again, as GitHub", 200, `{"error":"authorization_pending"}`, "", 0, 0},
		{"500 with a code", 500, `{"error":"invalid_client"}`, "", 0, 0},
		{"redirect", 307, ``, "30", 30 * time.Second, 30 * time.Second},
		{"404", 404, ``, "", 800 * time.Millisecond, time.Second},
		{"404 with an error of the server's", 404, `{"error":"Not Found"}`, "", 800 * time.Millisecond, time.Second},
		{"405 of a page", 405, `<html>`, "", 800 * time.Millisecond, time.Second},
		{"200 with a page", 200, `<html>`, "", 800 * time.Millisecond, time.Second},
		{"200 with a long page", 200, string(make([]byte, 100<<10)), "", 800 * time.Millisecond, time.Second},
		{"200 without a token", 200, `{"token":"t"}`, "7", 7 * time.Second, 7 * time.Second},
		{"408", 408, ``, "", 0, 0},
		{"425", 425, ``, "", 0, 0},
		{"ask again", 400, `{"error":"authorization_pending"}`, "", 0, 0},
		{"ask again, slower", 400, `{"error":"slow_down"}`, "", 0, 0},
		{"down, as a 400", 400, `{"error":"temporarily_unavailable"}`, "", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, connector := tokenWorld(t, respond(c.status, c.body, "Retry-After", c.retryAfter))
			w.refuse(connector, get(t.Context()), host.StageToken)
			if c.least == 0 {
				if wait := w.refusedFor(t.Context(), connector); wait != 0 || w.login.Count() != 2 {
					t.Errorf("%d exchanges, the error says %v", w.login.Count(), wait)
				}
				return
			}
			wait := w.refusedFor(t.Context(), connector)
			if wait < c.least || wait > c.most {
				t.Errorf("it is asked again in %v, want %v to %v", wait, c.least, c.most)
			}
			w.Advance(wait - 1)
			if left := w.refusedFor(t.Context(), connector); left != 1 || w.login.Count() != 1 {
				t.Errorf("just before: %d exchanges, %v left", w.login.Count(), left)
			}
			w.Advance(1)
			w.login.Answer(token("t1", 3600))
			if w.get(connector); w.login.Count() != 2 {
				t.Errorf("%d exchanges", w.login.Count())
			}
		})
	}
}

// threats.md 63: if any input changes, the host asks at once. One user's refusal has no effect on another user.
func TestChangedInputAsksAgain_threats_63(t *testing.T) {
	w := newWorld(t)
	w.canary("s2")
	w.login.Answer(wrongSecret)
	ann, bob := host.WithUser(t.Context(), host.User{ID: "ann"}), host.WithUser(t.Context(), host.User{ID: "bob"})
	perUser := with(oauth("{{ get_secret('s') }}"), "client_id", "{{ user.id }}")
	c := w.connect("oauth_client_credentials", perUser)
	for range 3 {
		w.refusedFor(ann, c)
	}
	if w.login.Count() != 1 {
		t.Fatalf("%d exchanges", w.login.Count())
	}
	for i, other := range []struct {
		name      string
		connector *host.Connector
		ctx       context.Context
	}{
		{"the user", c, bob},
		{"the configuration", w.connect("oauth_client_credentials", with(perUser, "scope", "x")), ann},
		{"which secret", w.connect("oauth_client_credentials", with(perUser, "client_secret", "{{ get_secret('s2') }}")), ann},
		{"the connector", w.connectAs("crm2", "oauth_client_credentials", perUser), ann},
		{"the token endpoint", w.connect("oauth_client_credentials", with(perUser, "token_url", "https://login.test/other")), ann},
	} {
		for range 2 {
			w.refusedFor(other.ctx, other.connector)
		}
		if n := w.login.Count(); n != i+2 {
			t.Errorf("with another %s: %d exchanges, want %d", other.name, n, i+2)
		}
	}
	before := w.login.Count()
	w.canary("s")
	w.login.Answer(token("t1", 3600))
	if w.send(c, get(ann)); w.login.Count() != before+1 {
		t.Error("a rotated secret is not asked at once")
	}
}

// After a token was issued, the wait after the next refusal is the shortest again.
func TestRefusalResetByToken_threats_62(t *testing.T) {
	w, c := tokenWorld(t, nil)
	for range 5 {
		w.login.Answer(wrongSecret)
		if wait := w.refusedFor(t.Context(), c); wait > time.Second {
			t.Errorf("a first refusal is remembered for %v", wait)
		}
		w.Advance(time.Second)
		if wait := w.refusedFor(t.Context(), c); wait <= time.Second {
			t.Errorf("a second refusal is remembered for %v", wait)
		}
		w.Advance(2 * time.Second)
		w.login.Answer(token("t1", 3600))
		w.get(c)
		w.Advance(time.Hour)
	}
}

// A request whose trace asks anew does not wait, and its token ends the wait of the others. threats.md 241
func TestATraceAsksAnew_threats_241(t *testing.T) {
	w, c := tokenWorld(t, wrongSecret)
	for range 9 {
		w.refusedFor(t.Context(), c)
		w.Advance(5 * time.Minute)
	}
	w.refusedFor(t.Context(), c)
	w.Advance(2 * time.Second)
	before := w.login.Count()
	var answer *host.TokenError
	if err := w.refuse(c, get(t.Context()), host.StageToken); !errors.As(err, &answer) || !answer.Remembered || answer.Age < 2*time.Second || w.login.Count() != before {
		t.Fatalf("the error is %#v", answer)
	}
	anew := &host.Trace{AskAnew: true}
	if err := w.refuse(c, get(host.WithTrace(t.Context(), anew)), host.StageToken); !errors.As(err, &answer) || answer.Remembered || answer.RetryAfter <= 0 || len(anew.Exchanges()) != 1 {
		t.Fatalf("asked anew, the error is %#v, with %d exchanges", answer, len(anew.Exchanges()))
	}
	w.Advance(time.Second)
	w.login.Answer(token("t1", 3600))
	request := get(host.WithTrace(t.Context(), &host.Trace{AskAnew: true}))
	response := must(c.Transport(nil).RoundTrip(request))(t)
	response.Body.Close()
	w.get(c)
	if n := w.login.Count(); n != before+2 {
		t.Errorf("the endpoint was asked %d times", n-before)
	}
}

// bare is a guest that requests a token in each call and does not cache it.
func bare(env contract.Env) (string, error) {
	reply := tokenReply(env, contract.TokenRequest{URL: value(env, "url"), Form: []abi.Pair{{Name: "s", Value: value(env, "to_token")}}})
	if reply.AccessToken == "" {
		return "", errors.New("no token")
	}
	return header("Authorization", "Bearer "+reply.AccessToken), nil
}

// Concurrent refusals count as one. When the wait is over, one call asks, and the others wait for its answer.
func TestOneAsksAgain_threats_62(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := misuser(t, bare)
		var all sync.WaitGroup
		ask := func(n int) {
			for range n {
				all.Go(func() { w.refusedFor(t.Context(), c) })
			}
			synctest.Wait()
		}
		g := newGate(wrongSecret)
		w.login.Answer(g.answer)
		ask(8)
		if w.login.Count() != 8 { // no refusal is known yet
			t.Errorf("%d exchanges", w.login.Count())
		}
		close(g.open)
		all.Wait()
		w.Advance(time.Second)
		g = newGate(wrongSecret)
		w.login.Answer(g.answer)
		ask(8)
		if w.login.Count() != 9 {
			t.Errorf("%d exchanges when the wait is over, want one more", w.login.Count()-8)
		}
		close(g.open)
		all.Wait()
		if wait := w.refusedFor(t.Context(), c); wait <= time.Second || wait > 2*time.Second || w.login.Count() != 9 {
			t.Errorf("after it the wait is %v: eight at once count as one", wait)
		}
		if n := w.logged("it is asked again"); n != 2 {
			t.Errorf("%d log lines for two periods", n)
		}
	})
}

// brokenOff answers with a body whose connection breaks.
func brokenOff(r *http.Request) (*http.Response, error) {
	response, err := respond(http.StatusOK, "")(r)
	response.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
	return response, err
}

// threats.md 32: if the network fails for the call that asks again, the next call asks.
func TestAFailureOfTheNetworkGivesTheTurnBack_threats_62(t *testing.T) {
	w, c := tokenWorld(t, wrongSecret)
	w.refusedFor(t.Context(), c)
	w.Advance(time.Second)
	for _, broken := range []answer{
		func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
		status(http.StatusBadGateway), brokenOff,
	} {
		w.login.Answer(broken)
		before := w.login.Count()
		for range 3 {
			w.refuse(c, get(t.Context()), host.StageToken)
		}
		if n := w.login.Count() - before; n != 3 {
			t.Errorf("%d exchanges, want each request to try", n)
		}
	}
	w.login.Answer(token("t1", 3600))
	w.get(c)
}

// A line about a refusal names the host of the endpoint. If a secret is part of that name, it does not.
func TestARefusalInTheLogNamesTheEndpoint(t *testing.T) {
	for url, want := range map[string]string{
		tokenURL: "endpoint=login.test", "https://{{ get_secret('realm') }}.login.test/token": `endpoint=<sealed>.login.test`,
	} {
		w := newWorld(t, func(c *host.Config) { c.Base = wrongSecret })
		w.canaryOf("realm", "realm-4711-of-the-bank")
		w.refuse(w.connect("oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "token_url", url)), get(t.Context()), host.StageToken, "401")
		if w.logged(want) != 1 || w.logged("it is asked again") != 1 {
			t.Errorf("%s: the log is %s", url, w.log.String())
		}
	}
}

// If a plugin makes two token requests in a call, the first may get a remembered refusal without a request to the
// endpoint, and the second is sent.
func TestTwoGrantsInOneCall_threats_62(t *testing.T) {
	for name, cached := range map[string]bool{"the first of the configuration": false, "the first of the cache": true} {
		t.Run(name, func(t *testing.T) {
			w, c := misuser(t, func(env contract.Env) (string, error) {
				refresh := value(env, "to_token")
				if cached {
					var found bool
					if refresh, found = env.CacheGet("refresh"); !found {
						refresh = value(env, "to_token")
						env.CacheSet("refresh", refresh, 60)
					}
				}
				for _, form := range [][]abi.Pair{{{Name: "grant_type", Value: "refresh_token"}, {Name: "refresh_token", Value: refresh}}, {{Name: "grant_type", Value: "client_credentials"}}} {
					if reply := tokenReply(env, contract.TokenRequest{URL: value(env, "url"), Form: form}); reply.Status == http.StatusOK {
						return header("Authorization", "Bearer "+reply.AccessToken), nil
					}
				}
				return "", errors.New("no token")
			})
			var grants []string
			w.login.Answer(func(r *http.Request) (*http.Response, error) {
				_ = r.ParseForm()
				grants = append(grants, r.Form.Get("grant_type"))
				if grants[len(grants)-1] == "refresh_token" {
					return respond(http.StatusBadRequest, `{"error":"invalid_grant"}`)(r)
				}
				return token("t1", 3600)(r)
			})
			for range 3 {
				w.get(c)
			}
			want := []string{"refresh_token", "client_credentials", "client_credentials", "client_credentials"}
			if cached { // the second call finds an entry that the first one did not
				want = slices.Insert(want, 2, "refresh_token")
			}
			if !slices.Equal(grants, want) {
				t.Errorf("the endpoint was asked %q", grants)
			}
		})
	}
}

// A refusal counts only for the same token request: with another URL, or with another entry of its cache, the plugin's
// request is sent at once.
func TestRefusalPerTokenRequest_threats_63(t *testing.T) {
	renew, url := false, "url"
	g := &guest{about: abi.Description{Uses: contract.Groups, Fields: []abi.Field{
		sealedField("to_token", contract.SinkToken),
		{Name: "url", Kind: abi.KindURL, Sinks: []string{contract.SinkToken}},
		{Name: "url2", Kind: abi.KindURL, Sinks: []string{contract.SinkToken}},
	}}, authenticate: func(env contract.Env) (string, error) {
		refresh, found := "", false
		if !renew {
			refresh, found = env.CacheGet("refresh")
		}
		if !found {
			env.CacheSet("refresh", value(env, "to_token"), 60)
			refresh, _ = env.CacheGet("refresh")
			renew = false
		}
		env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, url), Form: []abi.Pair{{Name: "refresh_token", Value: refresh}}})))
		return "", errors.New("no token")
	}}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	w.login.Answer(wrongSecret)
	c := w.connect("custom", config{"to_token": "{{ get_secret('s') }}", "url": tokenURL, "url2": tokenURL + "2"})
	for i, change := range []func(){func() {}, func() { url = "url2" }, func() { renew = true }} {
		change()
		for range 3 {
			w.refusedFor(t.Context(), c)
		}
		if n := w.login.Count(); n != i+1 {
			t.Errorf("after %d changes there are %d exchanges", i, n)
		}
	}
}

// Refusals of many users at the same time do not flood the log.
func TestRefusalLogPerUser_threats_62(t *testing.T) {
	w := newWorld(t)
	w.login.Answer(wrongSecret)
	c := w.connect("oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "client_id", "{{ user.id }}"))
	for i := range 100 {
		w.refusedFor(host.WithUser(t.Context(), host.User{ID: fmt.Sprint(i)}), c)
		w.Advance(20 * time.Millisecond)
	}
	if n := w.logged("it is asked again"); n != 3 {
		t.Errorf("%d log lines in two seconds", n)
	}
}

// threats.md 341: whether a refused token request is remembered does not depend on whether a text of the plugin is the secret, in the
// query or in the path. A refusal of another place is another one.
func TestRefusalOracle(t *testing.T) {
	for name, in := range map[string]func(*contract.Exchange, string){
		"query": func(e *contract.Exchange, text string) { e.Query = []abi.Pair{{Name: "token", Value: text}} },
		"name":  func(e *contract.Exchange, text string) { e.Query = []abi.Pair{{Name: text, Value: "x"}} },
		"path":  func(e *contract.Exchange, text string) { e.Path = []string{text} },
	} {
		t.Run(name, func(t *testing.T) {
			asked := map[bool]int{}
			for _, right := range []bool{false, true} {
				text := ""
				w, connector := misuser(t, sendsKeyAfter(func(env contract.Env) {
					sent := text
					if sent == "" {
						sent = value(env, "to_token")
					}
					exchange := contract.Exchange{URL: value(env, "url"), Method: http.MethodGet}
					in(&exchange, sent)
					env.Exchange([]byte(marshal(exchange)))
				}))
				secret := "the-secret-as-it-is"
				w.setSecret("s", secret)
				w.login.Answer(respond(http.StatusBadRequest, "{}"))
				w.get(connector)
				w.get(connector)
				if n := w.login.Count(); n != 1 {
					t.Fatalf("the secret was sent %d times, the refusal is not remembered", n)
				}
				text = "a-guess-of-the-secret"
				if right {
					text = secret
				}
				w.get(connector)
				asked[right] = w.login.Count()
			}
			if asked[true] != asked[false] || asked[false] != 2 {
				t.Errorf("the endpoint was asked %d times with a right guess, and %d times with a wrong one", asked[true], asked[false])
			}
		})
	}
}
