package connectors_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// codeCache is the code cache of what load loads.
var codeCache string

func TestMain(m *testing.M) { os.Exit(testworld.InSharedDir(&codeCache, m.Run)) }

const weather = `connectors:
  - name: Weather API
    url: https://api.example.com/v1
    auth:
      type: api_key
      config: {key: X-API-Key, value: "{{ get_secret('weather') }}", in: header}
`

// load reads a text as connectors.yaml, and returns the lines of the error.
func load(t *testing.T, text string, o connectors.Options) (*connectors.Set, []string) {
	t.Helper()
	o.Host.CodeCache = codeCache
	set, err := connectors.Read(t.Context(), "connectors.yaml", []byte(text), o)
	if err == nil {
		t.Cleanup(func() { testworld.Check(t, set.Close(context.WithoutCancel(t.Context()))) })
		return set, nil
	}
	var wrong *connectors.Error
	if !errors.As(err, &wrong) {
		t.Fatalf("the error is a %T: %v", err, err)
	}
	return nil, strings.Split(err.Error(), "\n")
}

// wantProblems checks the lines of the error that a file has. One that ends in … is the beginning of a line.
func wantProblems(t *testing.T, text string, o connectors.Options, want ...string) {
	t.Helper()
	_, got := load(t, text, o)
	for i := range min(len(got), len(want)) {
		if beginning, cut := strings.CutSuffix(want[i], "…"); cut && strings.HasPrefix(got[i], beginning) {
			got[i] = want[i]
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the problems of\n%s\n(-want +got):\n%s", text, diff)
	}
}

// loadGood returns the Set of a file without problems.
func loadGood(t *testing.T, text string, o connectors.Options) *connectors.Set {
	t.Helper()
	set, problems := load(t, text, o)
	if problems != nil {
		t.Fatalf("the problems are\n%s", strings.Join(problems, "\n"))
	}
	return set
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "connectors.yaml")
	testworld.Check(t, os.WriteFile(file, []byte(weather), 0o600))
	set := testworld.Must(connectors.Load(t.Context(), file, connectors.Options{}))(t)
	defer set.Close(t.Context())
	c := testworld.Must(set.Find("Weather API"))(t)
	if c.Definition().Permalink != "weather-api" || c.Upstream().Config().Name != "weather-api" || c.Definition().Name != "Weather API" || c.BaseURL().String() != "https://api.example.com/v1" {
		t.Errorf("got %q %q %q %s", c.Definition().Permalink, c.Upstream().Config().Name, c.Definition().Name, c.BaseURL())
	}
	if same, err := set.Find("weather-api"); err != nil || same != c {
		t.Errorf("by permalink: %v, %v", same, err)
	}
	testworld.Fails(set.Find("wether"))(t, `there is no connector "wether"; there are weather-api`)
	testworld.Fails(set.Find("wether-api"))(t, `there is no connector "wether-api"; did you mean "weather-api"?`)
	if diff := cmp.Diff([]string{"weather"}, c.Secrets()); diff != "" {
		t.Error(diff)
	}
}

func TestLoadWithoutFile(t *testing.T) {
	testworld.Fails(connectors.Load(t.Context(), filepath.Join(t.TempDir(), "none.yaml"), connectors.Options{}))(t,
		"none.yaml: there is no such file: name the one to be read with -c")
}

