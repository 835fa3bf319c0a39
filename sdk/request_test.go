package sdk

import (
	"net/http"
	"net/url"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/keywright/keywright/internal/testworld"
)

// Split returns the parts of a URL, and its target is that of the request line.
func TestSplit(t *testing.T) {
	for _, test := range []struct{ url, scheme, authority, target string }{
		{"https://api.test", "https", "api.test", "/"},
		{"https://api.test/", "https", "api.test", "/"},
		{"https://API.test:443/A%20b", "https", "api.test", "/A%20b"},
		{"http://api.test:80?a=1", "http", "api.test", "/?a=1"},
		{"https://api.test:80/?", "https", "api.test:80", "/?"},
		{"http://api.test:443/a//b;c=1?d=/&e=%3F#f?g", "http", "api.test:443", "/a//b;c=1?d=/&e=%3F"},
		{"https://[FE80::443]/x", "https", "[fe80::443]", "/x"},
		{"https://[::1]:443?x", "https", "[::1]", "/?x"},
		{"https://api.test?a=b/c", "https", "api.test", "/?a=b/c"},
	} {
		scheme, authority, target := (&Request{URL: test.url}).Split()
		if scheme != test.scheme || authority != test.authority || target != test.target {
			t.Errorf("%s: scheme = %s, authority = %s, target = %s", test.url, scheme, authority, target)
		}
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil))(t)
		if uri := r.URL.RequestURI(); uri != target {
			t.Errorf("%s: the target is %s, but %s is sent", test.url, target, uri)
		}
	}
}

// Host returns the host as it is sent, with its port and in its case.
func TestHost(t *testing.T) {
	for target, want := range map[string]string{
		"https://API.test:443/a?b=//c": "API.test:443", "https://api.test": "api.test", "https://[::1]:8443?a": "[::1]:8443", "https://api.test#f": "api.test",
	} {
		if got := (&Request{URL: target}).Host(); got != want {
			t.Errorf("%s: got = %s", target, got)
		}
	}
}

// ParseQuery decodes what net/url encodes, keeps the order and empty values, and takes what net/url refuses as it is.
func TestParseQuery(t *testing.T) {
	for query, want := range map[string][]Pair{
		"":                                nil,
		"&&":                              nil,
		"b5=%3D%253D&a3=a&c%40=&a2=r%20b": {{"b5", "=%3D"}, {"a3", "a"}, {"c@", ""}, {"a2", "r b"}},
		"c2&a3=2+q&a3=%32":                {{"c2", ""}, {"a3", "2 q"}, {"a3", "2"}},
		"a==b&=c&%zz=%&d=%4":              {{"a", "=b"}, {"", "c"}, {"%zz", "%"}, {"d", "%4"}},
		"a=%ff%FF%aB":                     {{"a", "\xff\xff\xab"}},
	} {
		if got := ParseQuery(query); !slices.Equal(got, want) {
			t.Errorf("%s: got = %q", query, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name, value := rapid.String().Draw(t, "name"), rapid.String().Draw(t, "value")
		if got := ParseQuery("x&" + url.QueryEscape(name) + "=" + url.QueryEscape(value)); len(got) != 2 || got[1] != (Pair{name, value}) {
			t.Fatalf("got = %q", got)
		}
	})
}
