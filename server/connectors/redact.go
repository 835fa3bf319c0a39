package connectors

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
)

// printable returns a path or a message that can be shown, without credentials of a known form: a member may have one as its name.
func printable(text string) string { return host.Printable(tokens.ReplaceAllString(text, "…")) }

var (
	// secretValue matches the beginning of a member whose value is probably a credential, up to the value and what YAML may have before it.
	secretValue = regexp.MustCompile(`(?i)(?:authorization|token|secret|pass(?:word|wd|phrase)|cookie|(?:api|private)[-_]?key)["']?\s*[:=]\s*(?:[&!]\S+\s+)*`)
	// begunExpressions matches the expressions of a template, and one without an end.
	begunExpressions = regexp.MustCompile(`\{\{.*?(?:\}\}|$)`)
	// userInfo matches the user info of a URL.
	userInfo = regexp.MustCompile(`://[^/?#\s"']*@`)
)

// Conceal returns a line of a file with stars in place of the credentials that show without the rest of the file: those of a known
// form, and the values of members such as password. It finds those that no warning finds, such as those of comments.
func Conceal(line string) string {
	stars := func(text string) string { return strings.Repeat("*", utf8.RuneCountInString(text)) }
	line = tokens.ReplaceAllStringFunc(line, stars)
	line = userInfo.ReplaceAllStringFunc(line, func(text string) string { return "://" + stars(text[len("://"):len(text)-1]) + "@" })
	var b strings.Builder
	for {
		found := secretValue.FindStringIndex(line)
		if found == nil {
			return b.String() + line
		}
		value := line[found[1]:]
		value = value[:valueEnd(value, strings.ContainsAny(b.String()+line[:found[1]], "{["))]
		b.WriteString(line[:found[1]])
		line = line[found[1]+len(value):]
		begin := 0
		for _, found := range append(begunExpressions.FindAllStringIndex(value, -1), []int{len(value), len(value)}) {
			b.WriteString(stars(value[begin:found[0]]) + value[found[0]:found[1]])
			begin = found[1]
		}
	}
}

// Conceal returns a text with stars in place of the credentials that stand in the file, if [Options].Conceal is set. It finds those that
// Warnings has, also percent-encoded.
func (s *Set) Conceal(text string) string { return s.concealer.Replace(text) }

// concealer returns a replacer of credentials, the longest first.
func concealer(literals []string) *strings.Replacer {
	var forms []string
	for _, literal := range slices.SortedFunc(slices.Values(literals), func(a, b string) int { return len(b) - len(a) }) {
		for _, form := range []string{literal, url.QueryEscape(literal), url.PathEscape(literal)} {
			forms = append(forms, form, "***")
		}
	}
	return strings.NewReplacer(forms...)
}

// valueEnd returns the length of the value at the beginning of a line's rest. inside reports whether it is within brackets.
func valueEnd(rest string, inside bool) int {
	if rest == "" || strings.IndexByte("|>[", rest[0]) >= 0 || rest[0] == '{' && !strings.HasPrefix(rest, "{{") {
		return 0
	}
	if quote := rest[0]; quote == '"' || quote == '\'' {
		return quotedEnd(rest, quote)
	}
	if end := strings.IndexAny(rest, ",}]"); inside && end >= 0 {
		return end
	}
	return len(rest)
}

// quotedEnd returns the length of the quoted text at the beginning of a text, with its quotes. It is the whole length if the text does
// not end.
func quotedEnd(text string, quote byte) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"', text[i] == quote && quote == '\'' && strings.HasPrefix(text[i+1:], "'"):
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return len(text)
}

// properties matches the anchors and tags before a value.
var properties = regexp.MustCompile(`^(?:[&!]\S+\s+)*`)

// length returns the number of characters of the text that begins at a place, or at least that many, if the text has several lines. Each
// end of a line is one.
func (s *source) length(place problem.Place) int {
	if s.rest(place) == "" {
		return 0
	}
	rest := s.text[s.offset:] // where rest has found the place
	begin := len(properties.FindString(rest))
	if value := rest[begin:]; value != "" && (value[0] == '"' || value[0] == '\'') {
		return utf8.RuneCountInString(rest[:begin+quotedEnd(value, value[0])])
	}
	end, indent := 0, s.indent(place)
	for line := range strings.Lines(rest) {
		text := strings.TrimLeft(line, " ")
		if end > 0 && len(line)-len(text) <= indent && strings.TrimSpace(text) != "" {
			break
		}
		end += len(line)
	}
	return utf8.RuneCountInString(strings.TrimRight(rest[:end], "\r\n"))
}

// indent returns the number of blanks and hyphens before the member or item in whose line a place is.
func (s *source) indent(place problem.Place) (n int) {
	line := s.text[s.lines[place.Line-1]:]
	n = len(line) - len(strings.TrimLeft(line, " "))
	for strings.HasPrefix(line[n:], "- ") {
		next := len(line) - len(strings.TrimLeft(line[n+1:], " "))
		if next >= place.Column-1 {
			break
		}
		n = next
	}
	return n
}
