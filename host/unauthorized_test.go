package host_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// The entries of the cache that a 401 drops: threats.md 35 and 61, specification.md "which entries a 401 drops".

// keeping is a guest that reads some entries of its cache, fills the missing ones, and makes a mutation of their
// values.
type keeping struct {
	fill   map[string]func(env contract.Env) string // the values of missing entries
	order  []string                                 // the names, in the order of reading
	use    func(env contract.Env, entries map[string]string) string
	filled []string
}

func (k *keeping) authenticate(env contract.Env) (string, error) {
	entries := map[string]string{}
	for _, name := range k.order {
		v, found := env.CacheGet(name)
		if !found {
			if v = value(env, "to_header"); k.fill[name] != nil {
				v = k.fill[name](env)
			}
			env.CacheSet(name, v, 3600)
			k.filled = append(k.filled, name)
			if v, found = env.CacheGet(name); !found {
				panic("a test's entry is not there")
			}
		}
		entries[name] = v
	}
	return k.use(env, entries), nil
}

func TestUnauthorizedDropsSentEntries_threats_61(t *testing.T) {
	x := func(name string) func(contract.Env, map[string]string) string {
		return func(_ contract.Env, e map[string]string) string { return header("X-Key", e[name]) }
	}
	ab := []string{"a", "b"}
	fromA := func(env contract.Env) string {
		a, _ := env.CacheGet("a")
		return env.Encode(contract.FormatHex, a)
	}
	for name, c := range map[string]struct {
		guest keeping
		want  []string // the entries that are dropped
	}{
		"one of two":           {keeping{order: ab, use: x("a")}, []string{"a"}},
		"the other of two":     {keeping{order: ab, use: x("b")}, []string{"b"}},
		"both, in two headers": {keeping{order: ab, use: func(_ contract.Env, e map[string]string) string { return headers("X-A", e["a"], "X-B", e["b"]) }}, ab},
		"both, in one value":   {keeping{order: ab, use: func(_ contract.Env, e map[string]string) string { return header("X-Key", "a "+e["a"]+" b "+e["b"]) }}, ab},
		"in the name of a header": {keeping{order: ab, use: func(env contract.Env, e map[string]string) string {
			return headers(e["b"], "plain "+value(env, "to_header"))
		}, fill: map[string]func(contract.Env) string{"b": func(env contract.Env) string { return value(env, "name") }}}, []string{"b"}},
		"in the query": {keeping{order: ab, use: func(_ contract.Env, e map[string]string) string { return query("k", e["b"]) }}, []string{"b"}},
		"encoded": {keeping{order: ab, use: func(env contract.Env, e map[string]string) string {
			return header("X-Key", env.Encode(contract.FormatBase64, "user:"+e["a"]))
		}}, []string{"a"}},
		"combined, and encoded twice": {keeping{order: []string{"a", "b", "c"}, use: func(env contract.Env, e map[string]string) string {
			return header("X-Key", env.Encode(contract.FormatBase64, env.Encode(contract.FormatHex, e["a"]+e["c"])))
		}}, []string{"a", "c"}},
		"the key of a MAC": {keeping{order: ab, use: func(env contract.Env, e map[string]string) string {
			return header("X-Key", env.Encode(contract.FormatHex, env.MAC(contract.MACSHA256, e["a"], "data")))
		}}, []string{"a"}},
		"a claim": {keeping{order: ab, use: func(env contract.Env, e map[string]string) string {
			return header("X-Key", sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader, Claims: map[string]any{"x": []any{e["b"]}}}))
		}}, []string{"b"}},
		"what came from another entry": {keeping{order: ab, use: x("b"), fill: map[string]func(contract.Env) string{"b": fromA}}, ab},
		"what came from another entry by way of a third": {keeping{order: []string{"a", "b", "c"}, use: x("c"), fill: map[string]func(contract.Env) string{
			"b": fromA, "c": func(env contract.Env) string {
				b, _ := env.CacheGet("b")
				return "c " + b
			},
		}}, []string{"a", "b", "c"}},
		"revealed": {keeping{order: ab, use: func(env contract.Env, e map[string]string) string {
			return header("X-Key", string(env.Reveal(e["a"])))
		}}, []string{"a"}},
		"none": {keeping{order: ab, use: func(env contract.Env, e map[string]string) string {
			env.Encode(contract.FormatHex, e["a"])
			return header("X-Key", value(env, "to_header"))
		}}, nil},
		"one after the request was read: then all, so that its choice does not show": {keeping{order: ab, use: func(env contract.Env, e map[string]string) string {
			env.Input()
			return header("X-Key", e["a"])
		}}, ab},
		"one that came from another, after the request was read": {keeping{order: []string{"b", "c"}, use: func(env contract.Env, e map[string]string) string {
			env.Input()
			return header("X-Key", e["c"])
		}, fill: map[string]func(contract.Env) string{"b": func(env contract.Env) string {
			a := value(env, "to_header")
			env.CacheSet("a", a, 3600)
			a, _ = env.CacheGet("a")
			return a
		}}}, []string{"b", "c"}},
		"none after the request was read": {keeping{order: ab, use: func(env contract.Env, _ map[string]string) string {
			env.Input()
			return header("X-Key", value(env, "to_header"))
		}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			guest := c.guest
			w := newWorld(t, withGuest(rejectable(&guest), abi.GrantReveal))
			w.setSecret("name", "X-Name")
			for _, secret := range []string{"s", "key"} {
				w.canary(secret)
			}
			connector := w.connect("custom", rejected)
			for range 3 { // so that the mutation is used again if it may be
				w.get(connector)
			}
			guest.filled = nil
			w.api.Answer(onceRefusing())
			attempts := w.api.Count()
			if got, err := w.try(connector, get(t.Context())); err != nil || (got == http.StatusOK) != (c.want != nil) {
				t.Fatalf("the answer is %d, %v", got, err)
			}
			if n := w.api.Count() - attempts; (n == 2) != (c.want != nil) {
				t.Errorf("%d attempts", n)
			}
			w.get(connector)
			slices.Sort(guest.filled)
			if !slices.Equal(guest.filled, c.want) {
				t.Errorf("entries %q were filled again, want %q", guest.filled, c.want)
			}
		})
	}
}

