package expr

import "github.com/expr-lang/expr/ast"

// Discovery is a call of discover: an authorization server, by its issuer identifier, and the member of its metadata with the
// value (RFC 8414 section 2).
type Discovery struct{ Issuer, Member string }

// String returns the call.
func (d Discovery) String() string { return "discover('" + d.Issuer + "', '" + d.Member + "')" }

// inTemplatesOnly reports whether a function is for templates alone. The errors of call say why.
func inTemplatesOnly(name string) bool {
	return name == "get_secret" || name == "get_key" || name == "discover"
}

// discover compiles discover. Both arguments are literal, so that nobody but the author of the template chooses where
// credentials go.
func (b *builder) discover(n *ast.CallNode) operand {
	var texts [2]string
	for i, what := range []string{"issuer", "member"} {
		literal, ok := n.Arguments[i].(*ast.StringNode)
		if !ok {
			return b.fail(n.Arguments[i], "the %s must be a literal text, in quotes", what)
		}
		texts[i] = literal.Value
	}
	d := Discovery{texts[0], texts[1]}
	if b.CheckDiscovery != nil {
		if argument, problem := b.CheckDiscovery(d); problem != "" {
			return b.fail(n.Arguments[argument], "%s", problem)
		}
	}
	b.Discovered = append(b.Discovered, d)
	return b.lookup(n, func(r *Run) string {
		value, err := r.Values.Discovered(d)
		if err != nil {
			panic(&Error{Column: r.column, Message: d.String(), Err: err})
		}
		return value
	})
}
