package sdk

import "github.com/keywright/keywright/internal/abi"

// ReservedHeaders are the members of a JWT header that a configuration may not set: alg follows from the key, and the
// others change what a signature means (RFC 7515 section 4.1.11, RFC 7797).
var ReservedHeaders = []string{"alg", "crit", "b64"}

// Reserved returns a problem for each member of an object field that has one of the names.
func (c *Config) Reserved(field, message string, names ...string) []Problem {
	var problems []Problem
	object, _ := c.Literal(field)
	err := EachMember(object, func(name, _ string) error {
		for _, reserved := range names {
			if name == reserved {
				problems = append(problems, Problem{Field: field + "." + name, Message: message + ", remove it"})
			}
		}
		return nil
	})
	if err != nil {
		problems = append(problems, Problem{Field: field, Message: err.Error()})
	}
	return problems
}

// CheckHeaderName says what is wrong with the name of a header, or "".
func CheckHeaderName(name string) string { return abi.CheckHeaderName(name) }
