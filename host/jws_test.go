package host_test

import (
	"encoding/base64"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/jws"
)

// jwsGuest returns a guest that signs r with its field key, which is for JWS, and has another key for JWTs.
func jwsGuest(r contract.JWSRequest[config]) *guest {
	return &guest{
		about: abi.Description{Uses: contract.Groups, Fields: []abi.Field{
			{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm", Purposes: []string{contract.PurposeJWS}, Derived: []string{contract.SinkHeader}},
			{Name: "other", Kind: abi.KindKey, AlgorithmField: "algorithm"},
			{Name: "algorithm", Kind: abi.KindString, Enum: algorithms, Default: "ES256"},
			{Name: "hashed", Kind: abi.KindString, Sealed: true, Sinks: []string{contract.SinkDigest}, Derived: []string{contract.SinkHeader}},
			sealedField("to_claim", contract.SinkClaim), sealedField("to_query", contract.SinkQuery),
		}},
		authenticate: func(env contract.Env) (string, error) {
			r := r
			put := func(text string) string {
				for _, field := range []string{"hashed", "to_claim", "to_query"} {
					if strings.Contains(text, "<"+field+">") {
						text = strings.ReplaceAll(text, "<"+field+">", value(env, field))
					}
				}
				return strings.ReplaceAll(text, "<body>", env.Body())
			}
			r.Key, r.Payload = "key", put(r.Payload)
			for name, text := range r.Header {
				if text, ok := text.(string); ok {
					r.Header = with(r.Header, name, put(text))
				}
			}
			return header("X-JWS", env.JWSSign([]byte(marshal(r)))), nil
		},
	}
}

// privateKey returns a new key for an algorithm, as a text.
func privateKey(t *testing.T, algorithm string) string {
	t.Helper()
	private, _ := keyFor(t, algorithm)
	return private
}

var jwsConfig = config{"key": "{{ get_secret('k') }}"}

// Two connectors with one key and two purposes are found by its name when a connector is loaded, in either order, and by its thumbprint when it is used
// (specification.md "a key for jws and something else").
// The connector with JWS is refused, and never the other one.
func TestSharedKeys_threats_427(t *testing.T) {
	jwtConfig := config{"private_key": "{{ get_secret('k') }}", "algorithm": "ES256", "claims": config{"sub": "ann"}}
	renamed := with(jwtConfig, "private_key", "{{ get_secret('same') }}")
	world := func(t *testing.T) *world {
		w := newWorld(t, withGuest(jwsGuest(contract.JWSRequest[config]{Payload: "<body>"})))
		private, _ := keyFor(t, "ES256")
		w.setSecret("k", private)
		w.setSecret("same", "\n"+strings.ReplaceAll(private, "\n", "\r\n")) // the same key in another form
		w.setSecret("own", privateKey(t, "ES256"))
		return w
	}
	const words = `secret "k" signs JWS and is a key of connector "jwt" too`
	t.Run("loaded behind it", func(t *testing.T) {
		w := world(t)
		w.get(w.connectAs("jwt", "jwt", jwtConfig))
		w.refuseConnector(host.ConnectorConfig{Name: "jws", Origins: []string{apiOrigin}, Auth: []host.Auth{{Type: "custom", Config: jwsConfig}}}, "auth.config.key", words)
		w.get(w.connectAs("jws", "custom", with(jwsConfig, "key", "{{ get_secret('own') }}")))
	})
	t.Run("loaded before it", func(t *testing.T) {
		w := world(t)
		signs := w.connectAs("jws", "custom", jwsConfig)
		w.get(signs)
		check(t, signs.CheckSharedKeys())
		issues := w.connectAs("jwt", "jwt", jwtConfig)
		if err := signs.CheckSharedKeys(); !errors.As(err, new(*host.ConfigError)) || !strings.Contains(err.Error(), words) {
			t.Errorf("err = %v, want %s", err, words)
		}
		check(t, issues.CheckSharedKeys())
		w.refuse(signs, get(t.Context()), host.StageSign, `is a key of connector "jwt" too`)
		w.get(issues)
	})
	t.Run("under another name", func(t *testing.T) {
		w := world(t)
		signs, issues := w.connectAs("jws", "custom", jwsConfig), w.connectAs("jwt", "jwt", renamed)
		w.get(signs)
		w.get(issues)
		w.refuse(signs, get(t.Context()), host.StageSign, `is a key of connector "jwt" too`)
		w.get(issues)
	})
	t.Run("in one connector", func(t *testing.T) {
		w := world(t)
		c := host.ConnectorConfig{Name: "jws", Origins: []string{apiOrigin}, Auth: []host.Auth{{Type: "custom", Config: with(jwsConfig, "other", "{{ get_secret('k') }}")}}}
		w.refuseConnector(c, "auth.config.key", `is a key of connector "jws" too`)
	})
	t.Run("in one list", func(t *testing.T) {
		w := world(t)
		signs, issues := host.Auth{Type: "custom", Config: jwsConfig}, host.Auth{Type: "jwt", Config: jwtConfig}
		for path, auth := range map[string][]host.Auth{"auth[0].config.key": {signs, issues}, "auth[1].config.key": {issues, signs}} {
			w.refuseConnector(host.ConnectorConfig{Name: "list", Origins: []string{apiOrigin}, Auth: auth}, path, `is a key of connector "list" too`)
		}
		w.get(w.connectAs("jws", "custom", jwsConfig)) // the other one is refused, so that it does not count
	})
	t.Run("two for JWS", func(t *testing.T) {
		w := world(t)
		w.get(w.connectAs("a", "custom", jwsConfig))
		w.get(w.connectAs("b", "custom", jwsConfig))
	})
	t.Run("by sign", func(t *testing.T) {
		g := jwsGuest(contract.JWSRequest[config]{})
		g.authenticate = func(env contract.Env) (string, error) { return string(env.Sign("key", "e30.e30")), nil }
		w := newWorld(t, withGuest(g, abi.GrantSignRaw))
		w.setSecret("k", privateKey(t, "ES256"))
		w.refuse(w.connect("custom", jwsConfig), get(t.Context()), host.StagePlugin, "which jws_sign alone uses")
	})
}

// A key of a store is known by its name and by its thumbprint too.
func TestSharedKeysOfAStore_threats_427(t *testing.T) {
	keys := keysWith("ES256")
	w := newWorld(t, withKeys(keys), withGuest(jwsGuest(contract.JWSRequest[config]{Payload: "<body>"})))
	inStore := config{"key": "{{ get_key('api') }}", "algorithm": "ES256"}
	signs := w.connectAs("jws", "custom", inStore)
	w.get(signs)
	keys.versions["copy"] = keys.versions["api"]
	jwtConfig := config{"private_key": "{{ get_key('copy') }}", "algorithm": "ES256", "claims": config{"sub": "ann"}}
	w.get(w.connectAs("jwt", "jwt", jwtConfig))
	w.refuse(signs, get(t.Context()), host.StageSign, `is a key of connector "jwt" too`)
	if err := signs.CheckKeys(t.Context()); err == nil || !strings.Contains(err.Error(), `is a key of connector "jwt" too`) {
		t.Errorf("err = %v, want the name of the other connector", err)
	}
	w.connectAs("third", "jwt", with(jwtConfig, "private_key", "{{ get_key('new') }}"))
	c := host.ConnectorConfig{Name: "b", Origins: []string{apiOrigin}, Auth: []host.Auth{{Type: "custom", Config: with(inStore, "key", "{{ get_key('new', 2) }}")}}}
	w.refuseConnector(c, "auth.config.key", `key "new" signs JWS and is a key of connector "third" too`)
}

// jws_sign refuses what would make a JWS something else, HMACs (specification.md "an HMAC in jws"), and sealed values where their sinks do
// not reach (threats.md 427).
func TestRefusedJWS(t *testing.T) {
	type request = contract.JWSRequest[config]
	for name, c := range map[string]struct {
		r         request
		algorithm string
		stage     host.Stage
		words     string // or "" if it is signed
	}{
		"an HMAC":                         {request{}, "HS256", host.StageSign, "signs no JWS with its algorithm"},
		"a JWT":                           {request{Header: config{"typ": "JWT"}}, "ES256", host.StageSign, `"typ" may only be JOSE`},
		"a sealed typ":                    {request{Header: config{"typ": "<to_claim>"}}, "ES256", host.StagePlugin, "only plain text"},
		"alg":                             {request{Header: config{"ALG": "none"}}, "ES256", host.StageSign, `"alg" may not be set`},
		"crit without a member":           {request{Crit: []string{"exp"}}, "ES256", host.StageSign, "no member of the header"},
		"a sealed header":                 {request{Header: config{"kid": "<to_claim>"}}, "ES256", "", ""},
		"a header out of reach":           {request{Header: config{"kid": "<to_query>"}}, "ES256", host.StagePlugin, "do not reach"},
		"a sealed payload":                {request{Payload: "<hashed><body>"}, "ES256", "", ""},
		"a payload out of reach":          {request{Payload: "<to_claim>"}, "ES256", host.StagePlugin, "do not reach"},
		"an attached body":                {request{Payload: "<body>", Attached: true}, "ES256", host.StagePlugin, "only plain text"},
		"an attached secret":              {request{Payload: "<hashed>", Attached: true}, "ES256", host.StagePlugin, "only plain text"},
		"an attached unencoded payload":   {request{Payload: "a", Attached: true, Unencoded: true}, "ES256", host.StagePlugin, "has to be encoded"},
		"a sealed number":                 {request{Header: config{"iat": "9<to_claim>"}, Integers: []string{"iat"}}, "ES256", "", ""},
		"a number of more than 64 bits":   {request{Header: config{"iat": strings.Repeat("9", 30)}, Integers: []string{"iat"}}, "ES256", host.StageSign, "more than 64 bits"},
		"a payload that is no text":       {request{Payload: "\x00\x01"}, "ES256", "", ""},
		"a body that may be read 8 times": {request{Payload: strings.Repeat("<body>", 9)}, "ES256", host.StageBody, "8 times"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withoutBuiltIns, withGuest(jwsGuest(c.r)))
			w.setSecret("k", privateKey(t, c.algorithm))
			w.canary("s")
			fields := config{"algorithm": c.algorithm, "hashed": "{{ get_secret('s') }}", "to_claim": "{{ get_secret('s') }}", "to_query": "{{ get_secret('s') }}"}
			maps.Copy(fields, jwsConfig)
			connector := w.connect("custom", fields)
			if c.words == "" {
				w.send(connector, postOf(t, strings.NewReader("a body")))
				return
			}
			w.refuse(connector, postOf(t, strings.NewReader("a body")), c.stage, c.words)
		})
	}
}

