//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package host_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// The sinks of each sealed value that the host makes for a guest: threats.md 15a, 84 and 97, the whole table.

// places has each place for a sealed value, its sink, and a function that puts a value there. The result is a valid mutation
// if the value may go there.
var places = []struct {
	name, sink string
	put        func(env contract.Env, v string) string
}{
	{"a header", contract.SinkHeader, func(_ contract.Env, v string) string { return header("X-Key", v) }},
	{"a cookie", contract.SinkHeader, func(_ contract.Env, v string) string {
		return marshal(contract.Mutation{Cookies: []abi.Pair{{Name: "c", Value: v}}})
	}},
	{"the query", contract.SinkQuery, func(_ contract.Env, v string) string { return query("key", v) }},
	{"the path", contract.SinkPath, func(_ contract.Env, v string) string {
		return marshal(contract.Mutation{Path: []abi.Pair{{Name: "things", Value: v}}})
	}},
	{"the form", contract.SinkBody, func(_ contract.Env, v string) string {
		return marshal(contract.Mutation{Form: []abi.Pair{{Name: "key", Value: v}}})
	}},
	{"the URL", contract.SinkURL, func(env contract.Env, v string) string {
		return marshal(contract.Mutation{URL: v, Headers: []abi.Pair{{Name: "X-Key", Value: value(env, "to_header")}}})
	}},
	{"the form of a token request", contract.SinkToken, func(env contract.Env, v string) string {
		out, _ := tokenRequest(env, value(env, "url"), abi.Pair{Name: "f", Value: v})
		return out
	}},
	{"the path of an exchange", contract.SinkToken, func(env contract.Env, v string) string {
		return afterExchange(env, contract.Exchange{Path: []string{"a" + v}})
	}},
	{"the query of an exchange", contract.SinkToken, func(env contract.Env, v string) string {
		return afterExchange(env, contract.Exchange{Query: []abi.Pair{{Name: "q", Value: v}}})
	}},
	{"a header of an exchange", contract.SinkToken, func(env contract.Env, v string) string {
		return afterExchange(env, contract.Exchange{Headers: []abi.Pair{{Name: "X-H", Value: v}}})
	}},
	{"the JSON of an exchange", contract.SinkToken, func(env contract.Env, v string) string {
		return afterExchange(env, contract.Exchange{JSON: map[string]any{"a": []any{1, v}}})
	}},
	{"the form of an exchange", contract.SinkToken, func(env contract.Env, v string) string {
		return afterExchange(env, contract.Exchange{Form: []abi.Pair{{Name: "f", Value: v}}})
	}},
	{"the header of a JWT", contract.SinkClaim, func(env contract.Env, v string) string {
		return header("X-Key", sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader, Header: map[string]any{"x": v}}))
	}},
	{"a claim", contract.SinkClaim, func(env contract.Env, v string) string {
		return header("X-Key", sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader, Claims: map[string]any{"x": v}}))
	}},
	{"the key of a MAC", contract.SinkSign, func(env contract.Env, v string) string {
		env.MAC(contract.MACSHA256, v, "data")
		return header("X-Key", value(env, "to_header"))
	}},
	{"the data of a MAC", contract.SinkDigest, func(env contract.Env, v string) string {
		env.MAC(contract.MACSHA256, value(env, "mac"), "data"+v)
		return header("X-Key", value(env, "to_header"))
	}},
	{"the data of a digest", contract.SinkDigest, func(env contract.Env, v string) string {
		env.Digest(contract.DigestMD5, "data"+v)
		return header("X-Key", value(env, "to_header"))
	}},
	{"a text of the request that is signed", contract.SinkDigest, func(env contract.Env, v string) string {
		env.MAC(contract.MACSHA256, value(env, "mac"), textWith(env, "{method} {x}", v))
		return header("X-Key", value(env, "to_header"))
	}},
	{"a header of the request that is signed", contract.SinkDigest, func(env contract.Env, v string) string {
		text := env.Compose("{headers:*}", []byte(marshal(contract.Composition{Headers: []abi.Pair{{Name: "X-Part", Value: v}}})))
		env.MAC(contract.MACSHA256, value(env, "mac"), "data: "+text)
		return header("X-Key", value(env, "to_header"))
	}},
	{"the header of a JWS", contract.SinkClaim, func(env contract.Env, v string) string {
		signJWS(env, contract.JWSRequest[config]{Header: config{"x": []any{v}}})
		return header("X-Key", value(env, "to_header"))
	}},
	{"the payload of a JWS", contract.SinkDigest, func(env contract.Env, v string) string {
		signJWS(env, contract.JWSRequest[config]{Payload: "data: " + v})
		return header("X-Key", value(env, "to_header"))
	}},
	{"the data of a signature", contract.SinkDigest, func(env contract.Env, v string) string {
		env.SignSealed("signer", contract.PurposeMessage, "data: "+v)
		return header("X-Key", value(env, "to_header"))
	}},
}

