package explain

import "testing"

// Text of a plugin or a template that only looks like a JWT is shown unchanged.
func TestCutJWT(t *testing.T) {
	for text, want := range map[string]bool{
		`{"alg":"HS256"}.{"a":">"}>`: true,
		`{"alg":"HS256"}.{"a":1}`:    false,
		`{"alg":"HS256"}{"a":1}>`:    false,
		`{"alg"`:                     false,
		``:                           false,
	} {
		if _, _, ok := cutJWT(text); ok != want {
			t.Errorf("%s: ok = %t", text, ok)
		}
	}
}
