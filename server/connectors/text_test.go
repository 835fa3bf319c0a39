package connectors_test

import (
	"fmt"
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
		"https://{{ user.email }}/v1": "has a template in its scheme or host: these are literal, since they decide who gets the credential",
		"https://a.example/{{ 1 }}#b": "has a fragment, which is never sent: remove it",
		"https://a.example:0":         "has a port that is not 1 to 65535",
		"http://a.example":            "is plain http, which sends everything in the open: use https, or name the host in plain_http of egress",
	}
	var text strings.Builder
	var all []string
	text.WriteString("connectors:\n")
	for i, url := range slices.Sorted(maps.Keys(tests)) {
		fmt.Fprintf(&text, "- {name: c%02d, auth: {type: none}, url: '%s'}\n", i, url)
		all = append(all, fmt.Sprintf("connectors.yaml:%d:%d: connectors.c%02d.url: %s", i+2, 40, i, tests[url]))
	}
	_, got := load(t, text.String(), connectors.Options{})
	if diff := cmp.Diff(all, got); diff != "" {
		t.Error(diff)
	}
	dev := connectors.Options{Host: host.Config{Egress: host.Egress{AllowHTTP: true}}}
	if _, problems := load(t, "connectors: [{name: A, auth: {type: none}, url: 'http://a.example'}]\n", dev); problems != nil {
		t.Error("plain http where it is allowed:", problems)
	}
}

// The size to which aliases expand a small file is limited, and the file is refused quickly.
func TestAliasBomb(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("          a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		n, previous := string(rune('1'+i)), string(rune('0'+i))
		bomb.WriteString("          a" + n + ": &a" + n + " [" + strings.TrimSuffix(strings.Repeat("*a"+previous+", ", 10), ", ") + "]\n")
	}
	_, got := load(t, jwt+bomb.String(), connectors.Options{})
	want := []string{`connectors.yaml:13:35: makes the file, with what its aliases repeat, more than 50000 values: use several gateways`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnchorsAndMerge(t *testing.T) {
	set, problems := load(t, `connectors:
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
	if problems != nil {
		t.Fatal(problems)
	}
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
	set, problems := load(t, "{\n\t\"connectors\"\t: [{\n\t\t\"name\": \"A\\u00e9\\ud83d\\ude00\\/x\", \"url\": \"https:\\/\\/a.example\",\n\t\t\"auth\": {\"type\": \"jwt\","+
		" \"config\": {\"private_key\": \"{{ get_secret('k') }}\", \"claims\": {\"n\": [1e3, 12345678901234567890123, -0.5, true, null]}}}\n\t}]\n}\n",
		connectors.Options{})
	if problems != nil {
		t.Fatal(problems)
	}
	c := set.Connectors[0]
	if c.Definition().Name != "Aé😀/x" || c.Definition().Permalink != "ae-x" {
		t.Errorf("name %q, permalink %q", c.Definition().Name, c.Definition().Permalink)
	}
	_, problems = load(t, "{\n\t\"connectors\": [{\"name\": \"A\", \"url\": \"https://a.example\",\n\t\t\"auth\": {\"type\": \"none\", \"x\": 1}}]}", connectors.Options{})
	if diff := cmp.Diff([]string{"connectors.yaml:3:28: connectors.a.auth.x: is not known here; there are type, config"}, problems); diff != "" {
		t.Error(diff)
	}
	_, problems = load(t, `{"connectors": [{"name": "😀", "name": "A", "permalink": "a", "url": "https://a.example",`+"\n"+
		`"auth": {"type": "jwt", "config": {"private_key": "k", "claims": {"é": "\ud83d\ude00{{ b }}", "long": "x"}}}}]}`, connectors.Options{})
	if diff := cmp.Diff([]string{
		`connectors.yaml:1:31: connectors.a.name: is there twice, first on line 1: remove one`,
		`connectors.yaml:2:88: connectors.a.auth.config.claims["é"]: unknown variable "b": there are tenant_id and user.email, user.id, user.username, user.first_name, user.last_name, user.token; a secret, also one of the environment, is get_secret('NAME')`,
	}, problems); diff != "" {
		t.Error(diff)
	}
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
