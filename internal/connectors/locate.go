package connectors

import (
	"strconv"
	"strings"
)

// locate gives the node of a path within a connector, such as auth.config.claims.roles[0]. When there is none, found is
// false, and the place is that of the nearest member around it.
func (n *node) locate(path string) (target *node, where place, found bool) {
	where = n.place
	for path != "" {
		name, index, rest := step(path)
		next := (*node)(nil)
		if m := n.get(name); index < 0 && m != nil {
			next, where = m.value, m.key
		} else if index >= 0 && index < len(n.items) {
			next = n.items[index]
			where = next.place
		}
		if next == nil {
			return n, where, false
		}
		n, path = next, rest
	}
	return n, where, true
}

// step takes the first step off a path: a member's name, plain or in quotes and brackets, or an index, else -1.
func step(path string) (name string, index int, rest string) {
	if !strings.HasPrefix(path, "[") {
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			return path, -1, ""
		}
		return path[:end], -1, strings.TrimPrefix(path[end:], ".")
	}
	if quoted, err := strconv.QuotedPrefix(path[1:]); err == nil {
		name, _ = strconv.Unquote(quoted)
		_, rest, _ = strings.Cut(path[1+len(quoted):], "]")
		return name, -1, strings.TrimPrefix(rest, ".")
	}
	number, rest, _ := strings.Cut(path[1:], "]")
	index, err := strconv.Atoi(number)
	if err != nil || index < 0 {
		return path, -1, "" // a path that names nothing
	}
	return "", index, strings.TrimPrefix(rest, ".")
}

// source is the text of a file, by lines.
type source [][]rune

func newSource(text string) source {
	lines := source{nil} // so that the first has the index 1
	for line := range strings.Lines(text) {
		lines = append(lines, []rune(strings.TrimRight(line, "\r\n")))
	}
	return lines
}

// character gives the place of a character of a scalar's text, counted from 1, and false when the text goes over several
// lines, where its lines in the file are not those of its text.
func (s source) character(n *node, number int) (place, bool) {
	text, ok := n.value.(string)
	if !ok || n.line < 1 || n.line >= len(s) || n.column < 1 || n.column > len(s[n.line]) {
		return n.place, false
	}
	raw := s[n.line][n.column-1:]
	i, width := 0, func([]rune) int { return 1 }
	switch raw[0] {
	case '"':
		i, width = 1, escape
	case '\'':
		i, width = 1, doubled
	default:
		if !strings.HasPrefix(string(raw), text) {
			return n.place, false
		}
	}
	for range number - 1 {
		if i >= len(raw) {
			return n.place, false
		}
		i += width(raw[i:])
	}
	if i > len(raw) {
		return n.place, false
	}
	return place{n.line, n.column + i}, true
}

// doubled gives how many characters the file needs for one, in single quotes.
func doubled(rest []rune) int {
	if len(rest) > 1 && rest[0] == '\'' && rest[1] == '\'' {
		return 2
	}
	return 1
}

// escape gives how many characters the file needs for one, in double quotes. The halves of a surrogate pair, as JSON has
// them, are one character.
func escape(rest []rune) int {
	if rest[0] != '\\' || len(rest) < 2 {
		return 1
	}
	switch rest[1] {
	case 'x':
		return 4
	case 'U':
		return 10
	case 'u':
		if code, err := strconv.ParseUint(string(rest[2:min(6, len(rest))]), 16, 32); err == nil && code >= 0xd800 && code < 0xdc00 {
			return 12
		}
		return 6
	}
	return 2
}
