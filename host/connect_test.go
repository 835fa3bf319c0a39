package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

// The cases of specification.md "Connectors".

func TestDecision_Configuration_every_problem_at_once(t *testing.T) {
	w := newWorld(t)
	canary := w.canary("written out")
	for _, c := range []struct {
		name, authType string
		config         config
		want           []string // the path, and a part of the message
	}{
		{
			"unknown, missing, wrong type, bad enum", "oauth_jwt_bearer",
			config{
				"client_id": 7, "private_key": canary, "token_url": "http://login.test", "subjekt": canary,
				"audience": "{{ nope() }} {{ get_secret(1) }}", "token_ttl": "soon", "algorithm": "none",
				"additional_claims": "x", "jwt_headers": config{"alg": "none", "kid": "{{"},
			},
			[]string{
				"auth.config.client_id: is a number", "auth.config.token_url: is plain http", "auth.config.subject: is missing",
				`auth.config.subjekt: is not a field of auth type oauth_jwt_bearer; did you mean "subject"?`,
				`auth.config.audience: unknown function "nope"`, "auth.config.audience: the name must be a literal",
				"auth.config.token_ttl: is not a decimal integer", "auth.config.algorithm: is none of HS256",
				"auth.config.additional_claims: is text, an object is wanted", "auth.config.jwt_headers.kid: ",
				"auth.config.jwt_headers.alg: is fixed",
			},
		},
		{
			"everything missing", "api_key", nil,
			[]string{"auth.config.key: is missing", "auth.config.value: is missing", "auth.config.in: is missing"},
		},
		{"null", "api_key", config{"key": nil, "value": "v", "in": "header"}, []string{"auth.config.key: is null"}},
		{"wrong types", "api_key", config{"key": []any{}, "value": true, "in": config{}}, []string{
			"auth.config.key: is a list", "auth.config.value: is true or false", "auth.config.in: is an object",
		}},
		{"bad enum", "api_key", with(key("v"), "in", "Header"), []string{"auth.config.in: is none of header, query"}},
		{"a built-in type that the host does not have", "aws_sigv4", nil, []string{`auth.type: this host does not have the auth type "aws_sigv4": add its module, from package plugins, to Config.Plugins`}},
		{"unknown type", "api_kei", nil, []string{`auth.type: there is no auth type "api_kei"; did you mean "api_key"?`}},
		{"OAuth 2.0 as a whole", "OAuth2", nil, []string{`auth.type: there is no auth type "OAuth2", since OAuth 2.0 has one for each way to a token: oauth_client_credentials with`}},
		{"a list of scopes", "oauth_client_credentials", config{"client_id": "a", "client_secret": "b", "token_url": "https://login.test", "scope": []any{"a", "b"}}, []string{"auth.config.scope: is a list, text is wanted: Scopes to request, separated by spaces"}},
		{"the path of a key", "jwt", config{"private_key": "./key.pem", "claims": config{"sub": "a"}}, []string{"auth.config.private_key: is the path of a file: keep the text"}},
		{"the path of a secret", "api_key", key("/run/secrets/crm"), []string{"auth.config.value: is the path of a file"}},
		{"no type", "", nil, []string{"auth.type: there is no auth type"}},
		{"a literal that is blank", "api_key", key(" "), []string{"auth.config.value: is empty"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := w.problems(c.authType, c.config)
			for _, want := range c.want {
				if !slices.ContainsFunc(got, func(p string) bool { return strings.HasPrefix(p, want) }) {
					t.Errorf("there is no problem %q", want)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("%d problems, want %d:\n%s", len(got), len(c.want), strings.Join(got, "\n"))
			}
		})
	}
}

// specification.md 1.1.
func TestDecision_Configuration_paths_name_the_connector(t *testing.T) {
	w := newWorld(t)
	_, err := w.host.NewConnector(t.Context(), host.ConnectorConfig{
		Name: "crm", Auth: []host.Auth{{Type: "oauth_client_credentials", Config: with(oauth("s"), "token_url", "ftp://x")}},
	})
	w.OutError("Connect", err)
	if wrong, ok := errors.AsType[*host.ConfigError](err); !ok || len(wrong.Problems) != 2 {
		t.Fatalf("the error is %v", err)
	}
	for _, line := range []string{"connectors.crm.origins: is empty", "connectors.crm.auth.config.token_url: is not an https URL"} {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("the error has no line %q:\n%v", line, err)
		}
	}
	_, err = w.host.NewConnector(t.Context(), host.ConnectorConfig{Name: "a\nb", Origins: []string{apiOrigin}, Auth: []host.Auth{{Type: "none"}}})
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a name with a line break results in %q", err)
	}
}

