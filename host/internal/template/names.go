package template

import (
	"regexp"
	"slices"
)

// validName is the shape of the names of secrets and variables.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Names is what the expressions of a template name, whether or not a branch that names it is ever evaluated. All of it
// is literal in the source, so it is known before anything is rendered. Each list is sorted and without repetition.
type Names struct {
	Secrets   []string // given to get_secret
	Variables []string // given to get_variable
	User      []string // fields of user: "email", "first_name", "id", "last_name", "username"
	Tenant    bool     // tenant_id
}

// Merge adds what other names. It changes no array that n or other shares with someone else.
func (n *Names) Merge(other Names) {
	n.Secrets = union(n.Secrets, other.Secrets)
	n.Variables = union(n.Variables, other.Variables)
	n.User = union(n.User, other.User)
	n.Tenant = n.Tenant || other.Tenant
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