// Whatever body a caller sends, its JWS is no JWT of a key that JWTs are trusted of (threats.md 427).
func TestClaimsAsBody_threats_427(t *testing.T) {
	g := jwsGuest(contract.JWSRequest[config]{Payload: "<body>"})
	w := newWorld(t, withGuest(g))
	private, trusted := keyFor(t, "ES256")
	w.setSecret("trusted", private)
	own, public := keyFor(t, "ES256")
	w.setSecret("k", own)
	issuer := w.connectAs("jwt", "jwt", config{"private_key": "{{ get_secret('trusted') }}", "algorithm": "ES256", "claims": config{"sub": "ann"}})
	parse := func(token string) error {
		_, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return trusted, nil })
		return err
	}
	check(t, parse(strings.TrimPrefix(w.get(issuer).Header.Get("Authorization"), "Bearer ")))
	signs := w.connectAs("jws", "custom", with(jwsConfig, "algorithm", "ES256"))
	const claims = `{"iss":"me","sub":"admin","aud":"https://login.test","exp":4000000000}`
	for _, body := range []string{claims, " " + claims, base64.RawURLEncoding.EncodeToString([]byte(claims))} {
		parts := strings.Split(w.send(signs, postOf(t, strings.NewReader(body))).Header.Get("X-JWS"), ".")
		payload := base64.RawURLEncoding.EncodeToString([]byte(body))
		signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
		check(t, jws.Method("ES256").Verify(parts[0]+"."+payload, signature, public))
		for _, payload := range []string{payload, body} {
			if err := parse(parts[0] + "." + payload + "." + parts[2]); err == nil {
				t.Errorf("%s is a JWT", body)
			}
		}
	}
}

// A description with a key for JWS and something else is refused.
func TestPurposeOfJWS(t *testing.T) {
	g := jwsGuest(contract.JWSRequest[config]{})
	g.about.Fields[0].Purposes = []string{contract.PurposeJWS, contract.PurposeMessage}
	if err := loadError(t, g); err == nil || !strings.Contains(err.Error(), "a key with the purpose jws has no other") {
		t.Errorf("err = %v", err)
	}
}
