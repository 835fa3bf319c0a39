package sdk

import (
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/internal/contract"
)

// ReservedHeaders returns the members of a JOSE header that a configuration may not set. The host sets alg; crit and b64 change
// the meaning of a signature (RFC 7515 section 4.1.11, RFC 7797).
func ReservedHeaders() []string { return []string{"alg", "crit", "b64"} }

// Reserved returns a problem for each member of an object field whose name is one of names. It ignores case, because some
// readers of JSON do. The names must be in lower case. The message says why a name is reserved, such as "is fixed by the
// host".
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

// Misspelled returns a problem for each member of an object field whose name differs from one of names in case only. The
// names must be in lower case. Readers that ignore case would find such a member beside the one that the host sets.
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

// CheckName returns the problem of a field whose value is a name in a place, if no request could have the name. The place is header,
// cookie or path. Other places take any name.
func (c *Config) CheckName(field, place string) []Problem {
	name, literal := c.Literal(field)
	message := ""
	switch {
	case !literal:
	case place == "header":
		message = contract.CheckHeaderName(name)
	case place == "cookie" && !IsToken(name):
		message = "is not the name of a cookie: letters, digits and any of !#$%&'*+-.^_`|~ are allowed"
	case place == "path" && strings.ContainsAny(name, "/?#%"):
		message = "is no placeholder: write text that stands in one segment of the path, such as {token}"
	}
	if message == "" {
		return nil
	}
	return []Problem{{Field: field, Message: message}}
}

// CheckPairs returns the problems of object fields whose members are for [Pairs].
func (c *Config) CheckPairs(fields ...string) (problems []Problem) {
	for _, field := range fields {
		object, _ := c.Literal(field)
		if _, err := Pairs(object); err != nil {
			problems = append(problems, Problem{Field: field, Message: err.Error()})
		}
	}
	return problems
}

// CheckHeaders returns the problems of object fields whose members are headers.
func (c *Config) CheckHeaders(fields ...string) []Problem {
	problems := c.CheckPairs(fields...)
	for _, field := range fields {
		object, _ := c.Literal(field)
		pairs, _ := Pairs(object)
		for _, p := range pairs {
			if message := contract.CheckHeaderName(p.Name); message != "" {
				problems = append(problems, Problem{Field: field + "." + p.Name, Message: message})
			}
		}
	}
	return problems
}

// IsToken reports whether text is a token, such as a cookie's name or an authentication scheme (RFC 9110 section 5.6.2).
func IsToken(text string) bool { return contract.IsToken(text) }

// foldsTo reports whether strings.EqualFold(name, lower) holds. It requires lower to be ASCII without capitals, so that
// only two letters beyond ASCII matter. It does not use strings.EqualFold because the tables of package unicode would add
// kilobytes to each plugin that checks names.
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
