package host_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

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
		"data that is signed":   {func(env contract.Env, key string) string { return env.SignSealed("key", contract.PurposeMessage, key) }, host.StageSign, onlySigns},
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
				keys := &fakeKeys{}
				keys.add("api", "ES256")
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
	keys := &fakeKeys{}
	keys.add("api", "HS256")
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
	_, err := w.host.NewConnector(t.Context(), host.ConnectorConfig{
		Name: "tls", Origins: []string{apiOrigin}, Auth: host.Auth{Type: "custom"}, TLS: &host.TLS{CA: "{{ get_key('api') }}"},
	})
	if err == nil || !strings.Contains(err.Error(), "tls.ca, column 1: "+text) {
		t.Errorf("a certificate: %v", err)
	}
	if _, err := w.host.Template("{{ get_key('api') }}"); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("a template of an embedder: %v", err)
	}
}

// Explain asks no store. CheckKeys does, and signs nothing.
func TestExplainAndCheckKeys(t *testing.T) {
	keys := &fakeKeys{}
	keys.add("api", "ES256")
	w := newWorld(t, withKeys(keys), withGuest(storedGuest(func(env contract.Env) (string, error) {
		env.PublicKey("key", contract.PublicJWK)
		return header("X-Key", env.PublicKey("key", contract.PublicThumbprint)+" "+env.Encode(contract.FormatBase64, env.SignSealed("key", contract.PurposeMessage, "m"))+
			" "+env.Encode(contract.FormatHex, env.MAC("HS256", value(env, "secret"), "n"))), nil
	})))
	connector := w.connect("custom", config{"key": "{{ get_key('api') }}", "secret": "{{ get_key('api', 2) }}"})
	explained, err := connector.Explain(get(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
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
		if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
	if err := w.connect("api_key", key("{{ get_secret('absent') }}")).CheckKeys(t.Context()); err != nil {
		t.Errorf("a connector that asks for no key: %v", err)
	}
	if signed, described := keys.counts(); signed != 0 || described != 4 {
		t.Errorf("CheckKeys signed %d times, and asked for %d keys", signed, described)
	}
}