// Every problem of a file is reported at once, in the order of the places (specification.md "every problem at once"
// and "paths name the connector").
func TestEveryProblemAtOnce(t *testing.T) {
	wantProblems(t, `connectors:
  - name: CRM
    url: http://crm.example.com
    auth:
      type: oauth_client_credentials
      config:
        client_id: 17
        client_secrt: "{{ get_secret('crm') }}"
        token_url: https://user:pw@login.example.com/token
        scope: "a {{ nope( }}"
  - name: Weather
    url: https://api.example.com
    colour: red
    auth:
      type: api_kye
plugins:
  - path: missing.wasm
    sha256: abc
`, connectors.Options{},
		`connectors.yaml:3:10: connectors.crm.url: is plain http, which sends everything in the open: use https, or name the host in plain_http of egress`,
		`connectors.yaml:7:20: connectors.crm.auth.config.client_id: is a number, text is wanted: put it in quotes`,
		`connectors.yaml:8:9: connectors.crm.auth.config.client_secrt: is not a field of auth type oauth_client_credentials; did you mean "client_secret"?`,
		`connectors.yaml:9:20: connectors.crm.auth.config.token_url: has user info, which would end up in logs: use the fields for credentials`,
		`connectors.yaml:10:27: connectors.crm.auth.config.scope: syntax error near the end`,
		`connectors.yaml:13:5: connectors.weather.colour: is not known here; there are name, permalink, url, hosts, hosts_share_secrets, method, paths, headers, query, auth, tls, consent, request, response, timeout, refresh_ahead, resend, limits, streams, egress`,
		`connectors.yaml:15:13: connectors.weather.auth.type: there is no auth type "api_kye"; did you mean "api_key"?`,
		`connectors.yaml:18:13: plugins[0].sha256: is not 64 hexadecimal digits`,
	)
}

// A permalink has at most 64 bytes. A digest has 64 digits, no fewer and no more.
func TestLengthsOfNamesAndDigests(t *testing.T) {
	for length, wrong := range map[int]bool{63: false, 64: false, 65: true} {
		_, got := load(t, "connectors:\n  - {name: A, permalink: "+strings.Repeat("p", length)+", url: https://a.example.com, auth: {type: none}}\n", connectors.Options{})
		if strings.Contains(strings.Join(got, "\n"), "may have a to z, 0 to 9 and hyphens, at most 64") != wrong {
			t.Errorf("a permalink of %d bytes: %q", length, got)
		}
	}
	for length, wrong := range map[int]bool{63: true, 64: false, 65: true} {
		_, got := load(t, "connectors: []\nplugins:\n  - {path: missing.wasm, sha256: "+strings.Repeat("a", length)+"}\n", connectors.Options{})
		if strings.Contains(strings.Join(got, "\n"), "is not 64 hexadecimal digits") != wrong {
			t.Errorf("a digest of %d digits: %q", length, got)
		}
	}
}

const remedy = "check the indentation (spaces, no tabs), and that quotes and brackets are closed"

