package host_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// Keys that stay in a store of keys.

// withKeys returns a change of a configuration that adds a store of keys.
func withKeys(keys host.Keys) func(*host.Config) { return func(c *host.Config) { c.Keys = keys } }

func storedJWT(algorithm string) config {
	return config{"algorithm": algorithm, "private_key": "{{ get_key('api') }}", "claims": config{"iss": "me"}}
}

// storedGuest returns a guest that does do. It has a key, a secret that is only a key, and a text.
func storedGuest(do func(contract.Env) (string, error)) *guest {
	return &guest{about: abi.Description{Uses: contract.Groups, Anonymous: true, Fields: []abi.Field{
		{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm", Purposes: []string{contract.PurposeMessage, contract.PurposeJWT}, Derived: []string{contract.SinkHeader}},
		{Name: "algorithm", Kind: abi.KindString, Enum: algorithms, Default: "ES256"},
		{Name: "secret", Kind: abi.KindString, Sealed: true, Sinks: []string{contract.SinkSign}, Derived: []string{contract.SinkHeader}},
		{Name: "text", Kind: abi.KindString, Sinks: []string{contract.SinkHeader}},
		{Name: "object", Kind: abi.KindObject, Sinks: []string{contract.SinkHeader}},
		{Name: "jws", Kind: abi.KindKey, AlgorithmField: "algorithm", Purposes: []string{contract.PurposeJWS}, Derived: []string{contract.SinkHeader}},
		sealedField("sent", contract.SinkSign, contract.SinkHeader),
	}}, authenticate: do}
}

// A plugin signs with a key of the store as it does with any other.
func TestAKeyOfAStoreSignsJWTs(t *testing.T) {
	for _, algorithm := range []string{"RS256", "PS256", "ES256", "ES384", "EdDSA", "HS256"} {
		t.Run(algorithm, func(t *testing.T) {
			keys := &fakeKeys{}
			public := keys.add("api", algorithm)
			w := newWorld(t, withKeys(keys))
			connector := w.connect("jwt", storedJWT(algorithm))
			keys.wait = func(context.Context) error { w.Advance(7 * time.Millisecond); return nil }
			token := strings.TrimPrefix(w.get(connector).Header.Get("Authorization"), "Bearer ")
			parsed, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return public, nil }, jwt.WithValidMethods([]string{algorithm}))
			if err != nil || parsed.Claims.(jwt.MapClaims)["iss"] != "me" {
				t.Fatalf("%s: err = %v", token, err)
			}
			if last := w.calls[len(w.calls)-1]; last.KeyRequests != 1 || last.KeyTime < 7*time.Millisecond || last.Reused {
				t.Errorf("Observe got %+v", last)
			}
			w.get(connector)
			if signed, _ := keys.counts(); signed != 2 {
				t.Errorf("the store signed %d times for two requests", signed)
			}
		})
	}
}

// An assertion is signed once for a token, and not while the token is in the cache.
func TestAKeyOfAStoreSignsOncePerToken(t *testing.T) {
	keys := keysWith("HS256")
	w := newWorld(t, withKeys(keys))
	c := w.connect("oauth_jwt_bearer", bearer("{{ get_key('api') }}"))
	for range 3 {
		w.get(c)
	}
	if signed, _ := keys.counts(); signed != 1 || w.login.Count() != 1 {
		t.Errorf("the store signed %d times for %d token requests", signed, w.login.Count())
	}
}

