package hostfn

import (
	"errors"
	"net/http"
	"slices"
)

// passing is a temporary error: the same call may succeed later, with nothing changed.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// Passing returns err, marked as temporary. The text stays the same.
func Passing(err error) error { return passing{err} }

// IsPassing reports whether err, or an error that it wraps, is marked as temporary.
func IsPassing(err error) bool { return errors.As(err, new(passing)) }

// Passing reports whether the answer is a failure of the endpoint, or asks for another try. Then the same request may
// succeed later.
func (e *TokenError) Passing() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= http.StatusInternalServerError || slices.Contains(retryCodes, e.Code)
}

// retryCodes holds the error codes that ask for another try: RFC 8628 section 3.5, RFC 9449 section 8, RFC 6749 section
// 4.1.2.1.
var retryCodes = []string{"authorization_pending", "slow_down", "use_dpop_nonce", "server_error", "temporarily_unavailable"}
