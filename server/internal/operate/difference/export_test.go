package difference

// HasRule reports whether there is a rule for a member.
func HasRule(at string) bool { return ruleFor(at) != nil }
