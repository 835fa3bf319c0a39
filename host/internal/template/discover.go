package template

import (
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlcheck"
)

// endpoints are the members of an authorization server's metadata that discover returns: RFC 8414 section 2, RFC 8628 section 4,
// RFC 9126 section 5, OpenID Connect Discovery section 3. Each is the URL of an endpoint.
var endpoints = []string{
	"authorization_endpoint", "token_endpoint", "revocation_endpoint", "introspection_endpoint", "registration_endpoint",
	"device_authorization_endpoint", "pushed_authorization_request_endpoint", "userinfo_endpoint",
}

// checkDiscovery returns what is wrong with a call of discover, and the number of the argument that is wrong. Whether an issuer
// may be one of plain http is for the host to decide.
func checkDiscovery(d Discovery) (argument int, wrong string) {
	const issuer = "the issuer "
	rule := urlcheck.Rule{AllowHTTP: true, Example: "https://login.example.com"}
	u, err := rule.Parse(d.Issuer)
	switch {
	case err != nil:
		return 0, issuer + err.Error()
	case strings.Contains(u.Path, "/.well-known/"):
		return 0, issuer + "is the URL of the metadata: write the value of the member issuer in it"
	case strings.Contains(d.Issuer, "?"):
		return 0, issuer + "has a query, which an issuer must not have (RFC 8414 section 2)"
	case !slices.Contains(endpoints, d.Member):
		return 1, "there is no such endpoint" + problem.DidYouMean(d.Member, endpoints)
	}
	return 0, ""
}
