package hostfn

import (
	"errors"
	"net/http"
	"slices"
)

// passing is an error of the moment: the same call may succeed later, with nothing changed.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// Passing marks an error as one of the moment. Its text stays the same.
func Passing(err error) error { return passing{err} }

// IsPassing reports whether an error, or one that it wraps, is marked as one of the moment.
func IsPassing(err error) bool { return errors.As(err, new(passing)) }

// Passing reports whether the endpoint failed, or asks for another try.
func (e *TokenError) Passing() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= http.StatusInternalServerError || slices.Contains(momentary, e.Code)
}

// momentary are error codes that ask for another try: RFC 8628 section 3.5, 9449 section 8, 6749 section 4.1.2.1.
var momentary = []string{"authorization_pending", "slow_down", "use_dpop_nonce", "server_error", "temporarily_unavailable"}
