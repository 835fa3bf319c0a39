package template

import (
	"cmp"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlcheck"
)

type (
	// Error describes what is wrong with a template, or why it could not be rendered.
	Error = expr.Error
	// Values provides the values that expressions use.
	Values = expr.Values
	// Discovery is a call of discover.
	Discovery = expr.Discovery
	// User is the person on whose behalf a request is made.
	User = expr.User
)

// Lists of the known names, for errors about unknown ones. A test compares them with the language.
const (
	knownFunctions = "there are get_secret, get_key, get_variable, discover, now, uuid, default, base64_encode, base64_decode, json_encode, json_get"
	knownVariables = "there are tenant_id and user.email, user.id, user.username, user.first_name, user.last_name, user.token"
)

// NoKey is the error for get_key at a place that takes no key.
const NoKey = "get_key is for a field that takes a key, and this takes a text: use get_secret"

// language is the language of expressions in templates.
var language = &expr.Language{
	Group: func(path string) bool { return path == "user" },
	Name: func(group, name string) (*expr.Name, string) {
		if group != "" {
			name = group + "." + name
		}
		if name == "user" {
			return nil, "user is no value: name a field of it, such as user.email"
		}
		secret := ""
		if group == "" {
			secret = "; a secret, also one of the environment, is get_secret('NAME')"
		}
		return nil, "unknown variable " + problem.Quote(name) + ": " + knownVariables + secret
	},
	UnknownFunction: func(string) string { return knownFunctions },
	CheckDiscovery:  checkDiscovery,
}

// Names holds the names that the expressions of a template use, including those in branches that are never evaluated.
// Names are literals in the source, so they are known before a template is rendered. Each list is sorted and has no
// duplicates.
type Names struct {
	// Secrets are the names in get_secret. The secret of a tenant is named tenants/*/NAME, and that of a user users/*/NAME.
	// Owned is set if there is one of these.
	Secrets []string
	Owned   bool
	// Variables are the arguments of get_variable.
	Variables []string
	// Discovered are the calls of discover.
	Discovered []Discovery
	// User are the fields of user: "email", "first_name", "id", "last_name", "token", "username". The id is one of them if a
	// secret of a user is named.
	User []string
	// Tenant is set if tenant_id is used, or a secret of a tenant is named.
	Tenant bool
}

// UserToken reports whether the user's token is among the names.
func (n *Names) UserToken() bool { return slices.Contains(n.User, expr.UserToken) }

// Merge adds the names in n2 to n. It makes new slices, so it does not change slices that n or n2 share with
// others. It copies all names in n, so use [Merged] to merge many.
func (n *Names) Merge(n2 Names) { *n = Merged(*n, n2) }

// Merged returns the names that are in any of all.
func Merged(all ...Names) (n Names) {
	var secrets, variables, user [][]string
	var discovered []Discovery
	for _, names := range all {
		secrets, variables, user = append(secrets, names.Secrets), append(variables, names.Variables), append(user, names.User)
		discovered = append(discovered, names.Discovered...)
		n.Tenant, n.Owned = n.Tenant || names.Tenant, n.Owned || names.Owned
	}
	n.Secrets, n.Variables, n.User = union(secrets...), union(variables...), union(user...)
	slices.SortFunc(discovered, func(a, b Discovery) int {
		return cmp.Or(cmp.Compare(a.Issuer, b.Issuer), cmp.Compare(a.Member, b.Member))
	})
	n.Discovered = slices.Compact(discovered)
	return n
}

func union(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

func namesOf(all []*expr.Expression) (n Names) {
	for _, e := range all {
		n.Secrets, n.Variables = append(n.Secrets, e.Secrets...), append(n.Variables, e.Variables...)
		n.Discovered = append(n.Discovered, e.Discovered...)
		for _, name := range e.Subject {
			field, isUser := strings.CutPrefix(name, "user.")
			if isUser {
				n.User = append(n.User, field)
			}
			n.Tenant = n.Tenant || !isUser
		}
	}
	n.Owned = slices.ContainsFunc(n.Secrets, expr.Owned)
	return Merged(n)
}

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