// textWith returns the text of a template, in which {x} stands for a value.
func textWith(env contract.Env, template, x string) string {
	return env.Compose(template, []byte(marshal(contract.Composition{Values: []abi.Pair{{Name: "x", Value: x}}})))
}

// afterExchange sends an exchange to the URL of the configuration, and returns a valid mutation.
func afterExchange(env contract.Env, e contract.Exchange) string {
	e.URL = value(env, "url")
	env.Exchange([]byte(marshal(e)))
	return header("X-Key", value(env, "to_header"))
}

func TestHostMadeSinks_threats_15a(t *testing.T) {
	reply := func(env contract.Env) contract.TokenReply {
		return tokenReply(env, contract.TokenRequest{URL: value(env, "url"), Extra: []string{"refresh_token"}})
	}
	field := func(name string) func(contract.Env) string {
		return func(env contract.Env) string { return value(env, name) }
	}
	secret := func(name string) func(contract.Env) string {
		return func(env contract.Env) string { return env.SecretGet(name) }
	}
	answer := func(env contract.Env, name string) string {
		return exchange(env, contract.Exchange{URL: value(env, "url")}).Answers[name]
	}
	hex := func(env contract.Env, v string) string { return env.Encode(contract.FormatHex, v) }
	all, jwsKey := contract.Sinks, privateKey(t, "ES256")
	first := &guest{about: abi.Description{Type: "first", Fields: []abi.Field{sealedField("to_header", contract.SinkHeader)}}, authenticate: func(env contract.Env) (string, error) {
		return header("X-First", value(env, "to_header")), nil
	}}
	for name, made := range map[string]struct {
		make  func(contract.Env) string
		sinks []string
	}{
		"a field with all sinks":                         {field("everywhere"), all},
		"the user's token, whatever sinks its field has": {field("user_token"), []string{contract.SinkToken}},
		"the user's token, encoded":                      {func(env contract.Env) string { return hex(env, "a"+value(env, "user_token")) }, []string{contract.SinkToken}},
		"the user's token beside a secret": {func(env contract.Env) string {
			return hex(env, value(env, "user_token")+value(env, "everywhere"))
		}, []string{contract.SinkToken}},
		"an identity's token, whatever sinks its field has": {field("identity"), []string{contract.SinkToken}},
		"an identity's token, composed":                     {func(env contract.Env) string { return textWith(env, "a{x|base64}", value(env, "identity")) }, []string{contract.SinkToken}},
		"what an earlier authentication has put in":         {func(env contract.Env) string { return env.Compose("{header:x-first}", nil) }, []string{contract.SinkDigest}},
		"what an earlier one has put in, signed": {func(env contract.Env) string {
			return hex(env, env.MAC(contract.MACSHA256, value(env, "mac"), env.Compose("{headers:*}", nil)))
		}, []string{contract.SinkQuery}},
		"what an earlier one has put in, hashed": {func(env contract.Env) string { return env.Compose("{header:x-first|sha256|hex}", nil) }, []string{contract.SinkHeader, contract.SinkQuery, contract.SinkDigest}},
		"a text that is composed":                {func(env contract.Env) string { return textWith(env, "{x}", value(env, "everywhere")) }, all},
		"a text that is composed of two":         {func(env contract.Env) string { return textWith(env, "a{x}{config:mac}", value(env, "everywhere")) }, []string{contract.SinkQuery, contract.SinkSign}},
		"a digest that is composed":              {func(env contract.Env) string { return textWith(env, "{x|sha256|hex}", value(env, "hashed")) }, []string{contract.SinkHeader, contract.SinkPath}},
		"a signature by a store of keys": {func(env contract.Env) string {
			return hex(env, env.SignSealed("stored", contract.PurposeMessage, "data"))
		}, []string{contract.SinkQuery}},
		"a number of counter, which is no credential": {func(env contract.Env) string { return fmt.Sprint(env.Counter(1)) }, []string{contract.SinkToken, contract.SinkClaim, contract.SinkDigest}},
		"a field with none":                           {field("nowhere"), nil},
		"what is secret in a text":                    {field("text"), []string{contract.SinkQuery, contract.SinkClaim}},
		"a key, which signs by its name":              {field("key"), nil},
		"an access token":                             {func(env contract.Env) string { return reply(env).AccessToken }, []string{contract.SinkHeader, contract.SinkQuery}},
		"the scope of a token":                        {func(env contract.Env) string { return reply(env).Scope }, []string{contract.SinkHeader, contract.SinkQuery, contract.SinkToken}},
		"what else a token endpoint gives":            {func(env contract.Env) string { return reply(env).Extra["refresh_token"] }, []string{contract.SinkHeader, contract.SinkQuery, contract.SinkToken}},
		"a MAC": {func(env contract.Env) string {
			return hex(env, env.MAC(contract.MACSHA256, value(env, "mac"), "data"))
		}, []string{contract.SinkQuery, contract.SinkSign}},
		"a MAC with derived sinks": {func(env contract.Env) string {
			return hex(env, env.MAC(contract.MACSHA1, value(env, "narrow"), "data"))
		}, []string{contract.SinkHeader, contract.SinkSign}},
		"a key with derived sinks": {field("narrow"), []string{contract.SinkSign}},
		"a MAC of a MAC": {func(env contract.Env) string {
			return hex(env, env.MAC(contract.MACSHA1, env.MAC(contract.MACSHA1, value(env, "narrow"), "1"), "2"))
		}, []string{contract.SinkHeader, contract.SinkSign}},
		"a MAC over a secret": {func(env contract.Env) string {
			return hex(env, env.MAC(contract.MACSHA1, value(env, "narrow"), value(env, "hashed")))
		}, []string{contract.SinkHeader}},
		"a digest": {func(env contract.Env) string { return hex(env, env.Digest(contract.DigestSHA1, value(env, "hashed"))) }, []string{contract.SinkHeader, contract.SinkPath}},
		"a digest of two": {func(env contract.Env) string {
			return hex(env, env.Digest(contract.DigestSHA1, value(env, "hashed")+value(env, "everywhere")))
		}, []string{contract.SinkHeader, contract.SinkPath}},
		"a signature": {func(env contract.Env) string {
			return hex(env, env.SignSealed("signer", contract.PurposeMessage, "data"))
		}, []string{contract.SinkQuery}},
		"what is decoded": {func(env contract.Env) string {
			return hex(env, env.Decode(contract.FormatHex, hex(env, value(env, "mac"))))
		}, []string{contract.SinkQuery, contract.SinkSign}},
		"an answer of an exchange": {func(env contract.Env) string { return answer(env, "session") }, []string{contract.SinkHeader, contract.SinkToken}},
		"a digest of an answer": {func(env contract.Env) string {
			return hex(env, env.Digest(contract.DigestSHA256, answer(env, "nonce")))
		}, []string{contract.SinkClaim}},
		"what was kept of an answer of the API": {func(env contract.Env) string { return challengeOf(env).Answers["nonce"] }, []string{contract.SinkQuery, contract.SinkDigest}},
		"the body":                              {func(env contract.Env) string { return env.Body() }, []string{contract.SinkDigest}},
		"what is encoded":                       {func(env contract.Env) string { return hex(env, "a"+value(env, "mac")) }, []string{contract.SinkQuery, contract.SinkSign}},
		"a JWT for the API": {func(env contract.Env) string {
			return sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader})
		}, []string{contract.SinkHeader}},
		"a JWT for the token endpoint": {func(env contract.Env) string {
			return sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForToken})
		}, []string{contract.SinkToken}},
		"a JWS": {func(env contract.Env) string { return signJWS(env, contract.JWSRequest[config]{}) }, []string{contract.SinkQuery}},
		"a JWS of a secret": {func(env contract.Env) string {
			return signJWS(env, contract.JWSRequest[config]{Payload: value(env, "hashed"), Header: config{"x": value(env, "text")}})
		}, nil},
		"a secret, by name":                     {secret("s"), all},
		"the secret of an enumeration, by name": {secret("enum"), nil},
		"the secret of an integer, by name":     {secret("integer"), nil},
		"the secret of a boolean, by name":      {secret("boolean"), nil},
		"what is secret in the request": {func(env contract.Env) string {
			_, rest, _ := strings.Cut(string(env.Input()), contract.SealedPrefix)
			return contract.SealedPrefix + rest[:contract.SealedLength]
		}, []string{contract.SinkHeader, contract.SinkQuery, contract.SinkDigest, contract.SinkClaim}},
	} {
		for _, place := range places {
			t.Run(name+"/"+place.name, func(t *testing.T) {
				ready := false
				g := &guest{about: abi.Description{Uses: contract.Groups, Answers: []abi.Answer{
					{Name: "session", From: "cookie:S", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader, contract.SinkToken}},
					{Name: "nonce", From: "header:X-Nonce", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkDigest}, Derived: []string{contract.SinkClaim}},
				}, Challenge: &abi.Challenge{Keep: 60, Answers: []abi.Answer{
					{Name: "nonce", From: "header:X-Nonce", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkQuery, contract.SinkDigest}, Keep: true},
				}}, Fields: []abi.Field{
					{Name: "narrow", Kind: abi.KindString, Sealed: true, Sinks: []string{contract.SinkSign}, Derived: []string{contract.SinkHeader, contract.SinkSign}},
					{Name: "hashed", Kind: abi.KindString, Sealed: true, Sinks: []string{contract.SinkDigest}, Derived: []string{contract.SinkHeader, contract.SinkPath}},
					{Name: "signer", Kind: abi.KindKey, AlgorithmField: "algorithm", Purposes: []string{contract.PurposeMessage}, Derived: []string{contract.SinkQuery}},
					{Name: "stored", Kind: abi.KindKey, AlgorithmField: "jws_algorithm", Purposes: []string{contract.PurposeMessage}, Derived: []string{contract.SinkQuery}},
					{Name: "jws", Kind: abi.KindKey, AlgorithmField: "jws_algorithm", Purposes: []string{contract.PurposeJWS}, Derived: []string{contract.SinkQuery}},
					{Name: "jws_algorithm", Kind: abi.KindString, Enum: []string{"ES256"}, Default: "ES256"},
					sealedField("everywhere", all...), sealedField("nowhere"), sealedField("user_token", all...), sealedField("identity", all...), sealedField("to_header", contract.SinkHeader), sealedField("mac", contract.SinkQuery, contract.SinkSign),
					{Name: "text", Kind: abi.KindString, Sinks: []string{contract.SinkQuery, contract.SinkClaim}},
					{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm"},
					{Name: "algorithm", Kind: abi.KindString, Enum: []string{"HS256"}, Default: "HS256"},
					{Name: "enum", Kind: abi.KindString, Enum: []string{"one", "two"}, Sinks: all},
					{Name: "integer", Kind: abi.KindInteger, Sinks: all},
					{Name: "boolean", Kind: abi.KindBoolean, Sinks: all},
					{Name: "url", Kind: abi.KindURL, Sinks: []string{contract.SinkToken}},
				}}, authenticate: func(env contract.Env) (string, error) {
					if !ready {
						return header("X-Key", value(env, "to_header")), nil
					}
					return place.put(env, made.make(env)), nil
				}}
				pod := &issuers{subject: "system:orders", hosts: map[string][]string{"login": {"login.test"}}}
				w := newWorld(t, withoutBuiltIns, withGuest(g), withGuest(first), listed("login.test"), func(c *host.Config) { c.Keys, c.Identities = keysWith("ES256"), pod })
				pod.hide = w.Hide
				w.login.Answer(respond(http.StatusOK, `{"access_token":"an-access-token","expires_in":60,"scope":"a-scope-of-it","refresh_token":"a-refresh-token"}`,
					"Set-Cookie", "S=the-session", "X-Nonce", "the-nonce-of-login"))
				w.api.Answer(respond(http.StatusOK, "", "X-Nonce", "the-nonce-of-the-api"))
				for secret, value := range map[string]string{"enum": "one", "integer": "12345678", "boolean": "true"} {
					w.setSecret(secret, value)
				}
				for _, name := range []string{"s", "key"} {
					w.canary(name)
				}
				w.setSecret("jws", jwsKey)
				c := config{
					"narrow": "{{ get_secret('s') }}", "hashed": "{{ get_secret('s') }}", "signer": "{{ get_secret('key') }}",
					"everywhere": "{{ get_secret('s') }}", "nowhere": "{{ get_secret('s') }}", "to_header": "{{ get_secret('s') }}", "mac": "{{ get_secret('s') }}",
					"key": "{{ get_secret('key') }}", "stored": "{{ get_key('api') }}", "jws": "{{ get_secret('jws') }}", "url": tokenURL, "text": "a {{ get_secret('s') }}",
					"enum": "{{ get_secret('enum') }}", "integer": "{{ get_secret('integer') }}", "boolean": "{{ get_secret('boolean') }}",
				}
				if strings.HasPrefix(name, "the user's token") {
					c["user_token"] = "{{ user.token }}"
				}
				if strings.HasPrefix(name, "an identity's token") {
					c["identity"] = "{{ identity('pod', 'login') }}"
				}
				auths := []host.Auth{{Type: "custom", Config: c}}
				if strings.HasPrefix(name, "what an earlier") {
					auths = []host.Auth{{Type: "first", Config: config{"to_header": "{{ get_secret('s') }}"}}, auths[0]}
				}
				connector := w.open(host.ConnectorConfig{Auth: auths})
				ctx := host.WithUser(t.Context(), host.User{Token: w.Secret("the user's token")})
				w.send(connector, get(ctx))
				ready = true
				r := get(ctx)
				r.Method = http.MethodPost
				if name == "what is secret in the request" {
					r.Header.Set("X-Platform", w.secrets["s"])
				}
				_, err := w.try(connector, r)
				want := slices.Contains(made.sinks, place.sink)
				if allowed := err == nil || strings.Contains(err.Error(), "the mutation's url is no https URL"); allowed != want {
					t.Errorf("allowed: %t, %v", allowed, err)
				}
			})
		}
	}
}

// threats.md 15a: a plugin cannot get the registered members of a token answer as extras, so it cannot change their
// sinks.
func TestRegisteredMembersAsExtras_threats_15a(t *testing.T) {
	known := []string{"access_token", "token_type", "expires_in", "scope", "error"}
	var extra map[string]string
	w, c := misuser(t, sendsKeyAfter(func(env contract.Env) {
		extra = tokenReply(env, contract.TokenRequest{URL: value(env, "url"), Extra: append(known, "instance_url")}).Extra
	}))
	w.login.Answer(respond(http.StatusOK, `{"access_token":"an-access-token","token_type":"bearer","expires_in":"60","scope":"a b","error":"none","instance_url":"https://x.test"}`))
	w.get(c)
	if len(extra) != 1 || extra["instance_url"] == "" {
		t.Errorf("%d extras, want instance_url alone", len(extra))
	}
}