func TestDecision_Configuration_strict_JSON(t *testing.T) {
	for name, document := range map[string]string{
		"unknown member":     `{"type":"none","extra":1}`,
		"member twice":       `{"type":"none","type":"api_key"}`,
		"member twice below": `{"type":"jwt","config":{"claims":{"sub":"a","sub":"b"}}}`,
		"another case":       `{"Type":"none"}`,
		"wrong type":         `{"type":1}`,
		"not an object":      `[]`,
	} {
		var a host.Auth
		if err := json.Unmarshal([]byte(document), &a); err == nil {
			t.Errorf("%s: %s is decoded as %+v", name, document, a)
		}
	}
	var a host.Auth
	check(t, json.Unmarshal([]byte(`{"type":"jwt","config":{"n":9007199254740993}}`), &a))
	if a.Config["n"] != json.Number("9007199254740993") {
		t.Errorf("a number became %#v", a.Config["n"])
	}
}

// specification.md 1.4: the alias is replaced by the type's name, and checked alike. The tests of the plugin show what it sends.
func TestDecision_Configuration_type_apikey(t *testing.T) {
	w := newWorld(t)
	c := w.connect("apikey", key("{{ get_secret('s') }}"))
	if is, n := c.Config().Auth.Type(), w.logged("deprecated alias"); is != "api_key" || n != 1 {
		t.Errorf("the connector's type is %q, want api_key, and there are %d warnings", is, n)
	}
	bad := with(key("v"), "in", "body", "extra", 1)
	if alias, name := w.problems("apikey", bad), w.problems("api_key", bad); len(alias) != 2 || !slices.Equal(alias, name) {
		t.Errorf("the alias has the problems %q, the type %q", alias, name)
	}
}

// The tests of the plugin oauth_jwt_bearer show integers of templates.
func TestDecision_Configuration_integers(t *testing.T) {
	w := newWorld(t)
	problems := func(ttl any) []string {
		return w.problems("oauth_jwt_bearer", with(bearer("{{ get_secret('k') }}"), "token_ttl", ttl))
	}
	for _, good := range []any{json.Number("90"), 90, 90.0, "90", "{{ get_variable('ttl') }}", uint32(90)} {
		if got := problems(good); got != nil {
			t.Errorf("%T %v: the problems are %q", good, good, got)
		}
	}
	for _, bad := range []any{"+90", 0, -1, 1.5, json.Number("1.5"), json.Number("1e3"), true, "soon", json.Number("99999999999999999999")} {
		if got := problems(bad); len(got) != 1 || !strings.HasPrefix(got[0], "auth.config.token_ttl: ") {
			t.Errorf("%T %v: the problems are %q", bad, bad, got)
		}
	}
}

// An origin has the default port of its scheme, whether or not it is written, and the host that net/http dials.
func TestEqualOrigins(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Egress.AllowHTTP = true })
	for _, c := range []struct {
		origin, url string
		sent        bool
	}{
		{"https://api.test", "https://api.test:443/v1", true},
		{"https://api.test:443", "https://api.test/v1", true},
		{"http://api.test", "http://api.test:80/v1", true},
		{"http://api.test:80", "http://api.test/v1", true},
		{"http://api.test", "http://api.test:443/v1", false},
		{"http://api.test:443", "https://api.test/v1", false},
		{"https://bücher.test", "https://xn--bcher-kva.test/v1", true},
		{"https://api\x80.test", "https://xn--api-7t7s.test/v1", true}, // net/http takes the byte for U+FFFD
	} {
		connector := w.open(host.ConnectorConfig{
			Origins: []string{c.origin}, Auth: []host.Auth{{Type: "api_key", Config: key("{{ get_secret('s') }}")}},
		})
		if c.sent {
			w.send(connector, request(t, c.url))
		} else {
			w.refuse(connector, request(t, c.url), host.StageOrigin)
		}
	}
}

