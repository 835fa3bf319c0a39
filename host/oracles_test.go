package host_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// threats.md 68: whether a call succeeds must not depend on the value of a secret, or a plugin could learn the value.

// A plugin that fills a text up to a limit must not learn the length of the secret in it.
func TestLimitOracle(t *testing.T) {
	succeeds := func(t *testing.T, length int, do func(contract.Env, string)) bool {
		w := misusedWorld(t, func(env contract.Env) (string, error) {
			v := value(env, "to_header")
			do(env, v)
			return header("X-Key", v), nil
		})
		w.setSecret("s", strings.Repeat("s", length))
		_, err := w.try(w.connect("custom", misused), get(t.Context()))
		return err == nil
	}
	for name, do := range map[string]func(env contract.Env, v string, n int){
		"a text filled with the secret": func(env contract.Env, v string, n int) {
			env.Encode(contract.FormatBase64, strings.Repeat(v, n))
		},
		"a text filled with what is made of it": func(env contract.Env, v string, n int) {
			v = env.Encode(contract.FormatBase64, strings.Repeat("x", 64<<10)+v)
			env.Encode(contract.FormatHex, strings.Repeat(v, n))
		},
		"a cached value": func(env contract.Env, v string, n int) { env.CacheSet("k", strings.Repeat(v, n), 60) },
	} {
		t.Run(name, func(t *testing.T) {
			want := -1
			for _, length := range []int{1, 100, 1000, 1024} {
				low, high := 0, 600 // the call succeeds with low, and fails with high
				for high-low > 1 {
					middle := (low + high) / 2
					if succeeds(t, length, func(env contract.Env, v string) { do(env, v, middle) }) {
						low = middle
					} else {
						high = middle
					}
				}
				if want < 0 {
					want = low
				}
				if low == 0 || low != want {
					t.Errorf("with a secret of %d bytes it succeeds up to %d times, and with one of 1 byte %d times", length, low, want)
				}
			}
		})
	}
}

// Two headers of one name are refused. So a plugin that sets a sealed name and its guess must be refused whether the
// guess is right or wrong.
func TestHeaderNameOracle(t *testing.T) {
	for name, do := range map[string]func(env contract.Env, pairs func(secret string) []abi.Pair) (string, error){
		"mutation": func(env contract.Env, pairs func(string) []abi.Pair) (string, error) {
			return marshal(contract.Mutation{Headers: pairs(value(env, "to_header"))}), nil
		},
		"token request": func(env contract.Env, pairs func(string) []abi.Pair) (string, error) {
			env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url"), Headers: pairs(value(env, "to_token"))})))
			return header("X-Key", value(env, "to_header")), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			said := map[string]bool{}
			for _, guess := range []string{"X-Right-Guess", "X-Wrong-Guess"} {
				for _, first := range []bool{true, false} {
					w := misusedWorld(t, func(env contract.Env) (string, error) {
						return do(env, func(secret string) []abi.Pair {
							if first {
								return []abi.Pair{{Name: guess, Value: "1"}, {Name: secret, Value: "2"}}
							}
							return []abi.Pair{{Name: secret, Value: "1"}, {Name: guess, Value: "2"}}
						})
					})
					w.setSecret("s", "X-Right-Guess")
					_, err := w.try(w.connect("custom", misused), get(t.Context()))
					if err == nil || strings.Contains(err.Error(), "Guess") {
						t.Fatalf("with %s: error %v", guess, err)
					}
					said[err.Error()] = true
				}
			}
			if len(said) != 1 {
				t.Errorf("the error depends on the guess: %v", said)
			}
			w := misusedWorld(t, func(env contract.Env) (string, error) {
				return do(env, func(secret string) []abi.Pair { return []abi.Pair{{Name: secret, Value: "alone"}} })
			})
			w.setSecret("s", "X-Sealed-Name")
			w.get(w.connect("custom", misused))
			received := w.api.Received()
			if name == "token request" {
				received = w.login.Received()
			}
			if got := received[0].Header.Get("X-Sealed-Name"); got != "alone" {
				t.Errorf("a header that is alone came as %q", got)
			}
		})
	}
}

