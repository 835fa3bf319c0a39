package host_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// Attacks on the host's memory, threats.md 3, and on the calls of others. The tests go just beyond each bound, so that
// they stay cheap even if the bound is missing.

func TestConfigGetOfManyUnknownNames_threats_3(t *testing.T) {
	refuseAll(t, []misuse{{"a long name", sendsKeyAfter(func(env contract.Env) {
		for i := range 64 {
			env.ConfigGet(fmt.Sprint(i) + strings.Repeat("n", 1<<20))
		}
	}), host.StagePlugin, "is no field in the plugin's description"}})
}

// A document can name a large sealed value many times in a few bytes. A plugin makes a sealed value of 128 KiB from a
// short one by encoding it repeatedly, and a reference to it takes 29 bytes.
func TestDocumentsOfManySealedValues_threats_3(t *testing.T) {
	large := func(env contract.Env, field string) string {
		v := value(env, field)
		for range 7 { // a short value counts as 1 KiB
			v = env.Encode(contract.FormatHex, v)
		}
		return v
	}
	const many = 32 // 4 MiB
	refuseAll(t, []misuse{
		{"a form", func(env contract.Env) (string, error) {
			var form []abi.Pair
			v := large(env, "to_token")
			for range many {
				form = append(form, abi.Pair{Name: "a", Value: v})
			}
			return tokenRequest(env, tokenURL, form...)
		}, host.StagePlugin, "more than 2097152 bytes in all"},
		{"claims", func(env contract.Env) (string, error) {
			var list []any
			v := large(env, "to_claim")
			for range many {
				list = append(list, v)
			}
			return header("X-Key", sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader, Claims: map[string]any{"a": list}})), nil
		}, host.StagePlugin, "more than 2097152 bytes in all"},
		{"claims of many documents", sendsKeyAfter(func(env contract.Env) {
			v := large(env, "to_claim")
			for i := range 18 { // 2.25 MiB
				sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader, Claims: map[string]any{fmt.Sprint(i): v}})
			}
		}), host.StagePlugin, "more than 2097152 bytes in all"},
	})
}

// A reference to a sealed value of one byte counts as more than one byte in the cache.
func TestCachedValueCountsItsSealedValues_threats_3(t *testing.T) {
	caching := func(references int) func(contract.Env) (string, error) {
		return func(env contract.Env) (string, error) {
			v := value(env, "to_header")
			env.CacheSet("k", strings.Repeat(v, references), 60)
			return header("X-Key", v), nil
		}
	}
	short := func(w *world) *host.Connector {
		w.setSecret("s", "x")
		return w.connect("custom", misused)
	}
	w := misusedWorld(t, caching(50))
	w.get(short(w))
	w = misusedWorld(t, caching(700))
	w.refuse(short(w), get(t.Context()), host.StagePlugin, "more than 65536 bytes")
}

// A plugin may set an entry twice in a call. The second value counts, also if the first one was waited for.
func TestSecondValueOfAnEntryWins(t *testing.T) {
	w, c := misuser(t, func(env contract.Env) (string, error) {
		found, ok := env.CacheGet("k")
		if !ok {
			env.CacheSet("k", "old", 60)
			env.CacheSet("k", "new", 60)
			found, _ = env.CacheGet("k")
		}
		return header("X-Key", value(env, "to_header")+found), nil
	})
	for _, request := range []string{"first", "second"} {
		if got := w.get(c).Header.Get("X-Key"); got != w.secrets["s"]+"new" {
			t.Errorf("the %s request has the entry %q", request, strings.TrimPrefix(got, w.secrets["s"]))
		}
	}
}

// cachingToken is a guest that caches a token of its endpoint.
func cachingToken(env contract.Env) (string, error) {
	token, found := env.CacheGet("token")
	if !found {
		token = tokenReply(env, contract.TokenRequest{URL: value(env, "url")}).AccessToken
		env.CacheSet("token", token, 60)
	}
	return header("X-Key", token), nil
}

