package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// The two attempts of a request. If the first has read the request, what it sends may depend on that, and so may the API's
// answer, because of which the second attempt runs.

// attempts returns a world whose API refuses each first attempt, and whose guest reads the request in each attempt, but before
// that does do. Requests of alice are those that the guest wants to say something about.
func attempts(t *testing.T, do func(env contract.Env, status int)) (w *world, ask func(user string)) {
	t.Helper()
	w, connector := challengeWorld(t, func(env contract.Env) (string, error) {
		status := challengeOf(env).Status
		do(env, status)
		credential := "right"
		if status == 0 && strings.Contains(string(env.Input()), "alice") {
			credential = "wrong"
		}
		return header("X-Key", credential), nil
	})
	w.login.Answer(tokens(3600))
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("X-Key") == "wrong" {
			return status(http.StatusUnauthorized)(r)
		}
		return status(http.StatusOK)(r)
	})
	return w, func(user string) {
		t.Helper()
		r := get(t.Context())
		r.Header.Set("X-User", user)
		if _, err := w.try(connector, r); err != nil {
			t.Fatal(err)
		}
	}
}

// A guest that has the API refuse only some requests does not let others see which, by what it does because of the refusal
// (threats.md 102).
func TestASecondAttemptSaysNothingOfItsRequest_threats_102(t *testing.T) {
	for name, c := range map[string]struct {
		// known is done in each attempt, because is done after a refusal, and seen returns what a later call sees.
		known, because func(contract.Env)
		seen           func(contract.Env) string
	}{
		"storing": {
			because: func(env contract.Env) { env.CacheSet("bit", "alice", 3600) },
			seen:    func(env contract.Env) string { v, _ := env.CacheGet("bit"); return v },
		},
		"storing another value": {
			known: func(env contract.Env) {
				if _, ok := env.CacheGet("bit"); !ok {
					env.CacheSet("bit", "somebody", 3600)
				}
			},
			because: func(env contract.Env) { env.CacheSet("bit", "alice", 3600) },
			seen:    func(env contract.Env) string { v, _ := env.CacheGet("bit"); return v },
		},
		"dropping one of two": {
			known: func(env contract.Env) {
				for _, key := range []string{"one", "two"} {
					if _, ok := env.CacheGet(key); !ok {
						env.CacheSet(key, "x", 3600)
					}
				}
			},
			because: func(env contract.Env) { env.CacheDrop("one") },
			seen: func(env contract.Env) string {
				_, one := env.CacheGet("one")
				_, two := env.CacheGet("two")
				return fmt.Sprint(one == two)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []string
			for _, user := range []string{"bobby", "alice"} {
				looking, last := false, ""
				w, ask := attempts(t, func(env contract.Env, status int) {
					switch {
					case looking:
						last = c.seen(env)
						return
					case c.known != nil:
						c.known(env)
					}
					if status != 0 {
						c.because(env)
					}
				})
				ask(user)
				if n, want := w.api.Count(), map[string]int{"bobby": 1, "alice": 2}[user]; n != want {
					t.Errorf("%s: %d requests, want %d", user, n, want)
				}
				looking = true
				ask("carol")
				seen = append(seen, last)
			}
			if seen[0] != seen[1] {
				t.Errorf("a later call sees %q after a request of alice, and %q after one of another", seen[1], seen[0])
			}
		})
	}
}