// spied returns a world with a guest that runs do, and its connector. The guest gets a sealed field v, which may go to
// headers, tokens, claims and signatures, and which is the secret unless c sets it.
func spied(t *testing.T, secret string, c config, do func(env contract.Env, v string) string) (*world, *host.Connector) {
	t.Helper()
	g := &guest{authenticate: func(env contract.Env) (string, error) { return do(env, value(env, "v")), nil }}
	g.about.Uses = contract.Groups
	g.about.Fields = []abi.Field{
		sealedField("v", contract.SinkHeader, contract.SinkToken, contract.SinkClaim, contract.SinkSign),
		{Name: "url", Kind: abi.KindURL, Sinks: []string{contract.SinkToken}},
		{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm"},
		{Name: "algorithm", Kind: abi.KindString, Enum: algorithms, Default: "HS256"},
	}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	w.setSecret("s", secret)
	all := config{"v": "{{ get_secret('s') }}", "key": strings.Repeat("k", 64)}
	maps.Copy(all, c)
	return w, w.connect("custom", all)
}

// A token request goes only to a URL that is configured. A plugin must not learn a secret in that URL from whether a
// URL of its own is the configured one. Nor may it learn whether a URL that contains a secret equals a URL that a user
// wrote.
func TestTokenURLOracle_threats_68(t *testing.T) {
	const before, behind = "https://login.test/", "/token"
	for name, c := range map[string]struct{ field, asked string }{
		"a guess beside a secret in the URL": {before + "{{ get_secret('s') }}" + behind, before + "tenant-1" + behind},
		"a secret beside a guess in the URL": {before + "tenant-1" + behind, before + "SEALED" + behind},
	} {
		t.Run(name, func(t *testing.T) {
			said := map[string]bool{}
			for _, secret := range []string{"tenant-1", "tenant-2"} {
				w, connector := spied(t, secret, config{"url": c.field}, func(env contract.Env, v string) string {
					env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: strings.ReplaceAll(c.asked, "SEALED", v)})))
					return header("X-Key", v)
				})
				said[w.refuse(connector, get(t.Context()), host.StagePlugin, "as config_get returned it").Error()] = true
				if w.login.Count() != 0 {
					t.Errorf("with the secret %s, the endpoint was asked", secret)
				}
			}
			if len(said) != 1 {
				t.Errorf("the error depends on the secret: %v", said)
			}
		})
	}
}

// A plugin may use a URL with a secret in it as config_get returned it.
func TestTokenURLWithASecret(t *testing.T) {
	w, connector := spied(t, "token", config{"url": "https://login.test/{{ get_secret('s') }}"}, func(env contract.Env, v string) string {
		env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url")})))
		return header("X-Key", v)
	})
	w.get(connector)
	if got := w.login.Last().URL; got != tokenURL {
		t.Errorf("the token request went to %s", got)
	}
}

// A caller that guesses a sealed header name in Connection must not learn whether the guess is right.
func TestSealedNameInConnectionHeader_threats_68(t *testing.T) {
	w, connector := spied(t, "X-Sealed-Name", nil, func(_ contract.Env, v string) string { return header(v, "1") })
	said := map[string]bool{}
	for _, guess := range []string{"X-Sealed-Name", "X-Another-Name"} {
		r := get(t.Context())
		r.Header.Set("Connection", "close, "+guess)
		said[w.refuse(connector, r, host.StageMutation, "drop the credential").Error()] = true
	}
	if len(said) != 1 {
		t.Errorf("the error depends on the guess: %v", said)
	}
	for _, harmless := range []string{"Keep-Alive", "close,", ""} {
		r := get(t.Context())
		r.Header.Set("Connection", harmless)
		w.send(connector, r)
	}
}

