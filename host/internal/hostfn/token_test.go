package hostfn

import (
	"testing"
	"time"
)

// The text of a TokenError rounds the wait up to whole seconds, so that nobody tries again too early.
func TestTextOfATokenError(t *testing.T) {
	const asked = "the token endpoint answered 401 (invalid_client); it is asked again in "
	for after, want := range map[time.Duration]string{
		0:                       "the token endpoint answered 401 (invalid_client)",
		1:                       asked + "1s",
		time.Second - 1:         asked + "1s",
		time.Second:             asked + "1s",
		time.Second + 1:         asked + "2s",
		2*time.Minute - 1:       asked + "2m0s",
		1500 * time.Millisecond: asked + "2s",
	} {
		if got := (&TokenError{Status: 401, Code: "invalid_client", RetryAfter: after}).Error(); got != want {
			t.Errorf("%v: %q, want %q", after, got, want)
		}
	}
}
