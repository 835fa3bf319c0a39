package catalogue

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/keywright/keywright/internal/testworld"
)

var update = flag.Bool("update", false, "write docs/apis.md")

// docs/apis.md has the text that the catalogue results in.
func TestPageMatchesCatalogue(t *testing.T) {
	apis := testworld.Must(All())(t)
	file := filepath.Join("..", "..", "..", "..", "docs", "apis.md")
	want := Page(apis)
	if *update {
		testworld.Check(t, os.WriteFile(file, []byte(want), 0o644))
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("docs/apis.md is not what the catalogue says: go -C server test ./internal/onboard/catalogue -update (%v)", err)
	}
}

// A connector that is copied from the page is the one that connector new writes, with the path that callers of the gateway may use.
func TestPageMatchesNew(t *testing.T) {
	apis := testworld.Must(read(fstest.MapFS{"apis/acme.yaml": {Data: []byte(acme)}}))(t)
	_, members, _ := strings.Cut(apis[0].Item(), "- name:")
	written := "- name:" + members
	if page := Page(apis); !strings.Contains(written, "paths: [/me]") || !strings.Contains(page, "```yaml\n"+written+"```\n") {
		t.Errorf("new writes:\n%s\nand the page is:\n%s", written, page)
	}
}

// A name that the catalogue does not have leads to the one that was meant, or to the list.
func TestFind(t *testing.T) {
	if a, err := Find("stripe"); err != nil || a.Title != "Stripe" || a.AuthType() != "bearer" {
		t.Errorf("a = %v, err = %v", a, err)
	}
	for name, want := range map[string]string{
		"zendsk": `the catalogue has no API "zendsk": did you mean "zendesk"?`,
		"acme":   "the catalogue has no API \"acme\": `keywright connector list` lists those that it has, and docs/auth-types.md has an example of each auth type for any other API",
	} {
		if _, err := Find(name); err == nil || err.Error() != want {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

const acme = `name: acme
title: Acme
summary: Orders.
docs: https://acme.example/auth
try: GET /me
connector: |
  name: Acme
  url: https://your-shop.acme.example
  auth: {type: bearer, config: {token: "{{ get_secret('acme') }}"}}
fill:
  - {replace: your-shop, what: the shop, where: It is there, example: one}
  - {secret: acme, what: the key, where: It is there, example: two}
mistakes:
  - {do: A mistake., see: "401."}
`

// What is missing or wrong in a file of the catalogue is found.
func TestFileProblems(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"as it is":               {"", "", ""},
		"an unknown member":      {"title:", "titel:", "titel"},
		"another file":           {"name: acme\n", "name: acne\n", `name is "acne", and the file is acme.yaml`},
		"no title":               {"title: Acme\n", "", "title is missing"},
		"no summary":             {"summary: Orders.\n", "", "summary is missing"},
		"no page":                {"docs: https:", "docs: http:", "docs is no https URL"},
		"no path":                {"try: GET /me", "try: /me", "try is no method and path"},
		"no URL":                 {"  url: https://your-shop.acme.example\n", "", "connector lacks name, url or auth.type"},
		"no shape":               {", example: one", "", "fill[0] lacks what, where or example"},
		"no text to replace":     {"replace: your-shop", "replace: my-shop", "fill[0] replaces my-shop, which the connector does not have"},
		"a secret of another":    {"secret: acme", "secret: other", "fill lacks the secret acme"},
		"neither text nor name":  {"replace: your-shop, ", "", "fill[0] has to have either secret or replace"},
		"no mistakes":            {"mistakes:\n  - {do: A mistake., see: \"401.\"}\n", "", "mistakes is missing"},
		"a mistake without sign": {", see: \"401.\"", "", "mistakes[0] lacks do or see"},
	} {
		_, wrong := checked("acme.yaml", strings.Replace(acme, c.old, c.new, 1))
		if got := strings.Join(wrong, "; "); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: problems = %q, want %q", name, got, c.want)
		}
	}
}

// Options fill in texts, and a second connector of a product has secrets of its own.
func TestWith(t *testing.T) {
	apis := testworld.Must(read(fstest.MapFS{"apis/acme.yaml": {Data: []byte(acme)}}))(t)
	const first = `# Acme: https://acme.example/auth
# Secret acme-eu: the key, such as two (It is there)
- name: "Acme EU"
  url: https://eu.acme.example
  paths: [/me] # what callers of the gateway may use: add the paths that they need
  auth: {type: bearer, config: {token: "{{ get_secret('acme-eu') }}"}}
`
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"a text":  {Options{Name: "Acme EU", Permalink: "acme-eu", Set: map[string]string{"your-shop": "eu"}}, first},
		"the URL": {Options{Name: "Acme EU", Permalink: "acme-eu", URL: "https://eu.acme.example"}, first},
		"another URL": {
			Options{Name: "Acme EU", Permalink: "acme-eu", URL: "https://acme.internal.example/api/"},
			strings.Replace(first, "https://eu.acme.example", `"https://acme.internal.example/api"`, 1),
		},
		"no place":   {Options{Place: "eu"}, `the catalogue has no place "eu" of acme: docs/apis.md names the places of each product`},
		"misspelt":   {Options{Set: map[string]string{"your-shp": "eu"}}, `the connector of acme has no "your-shp"; did you mean "your-shop"?`},
		"unknown":    {Options{Set: map[string]string{"key": "eu"}}, `the connector of acme has no "key"; there are your-shop`},
		"no text":    {Options{Set: map[string]string{"your-shop": "a\"b"}}, "the value of your-shop is empty, or has a quote, a backslash, a brace, # or a line break: put it into the file by hand"},
		"empty text": {Options{Set: map[string]string{"your-shop": ""}}, "the value of your-shop is empty, or has a quote, a backslash, a brace, # or a line break: put it into the file by hand"},
	} {
		a, err := apis[0].With(c.o)
		if err != nil {
			if err.Error() != c.want {
				t.Errorf("%s: err = %v", name, err)
			}
			continue
		}
		if a.Item() != c.want {
			t.Errorf("name = %s:\na.Item() = %s", name, a.Item())
		}
	}
	if apis[0].Name != "acme" || !strings.Contains(apis[0].Connector, "your-shop") {
		t.Error("the catalogue itself is changed")
	}
}