// Numeric claims become 64-bit integers. If a claim has digits around a secret, the plugin must not learn from an
// overflow how large the secret is.
func TestIntegerClaimOracle_threats_68(t *testing.T) {
	for secret, want := range map[string]string{"775807": `"exp":9223372036854775807`, "775808": `"exp":"9223372036854775808"`} {
		w, connector := spied(t, secret, nil, func(env contract.Env, v string) string {
			return header("X-Key", sign(env, contract.JWTRequest[map[string]any]{
				Key: "key", For: contract.ForHeader, Claims: map[string]any{"exp": "9223372036854" + v}, Integers: []string{"exp"},
			}))
		})
		parts := strings.Split(w.get(connector).Header.Get("X-Key"), ".")
		if payload, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || !strings.Contains(string(payload), want) {
			t.Errorf("with the secret %s the claims are %s (%v)", secret, payload, err)
		}
	}
	w, connector := spied(t, "a secret", nil, func(env contract.Env, _ string) string {
		return header("X-Key", sign(env, contract.JWTRequest[map[string]any]{
			Key: "key", For: contract.ForHeader, Claims: map[string]any{"exp": "9223372036854775808"}, Integers: []string{"exp"},
		}))
	})
	w.refuse(connector, get(t.Context()), host.StageSign, "exp") // no part of the number is secret
}

// One MAC in seventy has only bytes that are valid in a header. Whether a MAC is valid must not show, because it
// depends on the key.
func TestMACOracle_threats_68(t *testing.T) {
	for name, place := range map[string]func(env contract.Env, raw string) string{
		"the value of a header": func(_ contract.Env, raw string) string { return header("X-Key", raw) },
		"the name of a header":  func(_ contract.Env, raw string) string { return header(raw, "1") },
		"a token request": func(env contract.Env, raw string) string {
			pairs := []abi.Pair{{Name: "X-Key", Value: raw}}
			env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url"), Headers: pairs})))
			return ""
		},
		"a claim": func(env contract.Env, raw string) string {
			return header("X-Key", sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader, Claims: map[string]any{"sub": raw}}))
		},
		"what the cache had": func(env contract.Env, raw string) string {
			env.CacheSet("k", "x"+raw, 60)
			again, _ := env.CacheGet("k")
			return header("X-Key", again)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			w, connector := spied(t, "a secret", config{"url": tokenURL}, func(env contract.Env, v string) string {
				n++
				return place(env, env.MAC(contract.MACSHA256, v, strconv.Itoa(n)))
			})
			for range 300 {
				w.refuse(connector, get(t.Context()), host.StagePlugin, "encode it first")
			}
		})
	}
}

// The time of a call must not show the length of a secret. So the total size of texts that are made from secrets in a
// call is limited.
func TestSecretWorkBound_threats_68(t *testing.T) {
	w, connector := spied(t, "a secret", nil, func(env contract.Env, v string) string {
		for range 300 {
			env.MAC(contract.MACSHA256, strings.Repeat(v, 250), "data")
		}
		return header("X-Key", v)
	})
	w.refuse(connector, get(t.Context()), host.StagePlugin, "bytes in all")
	// The limits of a call and of a text, and the size that a short value counts as.
	const most, long, each = 2 << 20, 256 << 10, 1 << 10
	for name, do := range map[string]func(env contract.Env, v string, more int) string{
		"what is made of secrets": func(env contract.Env, v string, more int) string {
			for range most / long {
				env.MAC(contract.MACSHA256, strings.Repeat(v, long/each), "data")
			}
			for range more {
				env.MAC(contract.MACSHA256, v, "data")
			}
			return header("X-Key", v)
		},
		"where secrets are put in": func(env contract.Env, v string, more int) string {
			mutation := header("K", v)
			rest := most - len(tokenURL) - (len("K") + each)
			var form []abi.Pair
			for ; rest > long; rest -= len("f") + long {
				form = append(form, abi.Pair{Name: "f", Value: strings.Repeat(v, long/each)})
			}
			form = append(form, abi.Pair{Name: "f", Value: strings.Repeat("x", rest-len("f")+more)})
			env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url"), Form: form})))
			return mutation
		},
	} {
		t.Run(name, func(t *testing.T) {
			for more := range 2 {
				w, connector := spied(t, "a secret", config{"url": tokenURL}, func(env contract.Env, v string) string { return do(env, v, more) })
				if more == 0 {
					w.get(connector)
				} else {
					w.refuse(connector, get(t.Context()), host.StagePlugin, "than 2097152 bytes in all")
				}
			}
		})
	}
}