// All that a call does with a key it does with one version, also when the key is rotated meanwhile. A configuration may name
// the version.
func TestACallUsesOneVersionOfAKey(t *testing.T) {
	for name, c := range map[string]struct {
		key  string
		want []int // the version of the first request and of the second, after a rotation
	}{
		"the newest version":  {"{{ get_key('api') }}", []int{1, 3}},
		"a version by number": {"{{ get_key('api', 1) }}", []int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			keys := keysWith("ES256")
			thumbprint, version := "", 0
			keys.change = func(signature []byte, v int) ([]byte, int) { version = v; return signature, v }
			w := newWorld(t, withoutBuiltIns, withKeys(keys), withGuest(storedGuest(func(env contract.Env) (string, error) {
				thumbprint = env.PublicKey("key", contract.PublicThumbprint)
				keys.add("api", "ES256")
				again := env.PublicKey("key", contract.PublicThumbprint)
				if again != thumbprint {
					t.Error("the public key changed within a call")
				}
				return header("X-Signature", env.Encode(contract.FormatBase64, env.SignSealed("key", contract.PurposeMessage, "m"))), nil
			})))
			connector := w.connect("custom", config{"key": c.key})
			var thumbprints []string
			for _, want := range c.want {
				if w.get(connector); version != want {
					t.Errorf("version %d signed, want %d", version, want)
				}
				thumbprints = append(thumbprints, thumbprint)
				keys.add("api", "ES256") // and the guest adds one in each of its calls
				keys.versions["api"] = keys.versions["api"][:3]
			}
			if (thumbprints[0] == thumbprints[1]) != (c.want[0] == c.want[1]) {
				t.Errorf("the thumbprints are %v", thumbprints)
			}
		})
	}
}

// The store makes HMACs, over the body too. What is sent to it is bounded.
func TestAKeyOfAStoreMakesMACs(t *testing.T) {
	keys := &fakeKeys{}
	secret := keys.add("api", "HS256").([]byte)
	w := newWorld(t, withoutBuiltIns, withKeys(keys), withGuest(storedGuest(func(env contract.Env) (string, error) {
		return header("X-Signature", env.Encode(contract.FormatBase64, env.MAC("HS256", value(env, "secret"), "1."+env.Body()))), nil
	})))
	connector := w.connect("custom", config{"secret": "{{ get_key('api') }}"})
	post := func(body string) *http.Request {
		return postOf(t, io.MultiReader(strings.NewReader(body))) // a body that can be read only once
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("1.{}"))
	if got := w.send(connector, post("{}")).Header.Get("X-Signature"); got != base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
		t.Errorf("the signature is %q", got)
	}
	w.refuse(connector, post(strings.Repeat("x", 256<<10)), host.StageSign, "more than 262144 bytes", "sign a digest")
}

// What is wrong with a key of the store is an error with field, key and advice. It can pass, or a person has to fix it.
func TestErrorsOfTheStoreOfKeys(t *testing.T) {
	shorter := func(signature []byte, version int) ([]byte, int) { return signature[1:], version }
	another := func(signature []byte, version int) ([]byte, int) { return signature, version + 1 }
	damaged := func(signature []byte, version int) ([]byte, int) { signature[0] ^= 1; return signature, version }
	for name, c := range map[string]struct {
		algorithm, key string
		keys           *fakeKeys
		words          []string
		retryable      bool
		is             error
	}{
		"no such key":      {"ES256", "{{ get_key('none') }}", &fakeKeys{}, []string{`private_key: key "none": the key is not found`}, false, host.ErrKeyNotFound},
		"refused":          {"ES256", "{{ get_key('api') }}", &fakeKeys{fails: fmt.Errorf("%w: no", host.ErrKeyRefused)}, []string{`private_key: key "api": the key may not be used: no`}, false, host.ErrKeyRefused},
		"the store down":   {"ES256", "{{ get_key('api') }}", &fakeKeys{fails: errors.New("down")}, []string{`private_key: key "api": down`}, true, nil},
		"an RSA algorithm": {"RS256", "{{ get_key('api') }}", &fakeKeys{}, []string{`private_key: key "api": the key for RS256 is of the type *ecdsa.PrivateKey: an RSA key`}, false, nil},
		"another curve":    {"ES384", "{{ get_key('api') }}", &fakeKeys{}, []string{"the key for ES384 is of the type *ecdsa.PrivateKey: an EC key on P-384 is needed"}, false, nil},
		"an EC key":        {"EdDSA", "{{ get_key('api') }}", &fakeKeys{}, []string{"an Ed25519 key is needed"}, false, nil},
		"a wrong length":   {"ES256", "{{ get_key('api') }}", &fakeKeys{change: shorter}, []string{"returned 63 bytes, and a signature with ES256 has 64"}, false, nil},
		"a signature that is none": {"ES256", "{{ get_key('api') }}", &fakeKeys{change: damaged}, []string{
			`private_key: key "api": the signature of the store of keys does not verify with the public half of the key`,
		}, false, nil},
		"a wrong version": {"ES256", "{{ get_key('api', 1) }}", &fakeKeys{change: another}, []string{`private_key: key "api", version 1: the store of keys used version 2`}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.keys.add("api", "ES256")
			w := newWorld(t, withKeys(c.keys))
			auth := storedJWT(c.algorithm)
			auth["private_key"] = c.key
			err := w.refuse(w.connect("jwt", auth), get(t.Context()), host.StageSign, c.words...)
			if err.Retryable() != c.retryable || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("Retryable is %t for %v", err.Retryable(), err)
			}
		})
	}
}

