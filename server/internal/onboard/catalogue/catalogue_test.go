package catalogue

import (
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
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
		"a number as a text":     {"your-shop.acme.example\n  auth: {type: bearer, config: {", "acme.example\n  header: your-shop\n  auth: {type: bearer, config: {", ""},
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

// checked returns the product of a file and what is missing or wrong in the file.
func checked(name, text string) (*API, []string) {
	apis, err := read(fstest.MapFS{"apis/" + name: {Data: []byte(text)}})
	if err != nil {
		return nil, []string{err.Error()}
	}
	return apis[0], apis[0].problems(strings.TrimSuffix(name, ".yaml"))
}

// Each file of the catalogue has everything that a newcomer needs.
func TestFiles(t *testing.T) {
	names := testworld.Must(files.ReadDir("apis"))(t)
	for _, name := range names {
		text := testworld.Must(files.ReadFile(path.Join("apis", name.Name())))(t)
		if _, wrong := checked(name.Name(), string(text)); len(wrong) > 0 {
			t.Errorf("%s: Join = %s", name.Name(), strings.Join(wrong, "; "))
		}
	}
}

// problems returns what is missing or wrong in the file of a product.
func (a *API) problems(file string) (wrong []string) {
	report := func(when bool, format string, args ...any) {
		if when {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	for _, m := range [][2]string{{"title", a.Title}, {"summary", a.Summary}, {"docs", a.Docs}, {"try", a.Try}, {"connector", a.Connector}} {
		report(m[1] == "", "%s is missing", m[0])
	}
	report(a.Name != file, "name is %q, and the file is %s.yaml", a.Name, file)
	docs, err := url.Parse(a.Docs)
	report(err != nil || docs.Scheme != "https" || docs.Host == "", "docs is no https URL")
	method, request := a.Request()
	report(method == "" || !strings.HasPrefix(request, "/"), "try is no method and path")
	report(len(a.Fill) == 0 && a.AuthType() != "none", "fill is missing")
	report(len(a.Mistakes) == 0, "mistakes is missing")
	for i, m := range a.Mistakes {
		report(m.Do == "" || m.See == "", "mistakes[%d] lacks do or see", i)
	}
	report(a.parsed.Name == "" || a.parsed.URL == "" || a.AuthType() == "", "connector lacks name, url or auth.type")
	report(!strings.HasSuffix(a.Connector, "\n"), "connector lacks the last line break")
	report(a.unlisted() != "", "fill lacks the secret %s", a.unlisted())
	for i, f := range a.Fill {
		for _, w := range f.problems(a) {
			report(true, "fill[%d] %s", i, w)
		}
	}
	return wrong
}

var number = regexp.MustCompile(`^[0-9.]+$`)

// problems returns what is missing or wrong in an item of Fill.
func (f *Fill) problems(a *API) (wrong []string) {
	if f.What == "" || f.Where == "" || f.Example == "" {
		wrong = append(wrong, "lacks what, where or example")
	}
	switch {
	case (f.Secret == "") == (f.Replace == ""):
		wrong = append(wrong, "has to have either secret or replace")
	case f.Replace != "" && !strings.Contains(a.Connector, f.Replace):
		wrong = append(wrong, "replaces "+f.Replace+", which the connector does not have")
	case f.Replace != "" && number.MatchString(f.Example) && strings.Contains(a.Connector, ": "+f.Replace+"\n"):
		wrong = append(wrong, "replaces "+f.Replace+" by a number, which is no text without quotes")
	case f.Secret != "" && !strings.Contains(a.Connector, "get_secret('"+f.Secret+"')"):
		wrong = append(wrong, "has the secret "+f.Secret+", which the connector does not name")
	case f.Secret != "" && f.Secret != a.Name && !strings.HasPrefix(f.Secret, a.Name+"-"):
		wrong = append(wrong, "has the secret "+f.Secret+", which has to begin with the name of the product")
	}
	return wrong
}

// unlisted returns a secret that the connector names and Fill does not, or "".
func (a *API) unlisted() string {
	for _, match := range secretName.FindAllStringSubmatch(a.Connector, -1) {
		if !slices.ContainsFunc(a.Fill, func(f Fill) bool { return f.Secret == match[1] }) {
			return match[1]
		}
	}
	return ""
}

// host matches the host of a URL.
var host = regexp.MustCompile(`https://([^/\s"',}]+)`)

// produced returns the hosts of the catalogue's place that are in a connector, but for texts that are to stay.
func produced(a *API, connector string, stay []string) (found []string) {
	var hosts []string
	for _, match := range host.FindAllStringSubmatch(a.Connector, -1) {
		if !slices.ContainsFunc(a.Fill, func(f Fill) bool { return f.Replace == match[0] }) { // a page of the user's
			hosts = append(hosts, match[1])
		}
	}
	for _, texts := range a.Places {
		for text := range texts {
			hosts = append(hosts, strings.TrimPrefix(text, "https://"))
		}
	}
	own := urlLine.FindString(connector)
	for _, text := range stay {
		connector = strings.ReplaceAll(connector, text, "")
	}
	connector += "\n" + own
	for _, h := range hosts {
		if regexp.MustCompile(`(^|[^a-zA-Z0-9.-])` + regexp.QuoteMeta(h) + `($|[^a-zA-Z0-9.-])`).MatchString(connector) {
			found = append(found, h)
		}
	}
	return found
}

// A connector for the sandbox of a product, or for another place, has no URL of production, so that no secret of one goes to the other
// (threats.md 370). The URL of the place makes the same connector.
func TestPlacesHaveNothingOfProduction(t *testing.T) {
	apis := testworld.Must(All())(t)
	sandboxes := 0
	for _, a := range apis {
		if len(produced(a, a.Connector, a.Shared)) == 0 {
			t.Errorf("%s: the test finds no host of production in production", a.Name)
		}
		texts := slices.Clone(a.Shared)
		for _, place := range a.Places {
			texts = slices.AppendSeq(texts, maps.Keys(place))
		}
		for _, text := range texts {
			if !strings.Contains(a.Connector, text) {
				t.Errorf("%s: the connector does not have %s, which places or shared name", a.Name, text)
			}
		}
		for place := range a.Places {
			if place == "sandbox" {
				sandboxes++
			}
			set := map[string]string{}
			for i, f := range a.Fill {
				if f.Replace != "" {
					set[f.Replace] = fmt.Sprint("mine", i)
				}
			}
			placed := testworld.Must(a.With(Options{Place: place, Set: set}))(t)
			if left := produced(a, placed.Connector, a.Shared); len(left) > 0 {
				t.Errorf("%s in %s has %q of production:\n%s", a.Name, place, left, placed.Connector)
			}
			byURL, err := a.With(Options{URL: base(placed.Connector), Set: set})
			if err != nil || byURL.Item() != placed.Item() {
				t.Errorf("%s: the URL of %s makes\n%v, %v", a.Name, place, byURL, err)
			}
		}
	}
	if sandboxes < 8 {
		t.Errorf("there are %d sandboxes", sandboxes)
	}
}

// A connector for a server of the user's own has no other URL of production, or an error names it (threats.md 370).
func TestURLsMoveTogether(t *testing.T) {
	apis := testworld.Must(All())(t)
	refused := 0
	for _, a := range apis {
		_, path, _ := strings.Cut(strings.TrimPrefix(base(a.Connector), "https://"), "/")
		moved, err := a.With(Options{URL: "https://own.example/" + path})
		if err != nil {
			if a.AuthType() != "oauth_authorization_code" { // users consent at a host of its own, mostly
				refused++
			}
			if !slices.ContainsFunc(produced(a, a.Connector, nil), func(h string) bool { return strings.Contains(err.Error(), h) }) {
				t.Errorf("%s: err = %v", a.Name, err)
			}
			continue
		}
		if left := produced(a, moved.Connector, a.names()); len(left) > 0 {
			t.Errorf("%s at a URL of one's own has %q of production:\n%s", a.Name, left, moved.Connector)
		}
	}
	if refused == 0 || refused > 14 {
		t.Errorf("%d products cannot be moved", refused)
	}
}

const acmeOAuth = `name: acme
title: Acme
summary: Orders.
docs: https://acme.example/auth
try: GET /me
connector: |
  name: Acme
  url: https://your-shop.acme.example/v1
  auth:
    type: oauth_client_credentials
    config:
      client_id: one
      client_secret: "{{ get_secret('acme') }}"
      token_url: https://your-shop.acme.example/token
      audience: login.acme.example
      scope: https://acme.example/read
fill:
  - {replace: your-shop, what: the shop, where: It is there, example: one}
  - {secret: acme, what: the key, where: It is there, example: two}
places:
  sandbox: {your-shop.acme.example: your-shop.try.acme.example, login.acme.example: login.try.acme.example}
shared: [https://acme.example/read]
mistakes:
  - {do: A mistake., see: "401."}
`

// A place, and a URL, move the token endpoint and the audience with the API, and fill in what the URL has in its host.
func TestPlace(t *testing.T) {
	apis := testworld.Must(read(fstest.MapFS{"apis/acme.yaml": {Data: []byte(acmeOAuth)}}))(t)
	for name, c := range map[string]struct {
		o                    Options
		url, token, audience string
		fill                 int
		err                  string
	}{
		"the catalogue's":       {Options{}, "https://your-shop.acme.example/v1", "https://your-shop.acme.example/token", "login.acme.example", 2, ""},
		"the sandbox":           {Options{Place: "sandbox"}, "https://your-shop.try.acme.example/v1", "https://your-shop.try.acme.example/token", "login.try.acme.example", 2, ""},
		"the sandbox's URL":     {Options{URL: "https://a.try.acme.example/v1/"}, "https://a.try.acme.example/v1", "https://a.try.acme.example/token", "login.try.acme.example", 1, ""},
		"production's URL":      {Options{URL: "https://a.acme.example/v1"}, "https://a.acme.example/v1", "https://a.acme.example/token", "login.acme.example", 1, ""},
		"an unknown place":      {Options{Place: "eu"}, "", "", "", 0, `the catalogue has no place "eu" of acme: docs/apis.md names the places of each product`},
		"a server of one's own": {Options{URL: "https://own.example/v1"}, "", "", "", 0, "with --url https://own.example/v1, the connector of acme would still use login.acme.example: see docs/apis.md for --place, or make the file without --url and change each URL there"},
	} {
		a, err := apis[0].With(c.o)
		if err != nil || c.err != "" {
			if fmt.Sprint(err) != c.err {
				t.Errorf("%s: err = %v", name, err)
			}
			continue
		}
		for _, want := range []string{"url: " + c.url + "\n", "token_url: " + c.token + "\n", "audience: " + c.audience + "\n", "scope: https://acme.example/read\n"} {
			if !strings.Contains(a.Connector, want) {
				t.Errorf("%s: %s is not in\n%s", name, want, a.Connector)
			}
		}
		if len(a.Fill) != c.fill {
			t.Errorf("%s: left to fill in: %v", name, a.Fill)
		}
	}
}

// Page returns docs/apis.md, the catalogue for readers.
func Page(apis []*API) string {
	var b strings.Builder
	b.WriteString(`# Connectors of well-known products

<!-- Made from server/internal/onboard/catalogue/apis by: go -C server test ./internal/onboard/catalogue -update -->

` + "`keywright connector new --api NAME -c connectors.yaml`" + ` adds the connector of a product to a file, with comments that say what to fill
in. ` + "`--set TEXT=VALUE`" + ` fills in a text at once, and ` + "`--name`" + ` makes a second connector of the product, with secrets of its own.
` + "`--place`" + ` is for another environment or region of the product, with ` + "`--sandbox`" + ` as a short form of ` + "`--place sandbox`" + `, and ` + "`--url`" + ` for a
server of your own. They move all URLs of the product, the token endpoint too, or make nothing and say which URL cannot move.
Then the command says which secrets to store, which redirect URI to register, and which request to try. ` + "`keywright connector list`" + ` has this table:

| name | product | auth type |
|---|---|---|
`)
	for _, a := range apis {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | [`%s`](auth-types.md#%s) |\n", a.Name, a.Name, a.Title, a.AuthType(), a.AuthType())
	}
	b.WriteString(`
Each connector is run by a test, with made-up secrets, against a server that checks what the product documents about hosts, headers,
forms and signatures, and that refuses other secrets. No request went to a product itself. What users see after a mistake is
from the documentation of the products, as far as it is known, and may change.

For any other API, begin with an example of its [auth type](auth-types.md).
`)
	for _, a := range apis {
		a.section(&b)
	}
	return b.String()
}

// section writes the section of a product.
func (a *API) section(b *strings.Builder) {
	fmt.Fprintf(b, "\n## `%s`\n\n%s: %s\n[What it documents](%s).\n\n```yaml\n", a.Name, a.Title, a.Summary, a.Docs)
	a.entry(b)
	b.WriteString("```\n\n| fill in | with |\n|---|---|\n")
	for _, f := range a.Fill {
		name, kind := f.Replace, ""
		if f.Secret != "" {
			name, kind = f.Secret, "the secret "
		}
		fmt.Fprintf(b, "| %s`%s` | %s, such as `%s`. %s. |\n", kind, name, f.What, f.Example, f.Place())
	}
	for _, place := range a.placeNames() {
		fmt.Fprintf(b, "| `--place %s` | the place at `%s`. |\n", place, base(a.replaced(a.Places[place], a.Shared)))
	}
	fmt.Fprintf(b, "\nTry `keywright request %s`.\n\n| mistake | what you see |\n|---|---|\n", a.Arguments())
	for _, m := range a.Mistakes {
		fmt.Fprintf(b, "| %s | %s |\n", m.Do, m.See)
	}
}