func TestFileProblems(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"empty file":     {"", []string{`connectors.yaml:1:1: is empty: it needs a list of connectors`}},
		"only a comment": {"# later\n", []string{`connectors.yaml:1:1: is empty: it needs a list of connectors`}},
		"not an object":  {"- a\n", []string{`connectors.yaml:1:1: is a list: an object with the member connectors is wanted`}},
		"other members":  {"connector: []\n", []string{`connectors.yaml:1:1: connector: is not known here; did you mean "connectors"?`}},
		"no connectors":  {"plugins: []\n", []string{`connectors.yaml:1:1: has no connectors: it needs a list of them, the member connectors`}},
		"empty list":     {"connectors: []\n", []string{`connectors.yaml:1:13: connectors: is empty: it needs one connector at least`}},
		"null":           {"connectors:\n", []string{`connectors.yaml:1:12: connectors: is null: a list of connectors, each beginning with a hyphen, is wanted`}},
		"not a list":     {"connectors: {a: 1}\n", []string{`connectors.yaml:1:13: connectors: is an object: a list of connectors, each beginning with a hyphen, is wanted`}},
		"null in JSON": {`{"connectors": null, "a:b": null}`, []string{
			`connectors.yaml:1:16: connectors: is null: a list of connectors, each beginning with a hyphen, is wanted`,
			`connectors.yaml:1:22: ["a:b"]: is not known here; there are connectors, plugins, connectors_dir, gateway, secrets, identities, state, egress, limits`,
		}},
		"item is text":      {"connectors: [x]\n", []string{`connectors.yaml:1:14: connectors[0]: is text: an object with name, url and auth is wanted`}},
		"second document":   {weather + "---\na: 1\n", []string{`connectors.yaml:8:1: a second document begins here: a file has one`}},
		"a tag's prefix":    {"%TAG !a! tag:x\n---\n" + weather, []string{`connectors.yaml:1:1: directives are not used here: remove the line`}},
		"a directive later": {weather + "...\r%TAG !a! tag:x\n---\n", []string{`connectors.yaml:7:1: directives are not used here: remove the line`}},
		"directive":         {"%YAML 1.2\n---\n" + weather, []string{`connectors.yaml:1:1: directives are not used here: remove the line`}},
		"duplicate key": {
			strings.Replace(weather, "    auth:", "    url: https://evil.example\n    auth:", 1),
			[]string{`connectors.yaml:4:5: connectors.weather-api.url: is there twice, first on line 3: remove one`},
		},
		"not UTF-8": {"connectors: []\n# \xff\n", []string{`connectors.yaml:2:1: is not UTF-8: save it in that encoding`}},
		"an open bracket": {"connectors: [\n", []string{
			`connectors.yaml:2:1: is not well-formed YAML: did not find expected node content, while parsing a flow node: ` + remedy,
		}},
		"a tab": {"connectors:\n\t- name: A\n", []string{
			`connectors.yaml:2:1: is not well-formed YAML: found character that cannot start any token, while scanning for the next token: ` + remedy,
		}},
		"wrong indentation": {"connectors:\n  - name: A\n   url: x\n", []string{
			`connectors.yaml:3:4: is not well-formed YAML: did not find expected '-' indicator, while parsing a block collection: ` + remedy,
		}},
		"members misspelt": {
			"conectors: []\nconnectors:\n- {nam: A, urls: 'https://a.example', auth: {tpye: none}}\n- {name: B, url: 'https://a.example', atuh: {type: none}}\nplugins: [{pth: x.wasm}]\n",
			[]string{
				`connectors.yaml:1:1: conectors: is not known here; did you mean "connectors"?`,
				`connectors.yaml:3:4: connectors[0].nam: is not known here; did you mean "name"?`,
				`connectors.yaml:3:12: connectors[0].urls: is not known here; did you mean "url"?`,
				`connectors.yaml:3:46: connectors[0].auth.tpye: is not known here; did you mean "type"?`,
				`connectors.yaml:4:39: connectors.b.atuh: is not known here; did you mean "auth"?`,
				`connectors.yaml:5:12: plugins[0].pth: is not known here; did you mean "path"?`,
			},
		},
		"a field misspelt beside one that is missing": {
			"connectors: [{name: A, url: 'https://a.example', auth: {type: api_key, config: {kye: k, in: header}}}]\n",
			[]string{
				`connectors.yaml:1:72: connectors.a.auth.config.value: is missing: The credential`,
				`connectors.yaml:1:81: connectors.a.auth.config.kye: is not a field of auth type api_key; did you mean "key"?`,
			},
		},
		"plain http of a token endpoint": {
			"connectors: [{name: A, url: 'https://a.example', auth: {type: oauth_client_credentials, config: {client_id: a, client_secret: b, token_url: 'http://a.example'}}}]\n",
			[]string{`connectors.yaml:1:141: connectors.a.auth.config.token_url: is plain http, which would send the credential in the open: use https, or name the host in plain_http of egress`},
		},
		"template without quotes": {
			strings.Replace(weather, `"{{ get_secret('weather') }}"`, `{{ get_secret('weather') }}`, 1),
			[]string{`connectors.yaml:6:40: connectors[0].auth.config.value: a template has to be in quotes: "{{ … }}"`},
		},
		"a member that validate refuses": {
			jwt + "          a: b\n        jwt_headers: {alg: none}\n",
			[]string{`connectors.yaml:10:28: connectors.j.auth.config.jwt_headers.alg: is fixed by the host, remove it`},
		},
		"no config": {
			"connectors: [{name: A, url: 'https://a.example', auth: {type: api_key}}]\n",
			[]string{
				`connectors.yaml:1:50: connectors.a.auth.config.key: is missing: Name of the header, query parameter, cookie or member of the form. For the path, the text that the credential replaces`,
				`connectors.yaml:1:50: connectors.a.auth.config.value: is missing: The credential`,
				`connectors.yaml:1:50: connectors.a.auth.config.in: is missing: Where the key goes`,
			},
		},
		"config on none": {
			"connectors: [{name: A, url: 'https://a.example', auth: {type: none, config: {a: 1}}}]\n",
			[]string{`connectors.yaml:1:78: connectors.a.auth.config.a: auth type none has no configuration, remove it`},
		},
		"config is a list": {
			"connectors: [{name: A, url: 'https://a.example', auth: {type: api_key, config: []}}]\n",
			[]string{`connectors.yaml:1:80: connectors.a.auth.config: is a list: an object is wanted`},
		},
		"no auth": {
			"connectors: [{name: A, url: 'https://a.example'}]\n",
			[]string{`connectors.yaml:1:14: connectors.a.auth: is missing: it says how the API is authenticated to; type: none is for one that asks nothing`},
		},
		"two of one permalink": {
			"connectors:\n- {name: A b, url: 'https://a.example', auth: {type: none}}\n- {name: a-B, url: 'https://b.example', auth: {type: none}}\n",
			[]string{`connectors.yaml:3:10: connectors.a-b: its permalink is also that of the connector on line 2: give one of them another permalink`},
		},
		"name without letters": {
			"connectors: [{name: 天気, url: 'https://a.example', auth: {type: none}}]\n",
			[]string{`connectors.yaml:1:21: connectors[0].name: has no letters a to z or digits, of which to make a permalink: add the member permalink`},
		},
		"permalink": {
			"connectors: [{name: A, permalink: A B, url: 'https://a.example', auth: {type: none}}]\n",
			[]string{`connectors.yaml:1:35: connectors[0].permalink: may have a to z, 0 to 9 and hyphens, at most 64`},
		},
		"plugin that is not there": {
			"connectors: [{name: A, url: 'https://a.example', auth: {type: acme}}]\nplugins: [{path: x.wasm}]\n", // the unknown type is not reported
			[]string{`connectors.yaml:2:18: plugins[0].path: names a file that does not exist; it is looked for from this file's directory`},
		},
		"plugin that is not there, and a type misspelt": {
			"connectors: [{name: A, url: 'https://a.example', auth: {type: non}}]\nplugins: [{path: x.wasm, grants: [all]}]\n",
			[]string{
				`connectors.yaml:1:63: connectors.a.auth.type: there is no auth type "non"; did you mean "none"?`,
				`connectors.yaml:2:18: plugins[0].path: names a file that does not exist; it is looked for from this file's directory`,
				`connectors.yaml:2:35: plugins[0].grants[0]: there is no grant "all"; there are sign_raw, reveal`,
			},
		},
		"deep nesting": {strings.Repeat("[", 100_000), []string{`connectors.yaml:1:101: is nested deeper than 100`}},
		"deep lists":   {strings.Repeat("- ", 100_000), []string{`connectors.yaml:1:201: is nested deeper than 100`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { wantProblems(t, test.text, connectors.Options{}, test.want...) })
	}
}