// The key is rotated between its description and its signature: the signature is verified with the version that made it.
func TestKeyRotationDuringCall(t *testing.T) {
	keys := keysWith("ES256")
	rotate := false // in each second call of the store, which signs
	keys.wait = func(context.Context) error {
		if rotate {
			keys.add("api", "ES256")
		}
		rotate = !rotate
		return nil
	}
	w := newWorld(t, withKeys(keys))
	w.get(w.connect("jwt", storedJWT("ES256")))
	if signed, described := keys.counts(); signed != 1 || described != 2 {
		t.Errorf("the store signed %d times, and described the key %d times", signed, described)
	}
}

// threats.md 104: a store of keys that returns what it was sent cannot make the host send that to the API.
func TestEchoingKeyStore(t *testing.T) {
	for name, echo := range map[string]func(data []byte) []byte{
		"the begin of the data": func(data []byte) []byte { return data[:32] },
		"the end of the data":   func(data []byte) []byte { return data[len(data)-32:] },
	} {
		t.Run(name, func(t *testing.T) {
			keys := keysWith("HS256")
			g := storedGuest(func(env contract.Env) (string, error) {
				return header("X-Signature", env.Encode(contract.FormatHex, env.MAC("HS256", value(env, "secret"), value(env, "hashed")+value(env, "hashed")))), nil
			})
			g.about.Fields = append(g.about.Fields, abi.Field{Name: "hashed", Kind: abi.KindString, Sealed: true, Sinks: []string{contract.SinkDigest}, Derived: []string{contract.SinkHeader}})
			w := newWorld(t, withoutBuiltIns, withKeys(keys), withGuest(g))
			data := []byte(w.canary("hashed") + w.secrets["hashed"])
			keys.change = func(_ []byte, version int) ([]byte, int) { return echo(data), version }
			connector := w.connect("custom", config{"secret": "{{ get_key('api') }}", "hashed": "{{ get_secret('hashed') }}"})
			w.refuse(connector, get(t.Context()), host.StageSign, `secret: key "api": the store of keys returned a part of the data in place of its HMAC`)
		})
	}
}

// threats.md 94: a store of keys that hangs holds neither the guest's slot nor the places of token requests, and only until
// the time of the call is over.
func TestHangingKeyStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := &fakeKeys{wait: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		keys.add("api", "ES256")
		w := newWorld(t, withKeys(keys), func(c *host.Config) {
			c.Limits.ConcurrentGuests, c.Limits.ConcurrentExchanges, c.Limits.ConcurrentKeys = 1, 1, 1
		})
		signing, others := w.connect("jwt", storedJWT("ES256")), w.connectAs("others", "oauth_client_credentials", oauth("{{ get_secret('s') }}"))
		longer := w.open(host.ConnectorConfig{
			Name: "longer", Auth: []host.Auth{{Type: "jwt", Config: storedJWT("ES256")}}, Timeout: 20 * time.Second,
		})
		began := time.Now()
		done := make(chan error, 2)
		for _, c := range []*host.Connector{signing, longer} { // the second call waits for the place of the first
			go func() {
				_, err := w.try(c, get(t.Context()))
				done <- err
			}()
			synctest.Wait()
		}
		w.get(others)
		if took := time.Since(began); took != 0 {
			t.Errorf("the other connector had its answer after %s", took)
		}
		for range cap(done) {
			var failed *host.Error
			if err := <-done; !errors.As(err, &failed) || failed.Stage != host.StageSign || !failed.Retryable() {
				t.Errorf("the error is %v", err)
			}
		}
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("the calls took %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.refuse(signing, get(ctx), host.StageSign, "gave up waiting for a signature")
	})
}

