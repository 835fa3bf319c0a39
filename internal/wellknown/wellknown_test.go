package wellknown_test

import (
	"testing"

	"github.com/keywright/keywright/internal/wellknown"
)

// A location is that of the issuer from which it is made, but for a slash at the issuer's end.
func TestLocationsOfIssuers(t *testing.T) {
	for issuer, want := range map[string]string{
		"https://login.test": "https://login.test", "https://login.test/": "https://login.test", "https://login.test:8443/a/b%2Fc": "https://login.test:8443/a/b%2Fc",
	} {
		ofOAuth, ofOpenID := wellknown.Locations(issuer)
		if got := wellknown.Issuer(ofOAuth); got != want {
			t.Errorf("%s: %s is of %q", issuer, ofOAuth, got)
		}
		if got := wellknown.Issuer(ofOpenID); got != want {
			t.Errorf("%s: %s is of %q", issuer, ofOpenID, got)
		}
	}
	for _, location := range []string{"https://login.test/.well-known/jwks.json", "https://login.test/jwks", "https://login.test", "%"} {
		if got := wellknown.Issuer(location); got != "" {
			t.Errorf("%s is of %q", location, got)
		}
	}
}

// threats.md 140 and 187: metadata is of the issuer that it names, byte by byte.
func TestIssuersOfDocuments(t *testing.T) {
	const issuer = "https://login.test/a"
	for member, match := range map[any]bool{
		issuer: true, issuer + "/": false, "https://login.test": false, "https://LOGIN.test/a": false, "https://login.test/%61": false, "": false, 1: false, nil: false,
	} {
		if got := wellknown.Mismatch(member, issuer); (got == "") != match {
			t.Errorf("%v: got = %q", member, got)
		}
	}
}
