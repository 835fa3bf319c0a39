package urlcheck

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// MemberName returns the decoded name of a member of a form or query, as an API may read it: until a NUL, as C does, as PHP makes a
// variable of it (manual, "Variables From External Sources"; main/php_variables.c for a [ without a ]), and as ASP reads %uXXXX, a % that
// encodes nothing, and fullwidth letters.
func MemberName(member string) string {
	name, _, _ := strings.Cut(member, "=")
	if decoded, err := url.QueryUnescape(name); err == nil {
		name = decoded
	} else {
		name = unescaped.ReplaceAllStringFunc(name, unescape)
	}
	name, _, _ = strings.Cut(name, "\x00")
	name = variable.Replace(strings.TrimSpace(strings.Map(halfwidth, name)))
	if prefix, suffix, open := strings.Cut(name, "["); open && !strings.Contains(suffix, "]") {
		return prefix + "_" + suffix
	}
	return name
}

var (
	unescaped = regexp.MustCompile(`%(u[0-9A-Fa-f]{4}|[0-9A-Fa-f]{2})?|\+`)
	variable  = strings.NewReplacer(" ", "_", ".", "_")
)

// unescape returns the character that a match of unescaped stands for, or "".
func unescape(text string) string {
	if text == "+" {
		return " "
	}
	code, err := strconv.ParseUint(strings.TrimPrefix(text[1:], "u"), 16, 32)
	switch {
	case err != nil:
		return ""
	case text[1] == 'u':
		return string(rune(code))
	}
	return string([]byte{byte(code)})
}

// halfwidth returns the ASCII character of a fullwidth one (Unicode, block Halfwidth and Fullwidth Forms), and others as they are.
func halfwidth(r rune) rune {
	if '\uff01' <= r && r <= '\uff5e' {
		return r - '\uff01' + '!'
	}
	return r
}

// MayBeMember reports whether an API may take a member for another one: in any case of letters, or for a list of that name. Both names
// are those of MemberName.
func MayBeMember(name, second string) bool {
	return strings.EqualFold(name, second) || len(name) > len(second) && strings.EqualFold(name[:len(second)], second) && name[len(second)] == '['
}
