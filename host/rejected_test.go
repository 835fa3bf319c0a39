package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
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
	all := []string{abi.SinkHeader, abi.SinkQuery, abi.SinkClaim, abi.SinkSign}
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

// grant is a token endpoint that issues a new refresh token each time, and revokes the grant if one is used twice, RFC
// 9700 section 4.14.2.
type grant struct {
	n       int
	valid   string
	revoked bool
}

func (g *grant) answer(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	if g.revoked = g.revoked || form.Get("refresh_token") != g.valid; g.revoked {
		return respond(http.StatusBadRequest, `{"error":"invalid_grant"}`)(r)
	}
	g.n++
	g.valid = fmt.Sprint("refresh-token-", g.n)
	return respond(http.StatusOK, fmt.Sprintf(`{"access_token":"access-token-%d","expires_in":3600,"refresh_token":%q}`, g.n, g.valid))(r)
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
		var reply contract.TokenReply
		document := env.TokenRequest([]byte(marshal(contract.TokenRequest{
			URL: value(env, "token_url"), Extra: []string{"refresh_token"},
			Form: []abi.Pair{{Name: "grant_type", Value: "refresh_token"}, {Name: "refresh_token", Value: refresh}},
		})))
		if err := json.Unmarshal(document, &reply); err != nil {
			return "", err
		}
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
					sealedField("refresh_token", abi.SinkToken), {Name: "token_url", Kind: abi.KindURL, Sinks: []string{abi.SinkToken}},
				}},
				authenticate: p.authenticate,
			}))
			g := &grant{valid: w.canary("rt")}
			w.login.Answer(g.answer)
			c := w.connect("custom", config{"refresh_token": "{{ get_secret('rt') }}", "token_url": tokenURL})
			for range 5 {
				w.get(c)
				w.api.Answer(onceRefusing()) // refuses the token of the cache
				w.get(c)
				w.Advance(time.Hour)
				w.api.Answer(onceRefusing()) // refuses the new token of a call that read the refresh token
				if _, err := w.try(c, get(t.Context())); err != nil {
					t.Fatal(err)
				}
				w.api.Answer(status(http.StatusOK))
				w.get(c)
				w.Advance(time.Hour)
			}
			if g.revoked || g.n < 10 {
				t.Errorf("revoked: %t, after %d refreshs", g.revoked, g.n)
			}
		})
	}
}
