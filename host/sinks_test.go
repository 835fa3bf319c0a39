package host_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
)

// The sinks of each sealed value that the host makes for a guest: threats.md 15a, the whole table.

// sinksOf has each sink and a function that puts a value there. The result is a valid mutation if the value may go
// there.
var sinksOf = []struct {
	sink string
	put  func(env abi.Env, v string) string
}{
	{abi.SinkHeader, func(_ abi.Env, v string) string { return header("X-Key", v) }},
	{abi.SinkQuery, func(_ abi.Env, v string) string { return query("key", v) }},
	{abi.SinkToken, func(env abi.Env, v string) string {
		out, _ := tokenRequest(env, value(env, "url"), abi.Pair{Name: "f", Value: v})
		return out
	}},
	{abi.SinkClaim, func(env abi.Env, v string) string {
		return header("X-Key", sign(env, abi.JWTRequest[map[string]any]{Key: "key", For: abi.ForHeader, Claims: map[string]any{"x": v}}))
	}},
	{abi.SinkSign, func(env abi.Env, v string) string {
		env.MAC(abi.MACSHA256, v, "data")
		return header("X-Key", value(env, "to_header"))
	}},
}

func TestSinksOfWhatTheHostMakes_threats_15a(t *testing.T) {
	reply := func(env abi.Env) (r abi.TokenReply) {
		document := env.TokenRequest([]byte(marshal(abi.TokenRequest{URL: value(env, "url"), Extra: []string{"refresh_token"}})))
		if err := json.Unmarshal(document, &r); err != nil {
			panic("a test's reply: " + err.Error())
		}
		return r
	}
	field := func(name string) func(abi.Env) string { return func(env abi.Env) string { return value(env, name) } }
	secret := func(name string) func(abi.Env) string { return func(env abi.Env) string { return env.SecretGet(name) } }
	all := []string{abi.SinkHeader, abi.SinkQuery, abi.SinkToken, abi.SinkClaim, abi.SinkSign}
	for name, c := range map[string]struct {
		make  func(abi.Env) string
		sinks []string
	}{
		"a field with all sinks":           {field("everywhere"), all},
		"a field with none":                {field("nowhere"), nil},
		"an access token":                  {func(env abi.Env) string { return reply(env).AccessToken }, []string{abi.SinkHeader, abi.SinkQuery}},
		"the scope of a token":             {func(env abi.Env) string { return reply(env).Scope }, []string{abi.SinkHeader, abi.SinkQuery, abi.SinkToken}},
		"what else a token endpoint gives": {func(env abi.Env) string { return reply(env).Extra["refresh_token"] }, []string{abi.SinkHeader, abi.SinkQuery, abi.SinkToken}},
		"a MAC": {func(env abi.Env) string {
			return env.Encode(abi.FormatHex, env.MAC(abi.MACSHA256, value(env, "mac"), "data"))
		}, []string{abi.SinkQuery, abi.SinkSign}},
		"what is encoded": {func(env abi.Env) string { return env.Encode(abi.FormatHex, "a"+value(env, "mac")) }, []string{abi.SinkQuery, abi.SinkSign}},
		"a JWT for the API": {func(env abi.Env) string {
			return sign(env, abi.JWTRequest[map[string]any]{Key: "key", For: abi.ForHeader})
		}, []string{abi.SinkHeader}},
		"a JWT for the token endpoint": {func(env abi.Env) string {
			return sign(env, abi.JWTRequest[map[string]any]{Key: "key", For: abi.ForToken})
		}, []string{abi.SinkToken}},
		"a secret, by name":                     {secret("s"), all},
		"the secret of an enumeration, by name": {secret("enum"), nil},
		"the secret of an integer, by name":     {secret("integer"), nil},
		"the secret of a boolean, by name":      {secret("boolean"), nil},
		"what is secret in the request": {func(env abi.Env) string {
			_, rest, _ := strings.Cut(string(env.Input()), abi.SealedPrefix)
			return abi.SealedPrefix + rest[:abi.SealedLength]
		}, []string{abi.SinkHeader, abi.SinkQuery}},
	} {
		for _, place := range sinksOf {
			t.Run(name+"/"+place.sink, func(t *testing.T) {
				g := &guest{about: abi.Description{Uses: abi.Groups, Fields: []abi.Field{
					sealedField("everywhere", all...), sealedField("nowhere"), sealedField("to_header", abi.SinkHeader), sealedField("mac", abi.SinkQuery, abi.SinkSign),
					{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm"},
					{Name: "algorithm", Kind: abi.KindString, Enum: []string{"HS256"}, Default: "HS256"},
					{Name: "enum", Kind: abi.KindString, Enum: []string{"one", "two"}, Sinks: all},
					{Name: "integer", Kind: abi.KindInteger, Sinks: all},
					{Name: "boolean", Kind: abi.KindBoolean, Sinks: all},
					{Name: "url", Kind: abi.KindURL, Sinks: []string{abi.SinkToken}},
				}}, authenticate: func(env abi.Env) (string, error) { return place.put(env, c.make(env)), nil }}
				w := newWorld(t, withoutBuiltIns, withGuest(g))
				w.login.Answer(respond(http.StatusOK, `{"access_token":"an-access-token","expires_in":60,"scope":"a-scope-of-it","refresh_token":"a-refresh-token"}`))
				for secret, value := range map[string]string{"enum": "one", "integer": "12345678", "boolean": "true"} {
					w.setSecret(secret, value)
				}
				for _, name := range []string{"s", "key"} {
					w.canary(name)
				}
				connector := w.connect("custom", config{
					"everywhere": "{{ get_secret('s') }}", "nowhere": "{{ get_secret('s') }}", "to_header": "{{ get_secret('s') }}", "mac": "{{ get_secret('s') }}",
					"key": "{{ get_secret('key') }}", "url": tokenURL,
					"enum": "{{ get_secret('enum') }}", "integer": "{{ get_secret('integer') }}", "boolean": "{{ get_secret('boolean') }}",
				})
				r := get(t.Context())
				if name == "what is secret in the request" {
					r.Header.Set("X-Platform", w.secrets["s"])
				}
				_, err := w.try(connector, r)
				if allowed := err == nil; allowed != slices.Contains(c.sinks, place.sink) {
					t.Errorf("allowed: %t, %v", allowed, err)
				}
			})
		}
	}
}

// threats.md 15a: a plugin cannot get the registered members of a token answer as extras, so it cannot change their
// sinks.
func TestRegisteredMembersAreNoExtras_threats_15a(t *testing.T) {
	known := []string{"access_token", "token_type", "expires_in", "scope", "error"}
	var extra map[string]string
	w := misusedWorld(t, func(env abi.Env) (string, error) {
		var r abi.TokenReply
		err := json.Unmarshal(env.TokenRequest([]byte(marshal(abi.TokenRequest{URL: value(env, "url"), Extra: append(known, "instance_url")}))), &r)
		extra = r.Extra
		return header("X-Key", value(env, "to_header")), err
	})
	w.login.Answer(respond(http.StatusOK, `{"access_token":"an-access-token","token_type":"bearer","expires_in":"60","scope":"a b","error":"none","instance_url":"https://x.test"}`))
	w.get(w.connect("custom", misused))
	if len(extra) != 1 || extra["instance_url"] == "" {
		t.Errorf("%d extras, want instance_url alone", len(extra))
	}
}
