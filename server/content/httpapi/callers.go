package httpapi

import (
	"errors"
	"net/http"
	"net/netip"
)

// Callers authenticates callers. It must be safe for concurrent use.
type Callers interface {
	// Caller returns the sender of a request. The error is an [*UnauthenticatedError] if the request does not prove who
	// sent it. Any other error, such as [ErrUnavailable], means that callers cannot be authenticated at the moment; it
	// is logged.
	Caller(r *http.Request) (Caller, error)
}

// Caller is the authenticated sender of a request.
type Caller struct {
	// Name is the name of the caller in events.
	Name string
	// ID distinguishes callers of the same name, so that each has its own share of the concurrent requests. It has no
	// other use.
	ID string
	// Moderate reports whether a moderatorId in the caller's requests has an effect.
	Moderate bool
}

// owner returns the caller's name as an owner of places.
func (c Caller) owner() string { return "caller " + c.Name + " " + c.ID }

// addressOf returns the name of an unauthenticated caller as an owner of places: its IP address. For IPv6 it is the /64
// network, because one client has all addresses of it.
func addressOf(r *http.Request) string {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil { // the listener is not a TCP listener
		return "address " + r.RemoteAddr
	}
	const network = 64 // bits
	ip := address.Addr().Unmap().WithZone("")
	if ip.Is6() {
		prefix, _ := ip.Prefix(network) // it fails only for more than 128 bits
		ip = prefix.Addr()
	}
	return "address " + ip.String()
}

// UnauthenticatedError is the error of a request that does not prove who sent it.
type UnauthenticatedError struct {
	// Challenges are the values of WWW-Authenticate, such as `Bearer error="invalid_token"` (RFC 9110 section 11.6.1).
	// If it is empty, the value is Bearer.
	Challenges []string
}

func (*UnauthenticatedError) Error() string { return "the request does not prove who sent it" }

// ErrUnavailable is the error of a request whose sender cannot be authenticated at the moment.
var ErrUnavailable = errors.New("callers cannot be told at the moment")

func callerProblem(err error) *httpProblem {
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
