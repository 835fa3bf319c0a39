package expr

import (
	"cmp"
	"slices"
)

// Names holds the names that expressions use, including those in branches that are never evaluated. Names are literals in
// the source, so they are known before a template is rendered.
type Names struct {
	// Secrets are the names in get_secret. The secret of a tenant is named tenants/*/NAME, and that of a user users/*/NAME.
	// Owned is set if there is one of these.
	Secrets []string
	Owned   bool
	// Variables are the arguments of get_variable.
	Variables []string
	// Discovered are the calls of discover.
	Discovered []Discovery
	// Identities are the calls of identity.
	Identities []Identity
	// User are the fields of user: "email", "first_name", "id", "last_name", "token", "username". The id is one of them if a
	// secret of a user is named.
	User []string
	// Tenant is set if tenant_id is used, or a secret of a tenant is named.
	Tenant bool
}

// UserToken reports whether the user's token is among the names.
func (n *Names) UserToken() bool { return slices.Contains(n.User, UserToken) }

// Listed reports whether a token is among the names that goes to listed hosts only: the user's, or that of an identity.
func (n *Names) Listed() bool { return n.UserToken() || len(n.Identities) > 0 }

// Merged returns the names that are in any of all, each list sorted and without duplicates. It makes new slices, and changes none of theirs.
func Merged(all ...Names) (n Names) {
	for _, names := range all {
		n.Secrets, n.Variables, n.User = append(n.Secrets, names.Secrets...), append(n.Variables, names.Variables...), append(n.User, names.User...)
		n.Discovered = append(n.Discovered, names.Discovered...)
		n.Identities = append(n.Identities, names.Identities...)
		n.Tenant, n.Owned = n.Tenant || names.Tenant, n.Owned || names.Owned
	}
	for _, list := range []*[]string{&n.Secrets, &n.Variables, &n.User} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.SortFunc(n.Discovered, func(a, b Discovery) int {
		return cmp.Or(cmp.Compare(a.Issuer, b.Issuer), cmp.Compare(a.Member, b.Member))
	})
	n.Discovered = slices.Compact(n.Discovered)
	slices.SortFunc(n.Identities, func(a, b Identity) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Audience, b.Audience))
	})
	n.Identities = slices.Compact(n.Identities)
	return n
}