// A token endpoint is asked nothing because of a refusal that a guest may have provoked (threats.md 102).
func TestASecondAttemptAsksNoEndpoint_threats_102(t *testing.T) {
	for name, ask := range map[string]func(contract.Env){
		"token_request": func(env contract.Env) {
			env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url")})))
		},
		"exchange": func(env contract.Env) { env.Exchange([]byte(marshal(contract.Exchange{URL: value(env, "url")}))) },
	} {
		t.Run(name, func(t *testing.T) {
			var runs []int
			w, request := attempts(t, func(env contract.Env, status int) {
				if runs = append(runs, status); status != 0 {
					ask(env)
				}
			})
			request("alice")
			if w.login.Count() != 0 || w.api.Count() != 2 {
				t.Errorf("%d requests to the endpoint, %d to the API", w.login.Count(), w.api.Count())
			}
			// The call that runs in the place of the second knows nothing of the answer.
			if diff := cmp.Diff([]int{0, 401, 0}, runs); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A guest that has read its request still gets a new token after a refusal, and a nonce that the API sent with it.
func TestSignedRequestTokenRenewal(t *testing.T) {
	for name, ttl := range map[string]int64{"in the cache": 600, "not in the cache": 0} {
		t.Run(name, func(t *testing.T) {
			w, connector := challengeWorld(t, func(env contract.Env) (string, error) {
				c := challengeOf(env)
				if c.Status != 0 && c.Answers["code"] == "expired" {
					env.CacheDrop("token")
				}
				token, ok := env.CacheGet("token")
				if !ok {
					var reply contract.TokenReply
					if err := json.Unmarshal(env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url")}))), &reply); err != nil {
						return "", err
					}
					token = reply.AccessToken
					env.CacheSet("token", token, ttl)
				}
				env.Input()
				return marshal(contract.Mutation{Headers: []abi.Pair{
					{Name: "Authorization", Value: "Bearer " + token}, {Name: "X-Nonce", Value: c.Answers["nonce"]},
				}}), nil
			})
			w.login.Answer(tokens(3600))
			nonce, refused := "first", ""
			w.api.Answer(func(r *http.Request) (*http.Response, error) {
				switch {
				case r.Header.Get("Authorization") == refused:
					return respond(http.StatusUnauthorized, `{"error":{"code":"expired"}}`)(r)
				case r.Header.Get("X-Nonce") != nonce:
					return respond(http.StatusUnauthorized, "", "WWW-Authenticate", `Digest nonce="`+nonce+`"`)(r)
				}
				return status(http.StatusOK)(r)
			})
			got := func() (all []string) {
				before := w.api.Count()
				w.get(connector)
				for _, r := range w.api.Received()[before:] {
					all = append(all, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+" "+r.Header.Get("X-Nonce"))
				}
				return all
			}
			steps := [][]string{got()}
			nonce = "second"
			steps = append(steps, got())
			refused = "Bearer t1"
			if ttl == 0 {
				refused = "Bearer t5"
			}
			steps = append(steps, got())
			want := [][]string{{"t1 ", "t1 first"}, {"t1 first", "t1 second"}, {"t1 second", "t2 second"}}
			if ttl == 0 {
				want = [][]string{{"t1 ", "t2 first"}, {"t3 first", "t4 second"}, {"t5 second", "t6 second"}}
			}
			if diff := cmp.Diff(want, steps); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A guest that has read its request can still answer for a refusal, as HTTP Digest does, and pass an answer on.
func TestASecondAttemptKnowsTheAnswer(t *testing.T) {
	w, connector := challengeWorld(t, func(env contract.Env) (string, error) {
		c := challengeOf(env)
		env.Input()
		if c.Status == http.StatusForbidden {
			return marshal(contract.Mutation{Pass: true}), nil
		}
		return header("X-Nonce", fmt.Sprint(c.Status, c.Answers["nonce"])), nil
	})
	w.api.Answer(respond(http.StatusUnauthorized, "", "WWW-Authenticate", `Digest nonce="a-nonce"`))
	w.get(connector)
	w.api.Answer(status(http.StatusForbidden))
	w.get(connector)
	if diff := cmp.Diff([]string{"0", "401a-nonce", "0a-nonce"}, nonces(w)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The answer to the second attempt of a request holds neither its credential nor that of the first one, which the API has
// received as well.
func TestTheSecondAnswerHoldsNoCredentialOfTheFirstAttempt(t *testing.T) {
	g := &guest{about: challenged, authenticate: func(env contract.Env) (string, error) {
		if challengeOf(env).Status == 0 {
			return header("X-Key", value(env, "key")), nil
		}
		return header("X-Nonce", challengeOf(env).Answers["nonce"]), nil
	}}
	g.about.Challenge = &abi.Challenge{Statuses: []int{401}, Answers: []abi.Answer{{Name: "nonce", From: "auth:Digest/nonce", Kind: contract.AnswerSealed, Sinks: []string{abi.SinkHeader}}}}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	connector := w.connect("custom", config{"key": "{{ get_secret('key') }}"})
	secret := w.canary("key")
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("X-Key") != "" {
			return respond(http.StatusUnauthorized, "", "WWW-Authenticate", `Digest nonce="a-long-nonce"`)(r)
		}
		return respond(http.StatusOK, "before: "+secret)(r)
	})
	response, err := connector.GuardedTransport(nil).RoundTrip(get(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); !errors.Is(err, host.ErrCredentialInResponse) || strings.Contains(string(body), secret) || w.api.Count() != 2 {
		t.Errorf("the caller got %q, %v after %d requests", body, err, w.api.Count())
	}
}

// A base transport may answer without a body, although it should not. Such an answer is discarded, passed on or kept like others.
func TestAnswersWithoutABody(t *testing.T) {
	for name, do := range map[string]func(contract.ChallengeReply) string{
		"answered":  func(c contract.ChallengeReply) string { return header("X-Nonce", fmt.Sprint(c.Status)) },
		"passed on": func(c contract.ChallengeReply) string { return marshal(contract.Mutation{Pass: c.Status != 0}) },
	} {
		for _, location := range []string{"", "/there"} {
			w, connector := challengeWorld(t, func(env contract.Env) (string, error) { return do(challengeOf(env)), nil })
			w.api.Answer(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Location": {location}}}, nil
			})
			if status, err := w.try(connector, get(t.Context())); status != http.StatusUnauthorized || err != nil {
				t.Errorf("%s: status = %d, err = %v", name, status, err)
			}
		}
	}
}

// A request that is refused for its token returns its connection before the token endpoint is asked, which may need that one.
func TestRefusalReleasesConnection(t *testing.T) {
	w := newWorld(t)
	connector := w.connect("oauth_client_credentials", config{"token_url": tokenURL, "client_id": "c", "client_secret": "{{ get_secret('s') }}"})
	w.canary("s")
	var order []string
	w.login.Answer(func(r *http.Request) (*http.Response, error) {
		order = append(order, "token")
		return token(fmt.Sprint("token-", len(order)), 3600)(r)
	})
	w.get(connector)
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.Header.Get("Authorization"), "token-1") {
			response, err := status(http.StatusUnauthorized)(r)
			response.Body = &closing{response.Body, func() { order = append(order, "closed") }}
			return response, err
		}
		return status(http.StatusOK)(r)
	})
	w.get(connector)
	if diff := cmp.Diff([]string{"token", "closed", "token"}, order); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// closing is a body that reports its Close.
type closing struct {
	io.ReadCloser
	closed func()
}

func (c *closing) Close() error {
	c.closed()
	return c.ReadCloser.Close()
}
