package template

import (
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/expr"
)

type (
	// Error says what is wrong with a template, or why it could not be rendered.
	Error = expr.Error
	// Values holds the values of expressions.
	Values = expr.Values
	// User is the person on whose behalf a request is made.
	User = expr.User
)

// What a name that is not known might have been. A test holds them against what there is.
const (
	knownFunctions = "there are get_secret, get_variable, now, uuid, default, base64_encode, base64_decode, json_encode"
	knownVariables = "there are tenant_id and user.email, user.id, user.username, user.first_name, user.last_name"
)

// language is that of templates.
var language = &expr.Language{
	Group: func(path string) bool { return path == "user" },
	Name: func(group, name string) (*expr.Name, string) {
		if group != "" {
			name = group + "." + name
		}
		if name == "user" {
			return nil, "user is no value: name a field of it, such as user.email"
		}
		return nil, "unknown variable " + expr.Quote(name) + ": " + knownVariables
	},
	UnknownFunction: func(string) string { return knownFunctions },
}

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

func namesOf(all []*expr.Expression) (n Names) {
	for _, e := range all {
		n.Secrets, n.Variables = append(n.Secrets, e.Secrets...), append(n.Variables, e.Variables...)
		for _, name := range e.Subject {
			field, isUser := strings.CutPrefix(name, "user.")
			if isUser {
				n.User = append(n.User, field)
			}
			n.Tenant = n.Tenant || !isUser
		}
	}
	return Merged(n)
}
