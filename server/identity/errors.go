package identity

import "errors"

// Errors of [Identifier.User] and [Identifier.Claims]. Each is wrapped in an [*Error]; test for it with errors.Is.
var (
	// ErrUnauthenticated is returned if the request has no session, or an invalid one. Respond with status 401.
	ErrUnauthenticated = errors.New("there is no valid session")
	// ErrAmbiguous is returned if the request names its user in two ways, because another program may have read the other
	// one. Respond with status 400.
	ErrAmbiguous = errors.New("the request says in more than one way who its user is")
	// ErrUnavailable is returned if the keys that verify sessions cannot be read now. Respond with status 503.
	ErrUnavailable = errors.New("sessions cannot be verified now")
)

// An Error explains why the user of a request could not be found. Its text is for the operator's log, not for the caller. It
// never contains the token or the value of a claim or header.
type Error struct {
	// Challenge is the value for WWW-Authenticate in the response (RFC 6750 section 3). If it is empty, the response has no
	// such header.
	Challenge string

	kind   error
	reason string
	// missing is true if the request has no token.
	missing bool
	// cause is an underlying error, such as that of the request's context. It may be nil.
	cause error
}

func (e *Error) Error() string { return e.kind.Error() + ": " + e.reason }

// Unwrap returns [ErrUnauthenticated], [ErrAmbiguous] or [ErrUnavailable], and the underlying error if there is one.
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