// threats.md 61: a 401 to two values of which one has been replaced just before brings another value in place of the other one,
// whichever of them the plugin sends first.
func TestUnauthorizedAfterReplacement_threats_61(t *testing.T) {
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		guest := keeping{order: order, use: func(_ contract.Env, e map[string]string) string {
			return headers("X-First", e[order[0]], "X-Second", e[order[1]])
		}}
		w := newWorld(t, withGuest(rejectable(&guest)), func(c *host.Config) { c.NoReuse = true })
		for _, secret := range []string{"s", "name", "key"} {
			w.canary(secret)
		}
		connector := w.connect("custom", rejected)
		w.get(connector)
		both := guest.use
		guest.use = func(_ contract.Env, e map[string]string) string { return header("X-Key", e["b"]) }
		w.api.Answer(onceRefusing())
		w.get(connector)
		guest.use, guest.filled = both, nil
		w.api.Answer(onceRefusing())
		if got, err := w.try(connector, get(t.Context())); got != http.StatusOK || err != nil || !slices.Equal(guest.filled, []string{"a"}) {
			t.Errorf("%q: %d, %v; entries %q were filled again, want a", order, got, err, guest.filled)
		}
	}
}

var rejected = config{"to_header": "{{ get_secret('s') }}", "name": "{{ get_secret('name') }}", "key": "{{ get_secret('key') }}", "algorithm": "HS256"}

func rejectable(k *keeping) *guest {
	all := []string{contract.SinkHeader, contract.SinkQuery, contract.SinkClaim, contract.SinkSign}
	return &guest{about: abi.Description{Uses: contract.Groups, Fields: []abi.Field{
		sealedField("to_header", all...), sealedField("name", all...),
		{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm"},
		{Name: "algorithm", Kind: abi.KindString, Enum: []string{"HS256"}},
	}}, authenticate: k.authenticate}
}

// onceRefusing returns an API that answers 401 to its first request, and 200 after that.
func onceRefusing() answer {
	n := 0
	return func(r *http.Request) (*http.Response, error) {
		if n++; n == 1 {
			return status(http.StatusUnauthorized)(r)
		}
		return status(http.StatusOK)(r)
	}
}

// headers returns a mutation that sets headers. Each name is followed by its value.
func headers(namesAndValues ...string) string {
	var m contract.Mutation
	for i := 0; i < len(namesAndValues); i += 2 {
		m.Headers = append(m.Headers, abi.Pair{Name: namesAndValues[i], Value: namesAndValues[i+1]})
	}
	return marshal(m)
}

// refreshing is a guest that uses the refresh tokens of a grant, RFC 6749 section 6. If eager is set, it always reads
// the refresh token. If asks is set, it reads its request.
type refreshing struct{ eager, asks bool }

func (p refreshing) authenticate(env contract.Env) (string, error) {
	var refresh string
	if p.eager {
		refresh, _ = env.CacheGet("refresh")
	}
	access, found := env.CacheGet("access")
	if !found {
		if !p.eager {
			refresh, _ = env.CacheGet("refresh")
		}
		if refresh == "" {
			refresh = value(env, "refresh_token")
		}
		reply := tokenReply(env, contract.TokenRequest{
			URL: value(env, "token_url"), Extra: []string{"refresh_token"},
			Form: []abi.Pair{{Name: "grant_type", Value: "refresh_token"}, {Name: "refresh_token", Value: refresh}},
		})
		if access = reply.AccessToken; access == "" {
			return "", errors.New("no token")
		}
		env.CacheSet("refresh", reply.Extra["refresh_token"], 1<<30)
		env.CacheSet("access", access, 3000)
	}
	if p.asks {
		env.Input()
	}
	return header("Authorization", "Bearer "+access), nil
}

// threats.md 61: the API refuses access tokens, and the refresh token stays in the cache.
func TestA401LeavesTheRefreshToken_threats_61(t *testing.T) {
	for _, p := range []refreshing{{}, {asks: true}, {eager: true}} {
		t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) {
			w := newWorld(t, withGuest(&guest{
				about: abi.Description{Uses: contract.Groups, Fields: []abi.Field{
					sealedField("refresh_token", contract.SinkToken), {Name: "token_url", Kind: abi.KindURL, Sinks: []string{contract.SinkToken}},
				}},
				authenticate: p.authenticate,
			}))
			g := newRotation(w.canary("rt"))
			w.login.Answer(g.answer)
			c := w.connect("custom", config{"refresh_token": "{{ get_secret('rt') }}", "token_url": tokenURL})
			for range 5 {
				w.get(c)
				w.api.Answer(onceRefusing()) // refuses the token of the cache
				w.get(c)
				w.Advance(time.Hour)
				w.api.Answer(onceRefusing()) // refuses the new token of a call that read the refresh token
				must(w.try(c, get(t.Context())))(t)
				w.api.Answer(status(http.StatusOK))
				w.get(c)
				w.Advance(time.Hour)
			}
			if g.revoked || g.issued < 10 {
				t.Errorf("revoked: %t, after %d refreshs", g.revoked, g.issued)
			}
		})
	}
}

