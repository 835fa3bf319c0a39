package sdk

import (
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
)

// ReservedHeaders are the members of a JWT header that a configuration may not set: alg follows from the key, and the
// others change what a signature means (RFC 7515 section 4.1.11, RFC 7797).
var ReservedHeaders = []string{"alg", "crit", "b64"}

// Reserved returns a problem for each member of an object field that has one of the names, which are in lower case. A
// member has a name also when it differs from it in case, since some readers of JSON ignore that.
func (c *Config) Reserved(field, message string, names ...string) []Problem {
	var problems []Problem
	object, _ := c.Literal(field)
	err := EachMember(object, func(name, _ string) error {
		for _, reserved := range names {
			switch {
			case name == reserved:
				problems = append(problems, Problem{Field: field + "." + name, Message: message + ", remove it"})
			case foldsTo(name, reserved):
				problems = append(problems, Problem{
					Field: field + "." + name, Message: "is " + reserved + " to readers that ignore case, and that " + message + ", remove it",
				})
			}
		}
		return nil
	})
	if err != nil {
		problems = append(problems, Problem{Field: field, Message: err.Error()})
	}
	return problems
}

// Misspelled returns a problem for each member of an object field that has one of the names for readers that ignore case,
// but not as it is written here, in lower case: it would be there beside what the host has set.
func (c *Config) Misspelled(field string, names ...string) []Problem {
	var problems []Problem
	object, _ := c.Literal(field)
	_ = EachMember(object, func(name, _ string) error {
		for _, reserved := range names {
			if name != reserved && foldsTo(name, reserved) {
				problems = append(problems, Problem{Field: field + "." + name, Message: "is " + reserved + " to readers that ignore case, write it so"})
			}
		}
		return nil
	})
	return problems
}

// CheckHeaderName says what is wrong with the name of a header, or "".
func CheckHeaderName(name string) string { return abi.CheckHeaderName(name) }

// foldsTo reports whether strings.EqualFold holds of a name and one in lower-case ASCII. Of all letters beyond ASCII, only
// two fold to one in it. (The tables of package unicode would add kilobytes to each plugin that checks names.)
func foldsTo(name, lower string) bool {
	for _, r := range name {
		switch {
		case 'A' <= r && r <= 'Z':
			r += 'a' - 'A'
		case r == 'ſ':
			r = 's'
		case r == '\u212a': // the sign of the unit kelvin
			r = 'k'
		}
		if lower == "" || r >= utf8.RuneSelf || byte(r) != lower[0] {
			return false
		}
		lower = lower[1:]
	}
	return lower == ""
}
