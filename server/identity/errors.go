package identity

import "errors"

// What [Identifier.User] fails with, to be told apart by errors.Is. Each comes as an [*Error].
var (
	// ErrUnauthenticated: there is no session, or one that is not valid. The answer is 401.
	ErrUnauthenticated = errors.New("there is no valid session")
	// ErrAmbiguous: the request says in two ways who its user is, and others may have believed the other one. The
	// answer is 400.
	ErrAmbiguous = errors.New("the request says in more than one way who its user is")
	// ErrUnavailable: the keys that sessions are verified with cannot be had at the moment. The answer is 503.
	ErrUnavailable = errors.New("sessions cannot be verified now")
)

// Error says why a request has no user. Its text is for the operator's log, not for the caller. It never holds the token,
// the value of a claim or that of a header.
type Error struct {
	// Challenge is the value of WWW-Authenticate that belongs to the answer (RFC 6750 section 3), or "".
	Challenge string

	kind   error
	reason string
	cause  error // such as the end of the request's context
}

func (e *Error) Error() string { return e.kind.Error() + ": " + e.reason }

// Unwrap lets errors.Is find the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

func unauthenticated(reason string) *Error { return &Error{kind: ErrUnauthenticated, reason: reason} }
func ambiguous(reason string) *Error       { return &Error{kind: ErrAmbiguous, reason: reason} }

func unavailable(reason string, cause error) *Error {
	return &Error{kind: ErrUnavailable, reason: reason, cause: cause}
}
