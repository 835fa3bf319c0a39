package httpapi

import (
	"errors"
	"net/http"
)

// Callers tells who sent a request. Errors: an [*UnauthenticatedError], or [ErrUnavailable]; others count as the latter, and are
// logged.
type Callers interface {
	Caller(r *http.Request) (Caller, error)
}

// Caller is who sent a request.
type Caller struct {
	Name     string // for events
	Moderate bool   // whether a moderatorId counts that this caller gives
}

// UnauthenticatedError says that a request does not prove who sent it.
type UnauthenticatedError struct {
	// Challenges are the values of WWW-Authenticate, such as `Bearer error="invalid_token"` (RFC 9110 section 11.6.1). None:
	// Bearer.
	Challenges []string
}

func (*UnauthenticatedError) Error() string { return "the request does not prove who sent it" }

// ErrUnavailable says that it cannot be told at the moment who sent a request.
var ErrUnavailable = errors.New("callers cannot be told at the moment")

func callerProblem(err error) *problem {
	if unproven, ok := errors.AsType[*UnauthenticatedError](err); ok {
		p := *unauthenticated
		p.challenges = unproven.Challenges
		if len(p.challenges) == 0 {
			p.challenges = []string{"Bearer"}
		}
		return &p
	}
	p := *callersUnavailable
	p.cause = err
	return &p
}
