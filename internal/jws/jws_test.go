package jws

import (
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// Method returns the implementation of each listed algorithm and of no other name, whatever is in golang-jwt's registry.
func TestMethod(t *testing.T) {
	jwt.RegisterSigningMethod("XS256", func() jwt.SigningMethod { return jwt.SigningMethodNone })
	for i, name := range Algorithms() {
		if m := Method(name); m == nil || m.Alg() != name || Symmetric(name) != (i < 3) {
			t.Errorf("%s is %v", name, m)
		}
	}
	for _, name := range []string{"none", "None", "", "hs256", "ES256K", "XS256"} {
		if m := Method(name); m != nil {
			t.Errorf("%q is %s", name, m.Alg())
		}
	}
}