// threats.md 94: a call that has begun with a look into the cache, and then waits for the store of keys, holds no place of token
// requests either.
func TestKeyStoreHangsDuringTokenRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := &fakeKeys{wait: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		keys.add("api", "HS256")
		w := newWorld(t, withKeys(keys), func(c *host.Config) { c.Limits.ConcurrentExchanges, c.Limits.ConcurrentKeys = 1, 1 })
		signing := w.connect("oauth_jwt_bearer", bearer("{{ get_key('api') }}"))
		others := w.connectAs("others", "oauth_client_credentials", oauth("{{ get_secret('s') }}"))
		began := time.Now()
		done := w.background(signing, get(t.Context()))
		synctest.Wait()
		w.get(others)
		if took := time.Since(began); took != 0 {
			t.Errorf("the other connector had its answer after %s", took)
		}
		if err := <-done; err == nil {
			t.Error("the store hangs, and there is no error")
		}
	})
}

// threats.md 94.
func TestACallUsesTheStoreOfKeysAFewTimesOnly(t *testing.T) {
	keys := keysWith("ES256")
	w := newWorld(t, withoutBuiltIns, withKeys(keys), withGuest(storedGuest(func(env contract.Env) (string, error) {
		for range 100 {
			env.SignSealed("key", contract.PurposeMessage, "m")
		}
		return header("X", "y"), nil
	})))
	w.refuse(w.connect("custom", config{"key": "{{ get_key('api') }}"}), get(t.Context()), host.StagePlugin, "more than 8 times in one call")
	if signed, _ := keys.counts(); signed != 8 {
		t.Errorf("the store signed %d times", signed)
	}
}

// A guest that uses a key of the store before it drops its token gets a new token as any other does. The body is kept as it was.
func TestStoreKeyBeforeDrop(t *testing.T) {
	keys := keysWith("ES256")
	tokens := 0
	g := storedGuest(func(env contract.Env) (string, error) {
		refused := challengeOf(env).Status != 0
		env.PublicKey("key", contract.PublicThumbprint)
		if refused {
			env.CacheDrop("token")
		}
		token, ok := env.CacheGet("token")
		if !ok {
			tokens++
			token = fmt.Sprint("token ", tokens)
			env.CacheSet("token", token, 60)
		}
		env.Digest(contract.DigestSHA256, env.Body())
		return header("X-Token", token), nil
	})
	g.about.Challenge = &abi.Challenge{Statuses: []int{http.StatusUnauthorized}}
	w := newWorld(t, withoutBuiltIns, withKeys(keys), withGuest(g))
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("X-Token") == "token 1" {
			return status(http.StatusUnauthorized)(r)
		}
		return status(http.StatusOK)(r)
	})
	r := postOf(t, io.MultiReader(strings.NewReader("{}")))
	got := w.send(w.connect("custom", config{"key": "{{ get_key('api') }}"}), r)
	if got.Header.Get("X-Token") != "token 2" || got.Body != "{}" {
		t.Errorf("the API got %s and %q", got.Header.Get("X-Token"), got.Body)
	}
}