// The length that a JWT counts as depends only on its request, with each sealed value at the length that it counts as.
// It is the length of the request, one and a half times the length of the values, and 1 KiB for the signature.
func TestJWTLengthOracle_threats_68(t *testing.T) {
	for _, length := range []int{1, 1000} {
		for more := range 2 {
			w, connector := spied(t, strings.Repeat("s", length), nil, func(env contract.Env, v string) string {
				request := func(plain int) contract.JWTRequest[map[string]any] {
					return contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader, Claims: map[string]any{"a": v, "b": strings.Repeat("x", plain)}}
				}
				const most, each, signature = 256 << 10, 1 << 10, 1 << 10
				document := len(marshal(request(0)))
				tooMany := sort.Search(most, func(n int) bool { return document+n+3*(each+n)/2+signature > most })
				return header("X-Key", sign(env, request(tooMany-1+more)))
			})
			if more == 0 {
				w.get(connector)
			} else {
				w.refuse(connector, get(t.Context()), host.StagePlugin, "too long")
			}
		}
	}
}

// The data that a store of keys makes an HMAC of may have the body in it, and is limited. Each sealed value counts as it does in
// other limits, so a plugin does not learn from the longest body that is allowed how long a secret is.
func TestStoreSignatureLengthOracle_threats_68(t *testing.T) {
	keys := keysWith("HS256")
	g := storedGuest(func(env contract.Env) (string, error) {
		return header("X-Signature", env.Encode(contract.FormatHex, env.MAC("HS256", value(env, "secret"), "."+value(env, "hashed")+env.Body()))), nil
	})
	g.about.Fields = append(g.about.Fields, abi.Field{
		Name: "hashed", Kind: abi.KindString, Sealed: true, Sinks: []string{contract.SinkDigest}, Derived: []string{contract.SinkHeader},
	})
	w := newWorld(t, withoutBuiltIns, withKeys(keys), withGuest(g))
	connector := w.connect("custom", config{"secret": "{{ get_key('api') }}", "hashed": "{{ get_secret('s') }}"})
	const longest = 256<<10 - 1<<10 - len(".")
	for _, length := range []int{1, 1000} {
		w.setSecret("s", strings.Repeat("s", length))
		post := func(length int) *http.Request {
			return postOf(t, strings.NewReader(strings.Repeat("x", length)))
		}
		w.send(connector, post(longest))
		w.refuse(connector, post(longest+1), host.StageSign, "more than 262144 bytes")
	}
}

