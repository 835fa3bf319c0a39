package describe

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/expr"
)

// token is the syntax of a part of a pattern. Its group is the repetition, if there is one. The syntax is that of RE2 which ECMA-262
// has as well, with the same meaning. So editors can check a text, and the pattern that they have is the one that the plugin's author
// wrote. There are no anchors, because the whole text must match. A parenthesis has no repetition right behind it, so that the ? of
// flags and other extensions is no token. Three things mean something else to each of them, and are no tokens: a point matches other line
// breaks, a class that begins with ] is empty to ECMA-262, and {01} is text to RE2 (threats.md 295).
const token = `\((?:\?:)?|\||(?:\)|` + plain + `|` + escaped + `|` + set + `|` + class + `)` + times

const (
	plain   = `[^\\^$.*+?()\[\]{}|]`
	escaped = `\\[\\^$.*+?()\[\]{}|/tnr]|\\x[0-9A-Fa-f]{2}`
	set     = `\\[dDwW]`
	member  = `(?:[^\\\[\]^-]|\\-|` + escaped + `)`
	class   = `\[\^?(?:-|-?(?:` + set + `|` + member + `(?:-` + member + `)?)+-?)\]` // RE2 reads [][a] as one class, and ECMA-262 as two, of which one is empty
	number  = `(?:0|[1-9][0-9]*)`
	times   = `([*+?]|\{` + number + `(?:,` + number + `?)?\})?`
)

var (
	tokens   = regexp.MustCompile(token)
	portable = regexp.MustCompile(`^(?:` + token + `)*$`)
)

// checkPattern checks the pattern of a field, and compiles it. It returns nil if there is no pattern.
func checkPattern(f *abi.Field, patterns *expr.Source) (*expr.Matcher, error) {
	switch {
	case f.Pattern == "" && f.PatternMessage == "":
		return nil, nil
	case f.Pattern == "" || f.PatternMessage == "":
		return nil, errors.New("pattern and pattern_message belong together: users read the message, and not the pattern")
	case f.Kind != abi.KindString || len(f.Enum) > 0:
		return nil, errors.New("only a string without an enum has a pattern")
	case len(f.Pattern) > contract.MaxPattern || printableText(f.Pattern) != f.Pattern:
		return nil, fmt.Errorf("its pattern has more than %d bytes, or characters that cannot be printed", contract.MaxPattern)
	}
	matcher, problem := patterns.Matcher(f.Pattern)
	switch {
	case problem != "":
		return nil, errors.New("pattern: " + problem)
	case !portable.MatchString(f.Pattern):
		return nil, errors.New(`its pattern has syntax that RE2 and ECMA-262 do not share: write no anchors, flags, names of groups or of classes, [^\n] in place of a point, and \ before - in a class and before other special characters`)
	}
	return matcher, nil
}

// maxChoices limits the choices of a pattern in a schema: its repetitions and alternatives.
const maxChoices = 2

// schemaPattern returns the pattern of a field for a JSON Schema, or "". Engines of ECMA-262 try one choice after the other, so
// that a pattern with many choices, or with choices within a repetition, could take them years (threats.md 291). Three repetitions take
// hours for the longest template, and two take seconds.
func schemaPattern(f *abi.Field) string {
	if f.Pattern == "" || choices(f.Pattern) > maxChoices {
		return ""
	}
	return "^(?:" + f.Pattern + ")$"
}

// choices returns the number of choices in a pattern. It is more than maxChoices if there is one within a repetition.
func choices(pattern string) int {
	groups := []int{0} // the choices in each group that is open
	for _, found := range tokens.FindAllStringSubmatch(pattern, -1) {
		part, repetition := found[0], found[1]
		last := len(groups) - 1
		switch part[0] {
		case '(':
			groups = append(groups, 0)
			continue
		case ')':
			nested := groups[last]
			if nested > 0 && repetition != "" {
				return maxChoices + 1
			}
			groups, last = groups[:last], last-1
			groups[last] += nested
		case '|':
			groups[last]++
		}
		if strings.ContainsAny(repetition, "*+?,") {
			groups[last]++
		}
	}
	return groups[0]
}
