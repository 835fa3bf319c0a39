package urlcheck

import (
	"net/url"
	"strings"
)

// MemberName returns the decoded name of a member of a form or query, as an API may read it: until a NUL, as C does, and as PHP makes a
// variable of it (manual, "Variables From External Sources"; main/php_variables.c for a [ without a ]). If the name cannot be decoded,
// MemberName returns it as it is.
func MemberName(member string) string {
	name, _, _ := strings.Cut(member, "=")
	if decoded, err := url.QueryUnescape(name); err == nil {
		name = decoded
	}
	name, _, _ = strings.Cut(name, "\x00")
	name = variable.Replace(strings.TrimSpace(name))
	if before, after, open := strings.Cut(name, "["); open && !strings.Contains(after, "]") {
		return before + "_" + after
	}
	return name
}

var variable = strings.NewReplacer(" ", "_", ".", "_")

// MayBeMember reports whether an API may take a member for another one: in any case of letters, or for a list of that name. Both names
// are those of MemberName.
func MayBeMember(name, other string) bool {
	return strings.EqualFold(name, other) || len(name) > len(other) && strings.EqualFold(name[:len(other)], other) && name[len(other)] == '['
}