// Problems within a connector are reported with their places. Lines are relative to the first line of the claims.
func TestConnectorProblems(t *testing.T) {
	const known = ": there are tenant_id and user.email, user.id, user.username, user.first_name, user.last_name, user.token; a secret, also one of the environment, is get_secret('NAME')"
	tests := []struct {
		name, claims string
		line, column int
		problem      string
	}{
		{"tag", "a: !!str 5\n", 1, 14, `auth.config.claims.a: has a tag, which begins with !: tags are not used here, remove it; text goes in quotes`},
		{"hexadecimal", "a: 0x10\n", 1, 14, `auth.config.claims.a: is a number as JSON has none: write plain decimal digits, or put it in quotes if text is meant`},
		{"octal", "a: 010\n", 1, 14, `auth.config.claims.a: is a number as JSON has none: write plain decimal digits, or put it in quotes if text is meant`},
		{"underscores", "a: 1_000\n", 1, 14, `auth.config.claims.a: is a number as JSON has none: write plain decimal digits, or put it in quotes if text is meant`},
		{"infinity", "a: .inf\n", 1, 14, `auth.config.claims.a: is not a number that JSON has: put it in quotes if text is meant`},
		{"key no text", "1: a\n", 1, 11, `auth.config.claims: has a member whose name is not text: put the name in quotes`},
		{"no anchor", "a: *b\n", 1, 14, `auth.config.claims.a: there is no anchor of this name: put text that begins with * in quotes`},
		{"endless alias", "a: &a [*a]\n", 1, 18, `auth.config.claims.a[0]: the alias stands inside of what it repeats`},
		{"merge of text", "<<: x\n", 1, 11, `auth.config.claims: << takes an alias of an object, or a list of them`},
		{"column, plain text", "é: a{{ b }}\n", 1, 18, `auth.config.claims["é"]: unknown variable "b"` + known},
		{"column, single quotes", "é: 'it''s {{ b }}'\n", 1, 24, `auth.config.claims["é"]: unknown variable "b"` + known},
		{"column, double quotes", `e: "\t\u00e9\x41\"{{ b }}"` + "\n", 1, 32, `auth.config.claims.e: unknown variable "b"` + known},
		{"column, a character by its number", `e: "\U0001f600{{ b }}"` + "\n", 1, 28, `auth.config.claims.e: unknown variable "b"` + known},
		{"column, behind an anchor", `e: &x1 "\t{{ b }}"` + "\n", 1, 24, `auth.config.claims.e: unknown variable "b"` + known},
		{"column, several lines", "e: |\n  ab\n  {{ b }}\n", 1, 14, `auth.config.claims.e: at character 7 of the text: unknown variable "b"` + known},
		{"in a list", "roles:\n  - admin\n  - \"{{ b }}\"\n", 3, 19, `auth.config.claims.roles[1]: unknown variable "b"` + known},
	}
	var text strings.Builder
	text.WriteString("connectors:\n")
	var want []string
	for i, test := range tests {
		fmt.Fprintf(&text, "  - name: c%d\n    url: https://api.example.com\n    auth:\n      type: jwt\n      config:\n", i)
		text.WriteString("        private_key: \"{{ get_secret('k') }}\"\n        claims:\n")
		first := strings.Count(text.String(), "\n")
		for line := range strings.Lines(test.claims) {
			text.WriteString("          " + line)
		}
		want = append(want, fmt.Sprintf("connectors.yaml:%d:%d: connectors.c%d.%s", first+test.line, test.column, i, test.problem))
	}
	_, got := load(t, text.String(), connectors.Options{})
	if len(got) != len(want) {
		t.Fatalf("%d problems, not %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i, test := range tests {
		if got[i] != want[i] {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got[i], want[i])
		}
	}
}

