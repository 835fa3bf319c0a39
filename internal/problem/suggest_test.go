package problem

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"api_key", "jwt", "client_secret", "createdAt", "proxies"}
	for name, want := range map[string]string{
		"api_kye": "api_key", "apikey": "api_key", "jtw": "jwt", "jw": "jwt", "client_secrt": "client_secret", "clientsecret": "client_secret",
		"CREATEDAT": "createdAt", "created_at": "createdAt", "proxy": "proxies", "jwts": "jwt", "none": "", "basic": "", "": "", "xyz": "", strings.Repeat("api_key", 100): "",
	} {
		if got, ok := Nearest(name, known); got != want || ok != (want != "") {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// A name of up to 64 letters has room for two slips, a short one for one.
func TestNearestDistance(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, c := range []struct {
		name, known string
		meant       bool
	}{
		{"jab", "jwt", false},
		{"jwb", "jwt", true},
		{"abc", "abcde", false},
		{"badcef", "abcdef", true},
		{"badcfe", "abcdef", false},
		{"b" + long[1:], long, true},
		{long[1:], long, true},
		{long + "b", long, false},
		{long, long + "b", false},
	} {
		if got, ok := Nearest(c.name, []string{c.known}); ok != c.meant {
			t.Errorf("%s for %s: %q, want it to be meant: %t", c.name, c.known, got, c.meant)
		}
	}
}

func TestSuggestions(t *testing.T) {
	for name, want := range map[string]string{"api_kye": `; did you mean "api_key"?`, "basic": "; there are api_key, jwt"} {
		if got := DidYouMean(name, []string{"api_key", "jwt"}); got != want {
			t.Errorf("%s: got = %s", name, got)
		}
	}
}