// threats.md 95: a plugin cannot use a key of the store as a text.
func TestStoreKeyAsText(t *testing.T) {
	onlySigns, outOfReach := "the bytes of the key are wanted, but it stays in its store (get_key)", "a sealed value stands where its sinks"
	for name, c := range map[string]struct {
		do    func(env contract.Env, key string) string
		stage host.Stage
		words string
	}{
		"encode":                {func(env contract.Env, key string) string { return env.Encode(contract.FormatBase64, key) }, host.StageSign, onlySigns},
		"decode":                {func(env contract.Env, key string) string { return env.Decode(contract.FormatBase64, key) }, host.StageSign, onlySigns},
		"a part of a MAC's key": {func(env contract.Env, key string) string { return env.MAC("HS256", "AWS4"+key, "m") }, host.StageSign, onlySigns},
		"data that is signed":   {func(env contract.Env, key string) string { return env.SignSealed("key", contract.PurposeMessage, key) }, host.StagePlugin, outOfReach},
		"reveal":                {func(env contract.Env, key string) string { return string(env.Reveal(key)) }, host.StageSign, onlySigns},
		"digest":                {func(env contract.Env, key string) string { return env.Digest("sha256", key) }, host.StagePlugin, outOfReach},
		"data of a MAC":         {func(env contract.Env, key string) string { return env.MAC("HS256", value(env, "secret"), key) }, host.StagePlugin, outOfReach},
		"a header":              {func(_ contract.Env, key string) string { return key }, host.StagePlugin, outOfReach},
		"a MAC of a key field":  {func(env contract.Env, _ string) string { return env.MAC("HS256", value(env, "key"), "m") }, host.StagePlugin, "signs with sign_sealed"},
		"a MAC of another hash": {func(env contract.Env, _ string) string { return env.MAC("MD5", value(env, "secret"), "m") }, host.StageSign, "unknown MAC algorithm"},
		"a header, by the cache": {func(env contract.Env, key string) string {
			env.CacheSet("k", key, 60)
			v, _ := env.CacheGet("k")
			return v
		}, host.StagePlugin, outOfReach},
	} {
		t.Run(name, func(t *testing.T) {
			for _, field := range []string{"key", "secret"} {
				keys := keysWith("ES256")
				w := newWorld(t, withoutBuiltIns, withKeys(keys), withGuest(storedGuest(func(env contract.Env) (string, error) {
					return header("X-Key", c.do(env, value(env, field))), nil
				}), abi.GrantReveal))
				connector := w.connect("custom", config{"key": "{{ get_key('api') }}", "secret": "{{ get_key('api') }}"})
				w.refuse(connector, get(t.Context()), c.stage, c.words)
			}
		})
	}
}

// A key that a guest took out of the cache is still one of the store.
func TestAKeyOfAStoreInTheCache(t *testing.T) {
	keys := keysWith("HS256")
	w := newWorld(t, withoutBuiltIns, withKeys(keys), withGuest(storedGuest(func(env contract.Env) (string, error) {
		env.CacheSet("k", value(env, "secret"), 60)
		key, _ := env.CacheGet("k")
		return header("X-Signature", env.Encode(contract.FormatHex, env.MAC("HS256", key, "m"))), nil
	})))
	if got := w.get(w.connect("custom", config{"secret": "{{ get_key('api') }}"})).Header.Get("X-Signature"); len(got) != 64 {
		t.Errorf("the signature is %q", got)
	}
}