func TestDecision_Configuration_token_url(t *testing.T) {
	w := newWorld(t)
	dev := newWorld(t, func(c *host.Config) { c.Egress.AllowHTTP = true })
	for url, word := range map[string]string{
		"http://login.test/token":       "plain http",
		"https://me:pw@login.test":      "user info",
		"https://login.test/t#f":        "fragment",
		"https://login.test/t#":         "fragment",
		"ftp://login.test":              "not an https URL",
		"login.test/token":              "not an https URL",
		"https:///token":                "no host",
		"https://[::1":                  "not a URL",
		"mailto:someone@login.test":     "not a URL",
		"https://user@login.test/token": "user info",
	} {
		if got := w.problems("oauth_client_credentials", with(oauth("s"), "token_url", url)); len(got) != 1 || !strings.Contains(got[0], word) {
			t.Errorf("%s has the problems %q, want %q", url, got, word)
		}
	}
	dev.get(dev.connect("oauth_client_credentials", with(oauth("s"), "token_url", "http://login.test/token")))
	w.refuseConnector(host.ConnectorConfig{Origins: []string{"http://api.test"}, Auth: []host.Auth{{Type: "none"}}}, "origins[0]", "plain http")
	if dev.login.Last().Method != http.MethodPost {
		t.Error("the token request is no POST")
	}
}

// The cost of a check grows no faster than the configuration, and a configuration that is too large has one problem
// (threats.md 55).
func TestCostOfAConfiguration(t *testing.T) {
	w := newWorld(t)
	claims := func(n int, value func(i int) any) map[string]any {
		all := map[string]any{}
		for i := range n {
			all[fmt.Sprintf("claim%d", i)] = value(i)
		}
		return map[string]any{"private_key": "{{ get_secret('k') }}", "claims": all}
	}
	tests := map[string]func(n int) map[string]any{
		"secrets": func(n int) map[string]any {
			return claims(n/10, func(i int) any { return fmt.Sprintf("{{ get_secret('s%d') }}", i) })
		},
		"variables in one text": func(n int) map[string]any {
			return claims(n/250/20, func(i int) any {
				return strings.Repeat(fmt.Sprintf("{{ get_variable('v%d') }}", i), 250)
			})
		},
		"expressions": func(n int) map[string]any {
			return claims(1+n/20_000, func(int) any { return strings.Repeat("{{1}}", 256) })
		},
		"unknown fields": func(n int) map[string]any {
			all := map[string]any{}
			for i := range n {
				all[fmt.Sprintf("clams%d", i)] = "x"
			}
			return all
		},
		"bad expressions": func(n int) map[string]any {
			return claims(n/10, func(int) any { return "{{ nope( }}" })
		},
		"a long name around many": func(n int) map[string]any {
			return claims(1, func(int) any {
				return map[string]any{strings.Repeat("x", 20*n): make([]any, n)}
			})
		},
	}
	for name, config := range tests {
		t.Run(name, func(t *testing.T) {
			cost := func(n int) uint64 {
				c := host.ConnectorConfig{Name: "x", Origins: []string{apiOrigin}, Auth: []host.Auth{{Type: "jwt", Config: config(n)}}}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := w.host.NewConnector(t.Context(), c)
				runtime.ReadMemStats(&after)
				if wrong, ok := errors.AsType[*host.ConfigError](err); err != nil && (!ok || len(wrong.Problems) > 100) {
					t.Fatalf("%d problems: %.200v", len(wrong.Problems), err)
				}
				return after.TotalAlloc - before.TotalAlloc
			}
			half, whole := cost(20_000), cost(40_000)
			if whole > 3*half+2<<20 || whole > 200<<20 {
				t.Errorf("40,000 cost %d bytes, 20,000 %d", whole, half)
			}
		})
	}
}