// threats.md 30, 3: a call that waits for a token endpoint keeps its guest's memory, and does not count for
// ConcurrentGuests. So ConcurrentExchanges limits the number of such calls, and an endpoint has half of them. Calls that need no endpoint do not wait for
// them.
func TestWaitingCallsBound_threats_30(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := customWorld(t, misusing(cachingToken), func(c *host.Config) { c.Limits.ConcurrentExchanges = 4 })
		cached := w.connectAs("cached", "custom", misused)
		w.get(cached)
		g := newGate(token("a-later-token", 3600))
		w.login.Answer(g.answer)
		var all sync.WaitGroup
		for i := range 10 {
			c := w.connectAs(fmt.Sprint("slow ", i), "custom", misused)
			all.Go(func() {
				if _, err := w.try(c, get(t.Context())); err != nil {
					t.Errorf("%s: err = %v", c.Config().Name, err)
				}
			})
		}
		if synctest.Wait(); w.login.Count() != 1+2 || w.api.Count() != 1 {
			t.Errorf("%d exchanges and %d requests, want 2 and none", w.login.Count()-1, w.api.Count()-1)
		}
		for range 5 {
			w.get(cached)
		}
		if w.login.Count() != 1+2 || w.api.Count() != 1+5 {
			t.Error("what is cached waits for endpoints")
		}
		close(g.open)
		if all.Wait(); w.login.Count() != 1+10 || w.api.Count() != 1+5+10 {
			t.Errorf("%d exchanges and %d requests, want all 10", w.login.Count()-1, w.api.Count()-6)
		}
	})
}

// A call waits for its turn to request a token no longer than a call may take.
func TestTokenRequestTurnTimeout_threats_30(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := customWorld(t, misusing(cachingToken), func(c *host.Config) { c.Limits.ConcurrentExchanges = 1 })
		stuck := make(chan struct{})
		w.login.Answer(func(r *http.Request) (*http.Response, error) { // ignores its context
			<-stuck
			return token("a-later-token", 3600)(r)
		})
		var all sync.WaitGroup
		slow, late := w.connectAs("slow", "custom", misused), w.connectAs("late", "custom", misused)
		all.Go(func() { _, _ = w.try(slow, get(t.Context())) })
		synctest.Wait()
		w.refuse(late, get(t.Context()), host.StageToken, "too many other calls")
		close(stuck)
		all.Wait()
		w.get(late) // the next request succeeds
	})
}

// Attacks that once worked: on the URL of a token request, and on the checks that come before any request.

// customWorld returns a world with one plugin and the secrets of misused.
func customWorld(t *testing.T, g *guest, change ...func(*host.Config)) *world {
	t.Helper()
	return newWorld(t, append(change, withoutBuiltIns, withGuest(g))...)
}

// With a default, the plugin's author would choose where the operator's secrets go.
func TestURLFieldHasNoDefault_threats_18(t *testing.T) {
	for _, standard := range []string{"https://evil.test/steal", tokenURL, "/", " "} {
		g := &guest{}
		g.about.Fields = []abi.Field{{Name: "url", Kind: abi.KindURL, Default: standard}}
		testworld.WantError(t, standard, loadError(t, g), "field url: a url has no default")
	}
}

func TestUserChoosesNoHostOfATokenURL_threats_18(t *testing.T) {
	w := misusedWorld(t, asksOnce)
	for _, url := range []string{
		"{{ user.id }}", "{{ tenant_id }}", "https://{{ user.username }}.login.test/token", "https://{{ user.id }}/token",
		"https://login.test{{ user.id }}", "https://login.test{{ user.id }}/token", "https://login.test:{{ tenant_id }}/", "{{ user.id }}://login.test/",
		`https://login.test\{{ user.email }}`, "https://login.test#{{ user.last_name }}",
		"{{ 'https://login.test/' + user.id }}", "https://{{ default(user.id, 'login.test') }}/token", "{{ get_secret('s') }}{{ user.id }}",
		"{{ get_secret('s', 'tenant') }}", "https://{{ get_secret('s', 'user') }}.login.test/token",
	} {
		problems := w.problems("custom", with(misused, "url", url))
		if len(problems) != 1 || !strings.HasPrefix(problems[0], "auth.config.url: user.*, tenant_id and secrets of tenants and users may stand only behind the host") {
			t.Errorf("%s: the problems are %q, want one", url, problems)
		}
	}
	for _, url := range []string{"https://login.test/{{ user.id }}/token", "https://login.test/token?as={{ user.id }}", "https://login.test?{{ user.id }}", "HTTPS://login.test/{{ user.id }}"} {
		c := w.connectAs("crm "+url, "custom", with(misused, "url", url))
		for _, id := range []string{"ann", "evil.test/", "@evil.test/", "//evil.test", `\evil.test`, "../../evil.test", ":443@evil.test", "#@evil.test"} {
			before := w.login.Count()
			_, err := w.try(c, get(host.WithUser(t.Context(), host.User{ID: id})))
			switch {
			case err == nil && w.login.Count() != before+1:
				t.Errorf("%s of %q: the token request did not go to login.test: %s", url, id, w.api.Last().URL)
			case err != nil && w.login.Count() != before:
				t.Errorf("%s of %q: the token request was sent, and then %v", url, id, err)
			case err != nil && id == "ann":
				t.Errorf("%s of %q: %v", url, id, err)
			}
		}
	}
}

