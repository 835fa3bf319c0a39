package catalogue

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/keywright/keywright/internal/testworld"
)

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
		if regexp.MustCompile(`(^|[^a-zA-Z0-9.-])` + regexp.QuoteMeta(h)).MatchString(connector) {
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

// A connector for a server of the user's own has no other URL of production, or is none, with an error that names the URLs that
// cannot move (threats.md 370).
func TestURLsMoveTogether(t *testing.T) {
	apis := testworld.Must(All())(t)
	refused := 0
	for _, a := range apis {
		_, path, _ := strings.Cut(strings.TrimPrefix(base(a.Connector), "https://"), "/")
		moved, err := a.With(Options{URL: "https://own.example/" + path})
		if err != nil {
			refused++
			if !slices.ContainsFunc(produced(a, a.Connector, nil), func(h string) bool { return strings.Contains(err.Error(), h) }) {
				t.Errorf("%s: err = %v", a.Name, err)
			}
			continue
		}
		if left := produced(a, moved.Connector, a.names()); len(left) > 0 {
			t.Errorf("%s at a URL of one's own has %q of production:\n%s", a.Name, left, moved.Connector)
		}
	}
	if refused == 0 || refused > 10 {
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