// A configuration that is too large is refused with one problem, which has the limits (threats.md 55).
func TestOversizedConfiguration(t *testing.T) {
	w := newWorld(t)
	const limit = "is too large: it may have 50000 values, 4 MiB of text, and 512 KiB of texts with expressions"
	connect := func(config map[string]any) error {
		_, err := w.tryOpen(host.ConnectorConfig{Auth: []host.Auth{{Type: "jwt", Config: config}}})
		return err
	}
	for more, large := range []bool{false, true} { // names count too
		err := connect(map[string]any{"private_key": strings.Repeat("x", 4<<20-len("private_key")+more)})
		if err == nil || strings.Contains(err.Error(), limit) != large {
			t.Errorf("with %d bytes too many: %.300v", more, err)
		}
	}
	for more, large := range []bool{false, true} { // config, private_key, claims, a, and the elements of a
		err := connect(map[string]any{"private_key": "k", "claims": map[string]any{"a": make([]any, 50_000-4+more)}})
		if got := err != nil && strings.Contains(err.Error(), limit); got != large {
			t.Errorf("with %d values too many: %.300v", more, err)
		}
	}
	endless := map[string]any{}
	endless["a"], endless["b"] = endless, endless
	for name, claims := range map[string]any{
		"values":          map[string]any{"a": make([]any, 50_001)},
		"text":            map[string]any{"a": strings.Repeat("x", 5<<20)},
		"a name":          map[string]any{strings.Repeat("x", 5<<20): "a"},
		"expressions":     map[string]any{"a": strings.Repeat("{{1}}", 120_000)},
		"a map in itself": endless,
	} {
		err := connect(map[string]any{"private_key": "k", "claims": claims})
		if err == nil || err.Error() != "connectors.crm.auth.config: "+limit {
			t.Errorf("%s: err = %.300v", name, err)
		}
	}
}

// threats.md 119: a form that has a member for each of its bytes costs no more than its bytes, whatever the names of the credential.
func TestCostOfAFormOfManyMembers(t *testing.T) {
	w := newWorld(t)
	c := w.connect("api_key", config{"key": "a[b]", "value": "{{ get_secret('s') }}", "in": "form"})
	post := func(members int) (objects uint64) {
		r := formOf(t, strings.Repeat("&", members))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w.send(c, r)
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	post(1)
	if few, many := post(1), post(100_000); many > few+10_000 {
		t.Errorf("100,000 members cost %d objects, and one costs %d", many, few)
	}
}

// specification.md 1.3 and 3.1: the five types, and which of their fields are required.
func TestSpec_configuration_objects(t *testing.T) {
	const (
		assertions = "certificate client_assertion_audience client_assertion_issuer client_assertion_claims client_assertion_parameter"
		senders    = "sender proof_key proof_algorithm token_type key prefix url_from"
	)
	w := newWorld(t)
	want := map[string]string{
		"none":    "",
		"api_key": "key! value! in!",
		"oauth_client_credentials": "client_id! client_secret client_auth client_assertion client_assertion_type token_url! scope audience resource " +
			"parameters private_key algorithm jwt_headers assertion_ttl " + assertions + " token_request token_headers token_from expires_in_from " +
			"expires_at_from token_ttl " + senders,
		"jwt": "private_key! algorithm key_encoding claims! jwt_headers request_claims request_headers parts in key prefix",
		// Without assertion, client_id, private_key, subject and audience are required.
		"oauth_jwt_bearer": "client_id client_secret client_auth client_assertion client_assertion_type private_key token_url! subject audience assertion " +
			"token_ttl algorithm additional_claims jwt_headers assertion_ttl parameters " + assertions + " token_request token_headers token_from " +
			"expires_in_from expires_at_from " + senders,
	}
	got := map[string]string{}
	for _, info := range w.host.Plugins() {
		var fields []string
		for _, f := range info.Fields {
			mark := ""
			if f.Required {
				mark = "!"
			}
			fields = append(fields, f.Name+mark)
		}
		got[info.Type] = strings.Join(fields, " ")
	}
	if !maps.Equal(got, want) {
		t.Errorf("the types are %v, want %v", got, want)
	}
}
