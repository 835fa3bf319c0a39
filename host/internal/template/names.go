package template

import (
	"regexp"
	"slices"
)

// validName is the shape of the names of secrets and variables.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Names holds the names in the expressions of a template, whether or not a branch that has them is ever evaluated. All of it
// is literal in the source, so it is known before anything is rendered. Each list is sorted and without repetition.
type Names struct {
	Secrets   []string // given to get_secret
	Variables []string // given to get_variable
	User      []string // fields of user: "email", "first_name", "id", "last_name", "username"
	Tenant    bool     // tenant_id
}

// Merge adds what other names. It changes no array that n or other shares with someone else. It takes time for all that n
// has already, so use [Merged] for many.
func (n *Names) Merge(other Names) { *n = Merged(*n, other) }

// Merged returns what any of them names.
func Merged(all ...Names) (n Names) {
	var secrets, variables, user [][]string
	for _, names := range all {
		secrets, variables, user = append(secrets, names.Secrets), append(variables, names.Variables), append(user, names.User)
		n.Tenant = n.Tenant || names.Tenant
	}
	n.Secrets, n.Variables, n.User = union(secrets...), union(variables...), union(user...)
	return n
}

func union(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}