// A plugin may send a token request to a URL that config_get returned. The template is rendered once. Other url fields,
// which may not be renderable for every user, are not rendered.
func TestTokenURLFromConfigGet(t *testing.T) {
	g := misusing(asksOnce)
	g.about.Fields = append(g.about.Fields, abi.Field{Name: "another", Kind: abi.KindURL}, abi.Field{Name: "url_too", Kind: abi.KindURL})
	w := customWorld(t, g)
	c := w.connect("custom", with(misused, "url", tokenURL+"?request={{ uuid() }}",
		"another", "https://login.test/{{ user.id }}", "url_too", "https://login.test/{{ tenant_id }}"))
	seen := map[string]bool{}
	for range 20 {
		w.get(c)
		seen[w.login.Last().URL] = true
	}
	if w.login.Count() != 20 || len(seen) != 20 {
		t.Errorf("%d exchanges at %d URLs, want 20 and 20", w.login.Count(), len(seen))
	}
}

// A plugin may also send a token request to a configured URL without asking config_get. Then every url field is
// rendered.
func TestTokenURLWithoutConfigGet(t *testing.T) {
	w := misusedWorld(t, sendsKeyAfter(func(env contract.Env) {
		env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: tokenURL})))
	}))
	// Fields of other kinds are not rendered unless the plugin asks for them.
	if w.get(w.connect("custom", with(misused, "text", "{{ user.email }}"))); w.login.Count() != 1 {
		t.Errorf("%d exchanges", w.login.Count())
	}
}

// The list of problems has texts of plugins and configurations. Each problem is one line, whatever those texts are.
func TestConfigErrorForgesNoLines_threats_21(t *testing.T) {
	const forged = "\x1b[2J\nconnectors.other.auth: forged"
	g := misusing(nil)
	g.about.Fields = append(g.about.Fields,
		abi.Field{Name: "needed", Kind: abi.KindString, Required: true, Doc: "Something." + forged},
		abi.Field{Name: "choice", Kind: abi.KindString, Enum: []string{"a" + forged, "b"}})
	g.validate = func(contract.Env) error { return errors.New("needed: is wrong" + forged) }
	w := customWorld(t, g)
	auth := func(c config) []host.Auth { return []host.Auth{{Type: "custom", Config: c}} }
	for name, c := range map[string]host.ConnectorConfig{
		"doc":        {Auth: auth(misused)},
		"enum":       {Auth: auth(with(misused, "needed", "x", "choice", "c"))},
		"validate":   {Auth: auth(with(misused, "needed", "x"))},
		"field":      {Auth: auth(with(misused, "needed", "x", "x"+forged, "1"))},
		"member":     {Auth: auth(with(misused, "needed", "x", "claims", config{"a" + forged: "{{"}))},
		"connector":  {Name: "crm" + forged, Auth: auth(with(misused, "needed", "x"))},
		"type":       {Auth: []host.Auth{{Type: "custom" + forged}}},
		"origin":     {Origins: []string{"https://a" + forged}, Auth: auth(with(misused, "needed", "x"))},
		"expression": {Auth: auth(with(misused, "needed", "{{ '"+forged+"' + nope"+forged+" }}"))},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.tryOpen(c)
			wrong, ok := errors.AsType[*host.ConfigError](err)
			if !ok {
				t.Fatalf("not a ConfigError: %v", err)
			}
			if text := err.Error(); strings.Count(text, "\n") != len(wrong.Problems)-1 || strings.ContainsRune(text, '\x1b') {
				t.Errorf("%d problems are %q", len(wrong.Problems), text)
			}
		})
	}
}
