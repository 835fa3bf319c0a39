package host_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

// The cases of specification.md "api_key".

func TestDecision_APIKey_header_present_already_is_replaced(t *testing.T) {
	w := newWorld(t)
	secret := w.canary("k")
	c := w.connect("api_key", with(key("{{ get_secret('k') }}"), "key", "x-API-key"))
	r := get(t.Context())
	r.Header = http.Header{"X-Api-Key": {"a", "b"}, "x-api-key": {"c"}, "X-API-KEY": {"d"}, "X-Other": {"e"}}
	got := w.send(c, r).Header
	var values []string
	for name, v := range got {
		if strings.EqualFold(name, "X-Api-Key") {
			values = append(values, v...)
		}
	}
	if !slices.Equal(values, []string{secret}) || got.Get("X-Other") != "e" {
		t.Errorf("the header was sent %d times in all its spellings, want the secret once; X-Other is %q", len(values), got.Get("X-Other"))
	}
}

func TestDecision_APIKey_names_that_are_refused(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{
		"Host", "host", "Content-Length", "Transfer-Encoding", "Connection", "TE", "Trailer", "Upgrade", "Keep-Alive",
		"Proxy-Authorization", "proxy-connection", "Proxy-X", "X Key", "X:Key", "X\r\nY", "schlüssel", "X-Key\x00",
	} {
		if got := w.problems("api_key", with(key("v"), "key", name)); len(got) != 1 || !strings.HasPrefix(got[0], "auth.config.key: ") {
			t.Errorf("%q has the problems %q when loaded", name, got)
		}
		w.setSecret("name", name)
		w.refuse(w.connect("api_key", with(key("v"), "key", "{{ get_secret('name') }}")), get(t.Context()), host.StageMutation)
	}
	for _, name := range []string{"Host", "TE", "schlüssel"} { // a query parameter may have any name
		w.get(w.connect("api_key", config{"key": name, "value": "v", "in": "query"}))
	}
}

func TestDecision_APIKey_query_is_appended(t *testing.T) {
	w := newWorld(t)
	w.setSecret("k", "a b&c=d/ü+%")
	c := w.connect("api_key", config{"key": "api key", "value": "{{ get_secret('k') }}", "in": "query"})
	const appended = "api%20key=a%20b%26c%3Dd%2F%C3%BC%2B%25"
	for url, want := range map[string]string{
		apiURL:                            "?" + appended,
		apiURL + "?":                      "?" + appended,
		apiURL + "?a=1&api+key=mine":      "?a=1&api+key=mine&" + appended,
		apiURL + "?b=%7e&a;c=%zz&&x":      "?b=%7e&a;c=%zz&&x&" + appended,
		apiURL + "/%2e%2F%41?q=a%20b+c":   "/%2e%2F%41?q=a%20b+c&" + appended,
		apiURL + "?q={{get_secret('k')}}": "?q={{get_secret('k')}}&" + appended,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.send(c, r).URL; got != apiURL+want {
			t.Errorf("%s was sent as %s, want %s", url, got, apiURL+want)
		}
	}
}

func TestDecision_APIKey_names_that_are_allowed(t *testing.T) {
	w := newWorld(t)
	secret := w.canary("k")
	for _, name := range []string{"Accept", "Cookie", "Authorization"} {
		r := get(t.Context())
		r.Header.Set(name, "mine")
		if got := w.send(w.connect("api_key", with(key("{{ get_secret('k') }}"), "key", name)), r).Header.Values(name); !slices.Equal(got, []string{secret}) {
			t.Errorf("%s was sent %d times, want the secret once", name, len(got))
		}
	}
}
