package problem

import (
	"strings"
	"testing"
)

func TestNamesThatWereMeant(t *testing.T) {
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

func TestSuggestions(t *testing.T) {
	for name, want := range map[string]string{"api_kye": `; did you mean "api_key"?`, "basic": "; there are api_key, jwt"} {
		if got := DidYouMean(name, []string{"api_key", "jwt"}); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