// get_key stands alone, in a field whose value can only sign.
func TestGetKeyInOtherFields(t *testing.T) {
	const alone, text = "get_key must stand alone", "get_key is for a field that takes a key, and this takes a text: use get_secret"
	for name, c := range map[string]struct {
		config config
		want   string
	}{
		"text around it":         {config{"key": "x{{ get_key('api') }}"}, "auth.config.key: " + alone},
		"a line break behind it": {config{"key": "{{ get_key('api') }}\n"}, "auth.config.key: " + alone},
		"another function":       {config{"key": "{{ default(get_key('api'), 'x') }}"}, "auth.config.key: " + alone},
		"an operator":            {config{"key": "{{ get_key('api') + 'x' }}"}, "auth.config.key: " + alone},
		"a branch":               {config{"key": "{{ true ? get_key('api') : 'x' }}"}, "auth.config.key: " + alone},
		"a text":                 {config{"text": "{{ get_key('api') }}"}, "auth.config.text: " + text},
		"a credential":           {config{"sent": "{{ get_key('api') }}"}, "auth.config.sent: " + text},
		"an object":              {config{"object": config{"a": []any{"{{ get_key('api') }}"}}}, "auth.config.object.a[0]: " + text},
		"an algorithm":           {config{"algorithm": "{{ get_key('api') }}"}, "auth.config.algorithm: " + text},
		"a name that is no name": {config{"key": "{{ get_key('../api') }}"}, "auth.config.key: the name must be 1 to 128 letters"},
		"a computed name":        {config{"key": "{{ get_key(tenant_id) }}"}, "auth.config.key: the name must be a literal text"},
		"a version of 0":         {config{"key": "{{ get_key('api', 0) }}"}, "auth.config.key: the version must be a literal number from 1"},
		"a version as text":      {config{"key": "{{ get_key('api', '2') }}"}, "auth.config.key: the version must be a literal number from 1"},
		"nothing":                {config{"key": "{{ get_key() }}"}, "auth.config.key: get_key takes a name, and perhaps a version"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withoutBuiltIns, withKeys(&fakeKeys{}), withGuest(storedGuest(nil)))
			if got := w.problems("custom", c.config); len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
				t.Errorf("the problems are %q", got)
			}
		})
	}
	w := newWorld(t, withoutBuiltIns, withGuest(storedGuest(nil)))
	if got := w.problems("custom", config{"key": "{{ get_key('api') }}"}); !slices.Equal(got, []string{"auth.config.key: there is no store of keys for get_key"}) {
		t.Errorf("without a store, the problems are %q", got)
	}
	_, err := w.tryOpen(host.ConnectorConfig{Auth: []host.Auth{{Type: "custom"}}, TLS: &host.TLS{CA: "{{ get_key('api') }}"}})
	testworld.WantError(t, "a certificate", err, "tls.ca, column 1: "+text)
	testworld.WantError(t, "a template of an embedder", testworld.ErrorOf(w.host.Template("{{ get_key('api') }}")), text)
}

// Explain asks no store. CheckKeys does, and signs nothing.
func TestExplainAndCheckKeys(t *testing.T) {
	keys := keysWith("ES256")
	w := newWorld(t, withKeys(keys), withGuest(storedGuest(func(env contract.Env) (string, error) {
		env.PublicKey("key", contract.PublicJWK)
		return header("X-Key", env.PublicKey("key", contract.PublicThumbprint)+" "+env.Encode(contract.FormatBase64, env.SignSealed("key", contract.PurposeMessage, "m"))+
			" "+env.Encode(contract.FormatHex, env.MAC("HS256", value(env, "secret"), "n"))), nil
	})))
	connector := w.connect("custom", config{"key": "{{ get_key('api') }}", "secret": "{{ get_key('api', 2) }}"})
	explained := must(connector.Explain(get(t.Context())))(t)
	want := "<jwk_thumbprint of get_key('api')> base64(signature(ES256, m)) hex(mac(HS256, {{ get_key('api', 2) }}, n))"
	if got := explained.Added.Headers[0].Value; got != want {
		t.Errorf("the header is %s", got)
	}
	jwt, err := w.connect("jwt", storedJWT("ES256")).Explain(get(t.Context()))
	if err != nil || !strings.HasPrefix(jwt.Added.Headers[0].Value, `Bearer <jwt {"alg":"ES256"`) {
		t.Errorf("jwt = %+v, err = %v", jwt, err)
	}
	if signed, described := keys.counts(); signed+described != 0 {
		t.Errorf("Explain asked the store %d times", signed+described)
	}

	for name, c := range map[string]struct {
		auth  config
		words string
	}{
		"all is well":   {storedJWT("ES256"), ""},
		"another type":  {storedJWT("RS256"), `private_key: key "api": the key for RS256 is of the type`},
		"no such key":   {config{"algorithm": "ES256", "private_key": "{{ get_key('none') }}", "claims": config{"iss": "me"}}, `private_key: key "none": the key is not found`},
		"any for a MAC": {storedJWT("HS256"), ""},
	} {
		err := w.connect("jwt", c.auth).CheckKeys(t.Context())
		w.OutError("the error of CheckKeys", err)
		testworld.WantError(t, name, err, c.words)
	}
	if err := w.connect("api_key", key("{{ get_secret('absent') }}")).CheckKeys(t.Context()); err != nil {
		t.Errorf("a connector that asks for no key: %v", err)
	}
	if signed, described := keys.counts(); signed != 0 || described != 4 {
		t.Errorf("CheckKeys signed %d times, and asked for %d keys", signed, described)
	}
}
