package connectors_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
)

func TestURLs(t *testing.T) {
	tests := map[string]string{
		"ftp://a.example":             "is not an https URL such as https://api.example.com/v1",
		"a.example/v1":                "is not an https URL such as https://api.example.com/v1",
		"https:a.example":             "is not a URL such as https://api.example.com/v1",
		"https:///v1":                 "has no host",
		"https://user:pw@a.example":   "has user info, which would end up in logs: put the credential into auth",
		"https://a.example#top":       "has a fragment, which is never sent: remove it",
		"https://a.example/v1/../v2":  "the path has a segment . or .., which would leave the connector's url",
		"https://{{ user.email }}/v1": "has a template in its scheme or host: these are literal, since they decide who gets the credential, or with hosts a label of the host is tenant_id or get_variable('NAME', 'tenant')",
		"https://a.example/{{ 1 }}#b": "has a fragment, which is never sent: remove it",
		"https://*.a.example/v1":      "has a star in its host: write {{ tenant_id }} or {{ get_variable('NAME', 'tenant') }} there, as the label that is the tenant's",
		"https://a.example:0":         "has a port that is not 1 to 65535",
		"http://a.example":            "is plain http, which sends everything in the open: use https, or name the host in plain_http of egress",
	}
	var text strings.Builder
	var all []string
	text.WriteString("connectors:\n")
	for i, url := range slices.Sorted(maps.Keys(tests)) {
		fmt.Fprintf(&text, "- {name: c%02d, auth: {type: none}, url: '%s', hosts: ['*.a.example']}\n", i, url) // an invalid URL says nothing about hosts
		all = append(all, fmt.Sprintf("connectors.yaml:%d:%d: connectors.c%02d.url: %s", i+2, 40, i, tests[url]))
	}
	wantProblems(t, text.String(), connectors.Options{}, all...)
	dev := connectors.Options{Host: host.Config{Egress: host.Egress{AllowHTTP: true}}}
	loadGood(t, "connectors: [{name: A, auth: {type: none}, url: 'http://a.example'}]\n", dev)
}

// The size to which aliases expand a small file is limited, and the file is refused quickly.
func TestAliasBomb(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("          a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		n, previous := string(rune('1'+i)), string(rune('0'+i))
		bomb.WriteString("          a" + n + ": &a" + n + " [" + strings.TrimSuffix(strings.Repeat("*a"+previous+", ", 10), ", ") + "]\n")
	}
	wantProblems(t, jwt+bomb.String(), connectors.Options{},
		`connectors.yaml:13:35: makes the file, with what its aliases repeat, more than 50000 values: use several gateways`,
	)
}

func TestAnchorsAndMerge(t *testing.T) {
	set := loadGood(t, `connectors:
  - name: One
    url: https://one.example
    auth: &key
      type: api_key
      config: &config {key: X-Key, value: "{{ get_secret('one') }}", in: header}
  - name: Two
    url: https://two.example
    auth: *key
  - name: Three
    url: https://three.example
    auth:
      <<: *key
      config: {value: "{{ get_secret('three') }}", <<: *config}
`, connectors.Options{})
	var secrets []string
	for _, c := range set.Connectors {
		secrets = append(secrets, c.Secrets()...)
	}
	if diff := cmp.Diff([]string{"one", "one", "three"}, secrets); diff != "" {
		t.Error(diff)
	}
}

// JSON is accepted in the same shape, even with tabs, which YAML refuses. Numbers keep their text.
func TestJSON(t *testing.T) {
	set := loadGood(t, "{\n\t\"connectors\"\t: [{\n\t\t\"name\": \"A\\u00e9\\ud83d\\ude00\\/x\", \"url\": \"https:\\/\\/a.example\",\n\t\t\"auth\": {\"type\": \"jwt\","+
		" \"config\": {\"private_key\": \"{{ get_secret('k') }}\", \"claims\": {\"n\": [1e3, 12345678901234567890123, -0.5, true, null]}}}\n\t}]\n}\n",
		connectors.Options{})
	c := set.Connectors[0]
	if c.Definition().Name != "Aé😀/x" || c.Definition().Permalink != "ae-x" {
		t.Errorf("name %q, permalink %q", c.Definition().Name, c.Definition().Permalink)
	}
	wantProblems(t, "{\n\t\"connectors\": [{\"name\": \"A\", \"url\": \"https://a.example\",\n\t\t\"auth\": {\"type\": \"none\", \"x\": 1}}]}", connectors.Options{},
		"connectors.yaml:3:28: connectors.a.auth.x: is not known here; there are type, config")
	wantProblems(t, `{"connectors": [{"name": "😀", "name": "A", "permalink": "a", "url": "https://a.example",`+"\n"+
		`"auth": {"type": "jwt", "config": {"private_key": "k", "claims": {"é": "\ud83d\ude00{{ b }}", "long": "x"}}}}]}`, connectors.Options{},
		`connectors.yaml:1:31: connectors.a.name: is there twice, first on line 1: remove one`,
		`connectors.yaml:2:88: connectors.a.auth.config.claims["é"]: unknown variable "b": there are tenant_id and user.email, user.id, user.username, user.first_name, user.last_name, user.token; a secret, also one of the environment, is get_secret('NAME')`,
	)
}

