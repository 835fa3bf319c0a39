package nearest

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	known := []string{"api_key", "jwt", "client_secret", "createdAt", "proxies"}
	for name, want := range map[string]string{
		"api_kye": "api_key", "apikey": "api_key", "jtw": "jwt", "jw": "jwt", "client_secrt": "client_secret", "clientsecret": "client_secret",
		"CREATEDAT": "createdAt", "created_at": "createdAt", "proxy": "proxies", "jwts": "jwt", "none": "", "basic": "", "": "", "xyz": "", strings.Repeat("api_key", 100): "",
	} {
		if got, ok := Name(name, known); got != want || ok != (want != "") {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
