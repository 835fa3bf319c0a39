package problem

import (
	"fmt"
	"regexp"
	"strconv"
)

// Path is the path from the root of a document to a value. A nil *Path is the root. A Path is cheap to make; only String,
// which is called for problems, builds the text.
type Path struct {
	above *Path
	name  string
	// If index is negative, the path ends with the member name. Otherwise it ends with an element of a list.
	index int
}

// Member returns the path of a member of the value at p.
func (p *Path) Member(name string) *Path { return &Path{p, name, -1} }

// Item returns the path of an element of the list at p. Indexes count from 0.
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

// plainName matches the names that a path shows without quotes, if they have at most maxPlainName bytes. A counted
// repetition in the expression would take most of the time that a program needs to start.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

const maxPlainName = 100

// Join returns the path of a member below another path: a.b, or a["b c"] if the name has other characters than letters,
// digits, _ and -. [Quote] shortens long names.
func Join(path, name string) string {
	switch {
	case len(name) > maxPlainName || !plainName.MatchString(name):
		return path + "[" + Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// Quote returns a name in quotes. If it has more than 40 characters, Quote returns the first 40 and an ellipsis.
func Quote(name string) string {
	const longest = 40
	if runes := []rune(name); len(runes) > longest {
		return strconv.Quote(string(runes[:longest])) + "…"
	}
	return strconv.Quote(name)
}