const jwt = `connectors:
  - name: J
    url: https://api.example.com
    auth:
      type: jwt
      config:
        private_key: "{{ get_secret('k') }}"
        claims:
`

// Secrets with the same environment variable are an error when the file is loaded.
func TestCollidingSecrets(t *testing.T) {
	text := `connectors:
  - name: One
    url: https://one.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('acme.key') }}", in: header}}
  - name: Two
    url: https://two.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('Acme-Key') }}", in: header}}
  - name: Three
    url: https://three.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('acme.key') }}", in: header}}
`
	wantProblems(t, text, connectors.Options{Environment: true},
		`connectors.yaml:7:70: connectors.two.auth.config.value: the secrets "acme.key" and "Acme-Key" are the same environment variable, KEYWRIGHT_SECRET_ACME_KEY: rename one of them`,
	)
	// Without the environment, or with stores of the file of which none is the environment, there is no problem.
	wantProblems(t, text, connectors.Options{})
	wantProblems(t, text+"secrets: [{type: dir, path: secrets}]\n", connectors.Options{Environment: true})
	wantProblems(t, text+"secrets: [{type: dir, path: secrets}, {type: env}]\n", connectors.Options{Environment: true}, "connectors.yaml:7:70: …")
}

// No problem shows a value, because it may be a credential.
func TestProblemsShowNoValues(t *testing.T) {
	const canary = "c4n4ry0x9"
	for _, value := range []string{canary, `"` + canary + ` {{ x }}"`, `"` + canary, "!!binary " + canary, "[" + canary, "{" + canary + ": 1}", "&a " + canary, `"\q` + canary + `"`, "@" + canary} {
		text := strings.Replace(weather, `"{{ get_secret('weather') }}"`, value, 1)
		text = strings.Replace(text, "in: header", "in: "+canary, 1)
		_, problems := load(t, text, connectors.Options{})
		if problems == nil {
			t.Errorf("%s: no problem", value)
		}
		if got := strings.Join(problems, "\n"); strings.Contains(got, canary) {
			t.Errorf("%s: the problem shows it:\n%s", value, got)
		}
	}
}
