package problem

import (
	"fmt"
	"regexp"
	"strconv"
)

// Path is the way from the root of a document to a value. Nil is the root. It is cheap to make: its text, which may be
// long, is made for problems only.
type Path struct {
	above *Path
	name  string // of a member, when index is negative
	index int
}

// Member returns the path of a member.
func (p *Path) Member(name string) *Path { return &Path{p, name, -1} }

// Item returns the path of an element of a list, counted from 0.
func (p *Path) Item(index int) *Path { return &Path{p, "", index} }

// String returns a path such as claims.roles[0].
func (p *Path) String() string {
	switch {
	case p == nil:
		return ""
	case p.index >= 0:
		return fmt.Sprintf("%s[%d]", p.above, p.index)
	}
	return Join(p.above.String(), p.name)
}

// plainName matches the name of a member that a path can show as it is, if it has at most maxPlainName bytes. The length is no
// part of the expression: a repetition that is counted would take most of the time that a program needs to begin.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

const maxPlainName = 100

// Join returns the path of a member below another path: a.b, or a["b c"] for a name with other characters. A name that is
// long is cut short.
func Join(path, name string) string {
	switch {
	case len(name) > maxPlainName || !plainName.MatchString(name):
		return path + "[" + Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// Quote puts a name into quotes, cut short when it is long.
func Quote(name string) string {
	const longest = 40
	if runes := []rune(name); len(runes) > longest {
		return strconv.Quote(string(runes[:longest])) + "…"
	}
	return strconv.Quote(name)
}