// The two attempts of a request. If the first has read the request, what it sends may depend on that, and so may the API's
// answer, because of which the second attempt runs.

// attempts returns a world whose API refuses each first attempt, and whose guest reads the request in each attempt, but before that does
// do. Requests of alice are those that the guest wants to say something about. In a list, another guest, before that, reads the request.
func attempts(t *testing.T, list bool, do func(env contract.Env, status int)) (w *world, ask func(user string)) {
	t.Helper()
	read := func(env contract.Env, status int) (string, error) {
		credential := "right"
		if status == 0 && strings.Contains(string(env.Input()), "alice") {
			credential = "wrong"
		}
		return header("X-Key", credential), nil
	}
	w, connector := challengeWorld(t, func(env contract.Env) (string, error) {
		status := challengeOf(env).Status
		do(env, status)
		if list {
			return header("X-Second", value(env, "key")), nil
		}
		return read(env, status)
	}, func(c *host.Config) {
		reader := &guest{about: challenged, authenticate: func(env contract.Env) (string, error) { return read(env, challengeOf(env).Status) }}
		reader.about.Type = "reader"
		withGuest(reader)(c)
	})
	if list {
		configured := config{"key": "{{ get_secret('key') }}", "url": tokenURL}
		connector = w.open(host.ConnectorConfig{Name: "list", Auth: []host.Auth{{Type: "reader", Config: configured}, {Type: "custom", Config: configured}}})
	}
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
		must(w.try(connector, r))(t)
	}
}

// forms runs a test with one guest, and with a list of two.
func forms(t *testing.T, name string, test func(t *testing.T, list bool)) {
	t.Run(name, func(t *testing.T) { test(t, false) })
	t.Run(name+" in a list", func(t *testing.T) { test(t, true) })
}

// A guest that has the API refuse only some requests does not let others see which, by what it does because of the refusal
// (threats.md 102). Nor does one beside it in a list.
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
		forms(t, name, func(t *testing.T, list bool) {
			var seen []string
			for _, user := range []string{"bobby", "alice"} {
				looking, last := false, ""
				w, ask := attempts(t, list, func(env contract.Env, status int) {
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
		forms(t, name, func(t *testing.T, list bool) {
			var runs []int
			w, request := attempts(t, list, func(env contract.Env, status int) {
				if runs = append(runs, status); status != 0 {
					ask(env)
				}
			})
			request("alice")
			if w.login.Count() != 0 || w.api.Count() != 2 {
				t.Errorf("%d requests to the endpoint, %d to the API", w.login.Count(), w.api.Count())
			}
			// The call that runs in the place of the second knows nothing of the answer.
			equal(t, []int{0, 401, 0}, runs)
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
					reply := tokenReply(env, contract.TokenRequest{URL: value(env, "url")})
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
			equal(t, want, steps)
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
	equal(t, []string{"0", "401a-nonce", "0a-nonce"}, nonces(w))
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
	g.about.Challenge = &abi.Challenge{Statuses: []int{401}, Answers: []abi.Answer{{Name: "nonce", From: "auth:Digest/nonce", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}}}}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	connector := w.connect("custom", config{"key": "{{ get_secret('key') }}"})
	secret := w.canary("key")
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("X-Key") != "" {
			return respond(http.StatusUnauthorized, "", "WWW-Authenticate", `Digest nonce="a-long-nonce"`)(r)
		}
		return respond(http.StatusOK, "before: "+secret)(r)
	})
	if body, err := w.read(connector.GuardedTransport(nil).RoundTrip(get(t.Context()))); !errors.Is(err, host.ErrCredentialInResponse) || strings.Contains(body, secret) || w.api.Count() != 2 {
		t.Errorf("the caller got %q, %v after %d requests", body, err, w.api.Count())
	}
}
