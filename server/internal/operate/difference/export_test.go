package difference

import "slices"

// HasRule reports whether there is a rule for a member.
func HasRule(at string) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.matches(at) })
}