// The longest body that is signed, or the longest claim, does not show how long a secret beside it is.
func TestSignedLengthOracle_threats_68(t *testing.T) {
	plain := ""
	for name, c := range map[string]struct {
		key  string
		sign func(env contract.Env) string
	}{
		"sign_sealed": {"key", func(env contract.Env) string {
			return env.Encode(contract.FormatHex, env.SignSealed("key", contract.PurposeMessage, ". "+value(env, "hashed")+env.Body()))
		}},
		"a payload": {"jws", func(env contract.Env) string {
			return signJWS(env, contract.JWSRequest[config]{Payload: value(env, "hashed") + env.Body()})
		}},
		"a payload as it is": {"jws", func(env contract.Env) string {
			return signJWS(env, contract.JWSRequest[config]{Payload: value(env, "hashed") + env.Body(), Unencoded: true})
		}},
		"the header of a JWS": {"jws", func(env contract.Env) string {
			return signJWS(env, contract.JWSRequest[config]{Header: config{"x": value(env, "to_claim")}, Payload: env.Body()})
		}},
		"a JWT": {"key", func(env contract.Env) string {
			return sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader, Claims: config{"a": value(env, "to_claim"), "b": plain}})
		}},
	} {
		for _, key := range []string{"{{ get_secret('k') }}", "{{ get_key('api') }}"} {
			g := storedGuest(func(env contract.Env) (string, error) { return header("X-Signature", c.sign(env)), nil })
			hashed := sealedField("hashed", contract.SinkDigest)
			hashed.Derived = []string{contract.SinkHeader}
			g.about.Fields = append(g.about.Fields, hashed, sealedField("to_claim", contract.SinkClaim))
			w := newWorld(t, withoutBuiltIns, withKeys(keysWith("ES256")), withGuest(g))
			w.setSecret("k", privateKey(t, "ES256"))
			connector := w.connect("custom", config{c.key: key, "hashed": "{{ get_secret('s') }}", "to_claim": "{{ get_secret('s') }}"})
			longest := func(secret int) int {
				w.setSecret("s", strings.Repeat("s", secret))
				return sort.Search(2<<20, func(n int) bool {
					plain = strings.Repeat("x", n+1)
					_, err := w.try(connector, postOf(t, strings.NewReader(plain)))
					return err != nil
				})
			}
			if one, more := longest(1), longest(1000); one != more || one < 64<<10 {
				t.Errorf("%s with %s: %d bytes beside a secret of one byte, and %d beside one of 1,000", name, key, one, more)
			}
		}
	}
}

// Whether data is signed does not depend on a sealed value in it. Otherwise a plugin could test guesses of a secret, such as
// whether it begins with a G: then SSHSI and the secret would be refused (threats.md 101).
func TestSignSealedOracle(t *testing.T) {
	jws := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256"}`))
	secrets := []string{
		"G", "harmless", jws, jws + ".e30", jws[1:] + ".", jws[3:], "SSHSIG", "SIG", strings.Repeat(" ", 64) + "x", " x", "\"@signature-params\": ()",
		"@signature-params\": ", "a\nb", "x\n\"@signature-params\": ()\n\"a\": b", `a": b`, "\"", ".", "=", "\nx",
	}
	for _, purpose := range []string{contract.PurposeMessage, contract.PurposeHTTPSignature} {
		for _, data := range []string{
			"HASHED", "SSHSIHASHED", jws[:1] + "HASHED", jws[:3] + "HASHED", jws + "HASHED", jws + "HASHED.e30", jws + ".HASHED", strings.Repeat(" ", 63) + "HASHED", "HASHED.",
			"\"HASHED\": a\n\"@signature-params\": ()", "\"aHASHED\n\"@signature-params\": ()", "\"a\": HASHED\n\"@signature-params\": ()",
			"\"a\": b\n\"HASHED\": ()", "\"a\": b\n\"@signature-params\"HASHED", "x \"@signature-paramsHASHED", "x HASHED",
		} {
			seen := map[string]string{}
			w, connector := keysWorld(t, []string{purpose}, func(env contract.Env) (string, error) {
				env.SignSealed("key", purpose, strings.ReplaceAll(data, "HASHED", value(env, "hashed")))
				return "{}", nil
			})
			for _, secret := range secrets {
				w.setSecret("s", secret)
				_, err := w.try(connector, get(t.Context()))
				seen[fmt.Sprint(err)] = secret
			}
			if len(seen) > 1 {
				t.Errorf("%s of %q depends on the secret: %q", purpose, data, seen)
			}
		}
	}
}
