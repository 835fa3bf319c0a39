package httpapi

import (
	"errors"
	"net/http"
	"net/netip"
)

// Callers identifies the sender of a request. Errors: an [*UnauthenticatedError], or [ErrUnavailable]; others count as the latter,
// and are logged.
type Callers interface {
	Caller(r *http.Request) (Caller, error)
}

// Caller is who sent a request.
type Caller struct {
	Name     string // for events
	ID       string // tells callers of one name apart, so that each has a share of the places; for nothing else
	Moderate bool   // whether a moderatorId counts that this caller gives
}

// owner returns the name under which a caller has places.
func (c Caller) owner() string { return "caller " + c.Name + " " + c.ID }

// addressOf returns the name under which those have places who need not prove who they are: their address. With IPv6 it is
// their network, since one client has all addresses of it.
func addressOf(r *http.Request) string {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil { // of a listener that is not of TCP
		return "address " + r.RemoteAddr
	}
	const network = 64 // bits, of IPv6
	ip := address.Addr().Unmap().WithZone("")
	if ip.Is6() {
		prefix, _ := ip.Prefix(network) // it fails for more bits than there are
		ip = prefix.Addr()
	}
	return "address " + ip.String()
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