func TestPermalink(t *testing.T) {
	for name, want := range map[string]string{
		"Weather API": "weather-api", " --a__B-- ": "a-b", "Café Zürich": "cafe-zurich", "天気": "", strings.Repeat("ab ", 50): strings.Repeat("ab-", 21) + "a",
	} {
		if got := gateway.Permalink(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// The host of a file has the built-in types that its connectors use, each once, and a type by its alias.
func TestBuiltInTypesOfAFile(t *testing.T) {
	const text = `connectors:
  - {name: A, url: 'https://a.example', auth: {type: basic, config: {username: a}}}
  - {name: B, url: 'https://b.example', auth: {type: apikey, config: {in: header, key: X-Key, value: v}}}
  - {name: C, url: 'https://c.example', auth: {type: basic, config: {username: c}}}
`
	set := loadGood(t, text, connectors.Options{})
	var types []string
	for _, p := range set.Host.Plugins() {
		types = append(types, p.Type)
		if !p.BuiltIn {
			t.Errorf("%s is not built in", p.Type)
		}
	}
	if want := []string{"basic", "api_key"}; !slices.Equal(types, want) {
		t.Errorf("the host has %q, want %q", types, want)
	}
}

// ending is a source of randomness, a log and a store of secrets that ends a context when it is used.
type ending struct {
	end   context.CancelFunc
	reads int
}

func (e *ending) Read(p []byte) (int, error) { e.end(); return rand.Read(p) }

func (e *ending) Write(p []byte) (int, error) { e.end(); return len(p), nil }

func (e *ending) Secret(context.Context, string) (string, error) {
	e.end()
	e.reads++
	return "", context.Canceled
}

// A program that is ended before or while it reads a file reports no problem of the file or of a plugin, and asks for no further secret
// (threats.md 54).
func TestInterruptedLoad(t *testing.T) {
	over, stop := context.WithCancel(t.Context())
	stop()
	for name, text := range map[string]string{"YAML": weather, "JSON": `{"connectors": []}`} {
		if _, err := connectors.Read(over, "connectors.yaml", []byte(text), connectors.Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, before it began: %v", name, err)
		}
	}
	for name, configure := range map[string]func(*ending) host.Config{
		"before plugins are loaded":      func(e *ending) host.Config { return host.Config{Random: e} },
		"while connectors are connected": func(e *ending) host.Config { return host.Config{Logger: slog.New(slog.NewTextHandler(e, nil))} },
		"while secrets are tried":        func(e *ending) host.Config { return host.Config{Secrets: e} },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			text := strings.Replace(weather, "api_key", "apikey", 1) // an alias, for which the log has a warning
			other := strings.Replace(strings.TrimPrefix(text, "connectors:\n"), "Weather", "Other", 1)
			e := &ending{end: end}
			config := configure(e)
			set, err := connectors.Read(ctx, "connectors.yaml", []byte(text+other), connectors.Options{Host: config, ReadSecrets: config.Secrets != nil})
			var wrong *connectors.Error
			if e.reads > 1 || ctx.Err() == nil || set != nil || !errors.Is(err, context.Canceled) || errors.As(err, &wrong) || strings.Contains(err.Error(), "built-in") {
				t.Errorf("the error is a %T: %v", err, err)
			}
		})
	}
}

// The file sets limits of its host, also for the cache that outlives that. Those that it leaves out are the ones of the program.
// threats.md 330
func TestLimitsOfTheProcess_threats_330(t *testing.T) {
	var got host.Limits
	o := connectors.Options{Host: host.Config{Limits: host.Limits{ConcurrentKeys: 7}}, OpenState: func(_ context.Context, _ *connectors.State, c *host.Config) error {
		got = c.Limits
		return errors.New("no more is needed")
	}}
	read := func(limits string) error {
		_, err := connectors.Read(t.Context(), "connectors.yaml", []byte("limits: "+limits+`
state: {type: sqlite, path: state.db, keys: "{{ get_secret('k') }}"}
connectors: [{name: a, url: "https://a.example", auth: {type: none}}]`), o)
		return err
	}
	if err := read("{concurrent_exchanges: 100, tokens_bytes: 1000, mutations_bytes: 2000, scanners_bytes: 3000}"); got.ConcurrentExchanges != 100 || got.ConcurrentKeys != 7 ||
		got.TokensBytes != 1000 || got.MutationsBytes != 2000 || got.ScannersBytes != 3000 {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := read("{concurrent_exchanges: 0}"); !errors.As(err, new(*connectors.Error)) {
		t.Errorf("no place at all: %v", err)
	}
}
