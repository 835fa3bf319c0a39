package connectors

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// A Problem is an error in a file, or something in it that is probably a mistake.
type Problem struct {
	// File is the path of the file if it is another one than that of the [Error]: one of connectors_dir.
	File string `json:"file,omitempty"`
	// Line counts from 1. It is 0 if the problem concerns the file as a whole.
	Line int `json:"line,omitempty"`
	// Column counts characters from 1. It is 0 if Line is 0.
	Column int `json:"column,omitempty"`
	// Path names the member, such as connectors.crm.auth.config.token_url. It may be empty.
	Path string `json:"path,omitempty"`
	// Message says what is wrong and how to correct it.
	Message string `json:"message"`
	// Hidden is the number of lines from Line on that may have a part of a credential, which no output may show. It is 0 for most problems,
	// and more than the file has if the end of the credential is unknown.
	Hidden int `json:"-"`
}

// An Error lists the problems of a file, in the order of their places: up to 100, and then one with the number of the others.
type Error struct {
	File     string
	Problems []Problem
	// Warnings are like those of a [Set].
	Warnings []Problem

	// Files holds the paths of the files that the file names, as in [Set], because a problem may be due to one of these.
	Files []string
}

// Error returns a line for each problem in the usual form of compilers: file:line:column: message.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		place, text := p.Parts(e.File)
		lines[i] = place + " " + text
	}
	return strings.Join(lines, "\n")
}

// String returns a problem as one line. It begins with File and a colon, or is meant to follow them.
func (p Problem) String() string {
	place, text := p.Parts("")
	return strings.TrimPrefix(place, ":") + " " + text
}

// Parts returns the place of a problem as in file:line:column:, and its text. file is that of the [Error] or the [Set].
func (p Problem) Parts(file string) (place, text string) {
	text = problem.Problem{Path: p.Path, Message: p.Message}.String()
	place = cmp.Or(p.File, file) + ":"
	if p.Line > 0 {
		place += fmt.Sprintf("%d:%d:", p.Line, p.Column)
	}
	return place, strings.TrimSpace(text)
}

const maxProblems = 100

// problems collects the first hundred problems or warnings of a file, and counts the others.
type problems struct {
	all  []Problem
	more int
	// lineOffset is the number of lines before the text that is parsed, if that is a part.
	lineOffset int
}

// placed returns a place of the text that is parsed, in the whole text.
func (p *problems) placed(line, column int) problem.Place {
	return problem.Place{Line: p.lineOffset + line, Column: column}
}

// skip reports whether there are too many problems already. If so, skip counts one more.
func (p *problems) skip() bool {
	full := len(p.all) >= maxProblems
	if full {
		p.more++
	}
	return full
}

// report adds a problem unless it was added before. It makes the text printable, because parts of it come from the file.
func (p *problems) report(where problem.Place, path, format string, args ...any) {
	if p.skip() {
		return
	}
	if p.lineOffset > 0 {
		where.Line = max(where.Line, p.lineOffset+1)
	}
	if found := problemAt(where, path, format, args...); !slices.Contains(p.all, found) {
		p.all = append(p.all, found)
	}
}

// problemAt returns a problem at a place in the whole text.
func problemAt(where problem.Place, path, format string, args ...any) Problem {
	return Problem{Line: where.Line, Column: where.Column, Path: printable(path), Message: printable(fmt.Sprintf(format, args...))}
}

// rename replaces the path from in the problems that were found before the permalink was known.
func (p *problems) rename(from, to string) {
	for i := range p.all {
		if rest, ok := strings.CutPrefix(p.all[i].Path, from); ok && (rest == "" || rest[0] == '.') {
			p.all[i].Path = to + rest
		}
	}
}

// sorted returns the problems in the order of their places in the whole text, each with its file and its line there. Problems with
// the same place keep the order in which they were added. If there are more, the last one says so with their number.
func (p *problems) sorted(parts []part, more string) []Problem {
	all := slices.Clone(p.all)
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for i := range all {
		all[i].File, all[i].Line = locatePart(parts, all[i].Line)
	}
	if p.more > 0 {
		all = append(all, Problem{Message: fmt.Sprintf(more, p.more)})
	}
	return all
}

// Ends of the lists of problems and warnings.
const moreProblems, moreWarnings = "and %d more problems: mend these first", "and %d more warnings"

func (l *loader) warn(where problem.Place, path, format string, args ...any) {
	if l.options.Inspect {
		l.addWarning(problemAt(where, path, format, args...))
	}
}

// addWarning adds a warning unless there is one with this place and message.
func (l *loader) addWarning(found Problem) {
	if !slices.ContainsFunc(l.warnings.all, func(p Problem) bool {
		return p.Line == found.Line && p.Column == found.Column && p.Message == found.Message
	}) && !l.warnings.skip() {
		l.warnings.all = append(l.warnings.all, found)
	}
}

// warnOfText adds a warning of the characters from one to another of a text, counted from 0, which no output may show.
func (l *loader) warnOfText(n *node, from, to int, path, message string) {
	text, _ := n.value.(string)
	l.literals = append(l.literals, string([]rune(text)[from:to]))
	if !l.options.Inspect || l.warnings.skip() {
		return // to find a place takes time
	}
	where, ok := l.source.character(n, from+1)
	_, endOK := l.source.character(n, to+1)
	hidden := 1
	if !ok || !endOK { // a text of several lines, or with an escape
		where, hidden = n.Place, math.MaxInt
	}
	found := problemAt(where, path, "%s", message)
	found.Hidden = hidden
	l.addWarning(found)
}

// hostWarning adds a warning of the host about the connector that is being checked.
func (l *loader) hostWarning(_ string, p host.Problem) {
	c, path := l.current, cmp.Or(p.Path, "auth")
	l.warn(c.member.place(path), c.path()+"."+path, "%s", p.Message)
}

// inspectRoot warns of credentials in all of the file but its connectors.
func (l *loader) inspectRoot(root *node) {
	i := inspector{loader: l, done: map[*node]bool{}}
	for _, m := range root.members {
		if m.name != "connectors" {
			i.tokens(m.value, m.name)
		}
	}
}

// inspectConnector adds the warnings of a connector that need nothing but its definition.
func (l *loader) inspectConnector(c *definition) {
	if !l.options.Inspect && !l.options.Conceal {
		return
	}
	i := inspector{loader: l, done: map[*node]bool{}, hidden: map[*node]bool{}}
	if i.credentials(c); !l.options.Inspect {
		return
	}
	i.belowURL(c)
	i.placeholders(c.member, c.path())
	l.checkAuthorities(c.member, c.path()+".", "egress.ca_file")
}

// ConsentNotice returns a notice if a connector needs the consent of users, and no user of the gateway can give it. Otherwise it
// returns "". That is no problem of the file, because the operator may use the connector without the gateway.
func (s *Set) ConsentNotice(c *gateway.Connector) string {
	const then = ", so that nobody can connect an account, and the gateway sends nothing: "
	switch user := s.Settings.User; {
	case !c.Upstream().NeedsConsent():
		return ""
	case !s.Settings.HasUsers():
		return "requests have no user" + then + "let gateway.user say who the user is"
	case user.Mode == identity.ModeHeader && user.Header.ID == "":
		return "users have no id" + then + "let gateway.user.header.id name the header with it"
	}
	return ""
}

// An inspector walks a part of a file and warns of its texts.
type inspector struct {
	*loader
	// done has the values that were walked. Aliases share them.
	done map[*node]bool
	// hidden has the values with a placeholder that no output may show.
	hidden map[*node]bool
}

// each calls do for each text below n that was not walked before, with its path.
func (i *inspector) each(n *node, path string, do func(n *node, path, text string)) {
	n.walk(path, func(n *node, path string) bool {
		visited := i.done[n]
		i.done[n] = true
		if text, ok := n.value.(string); ok && !visited {
			do(n, path, text)
		}
		return !visited
	})
}

// field returns the field that a member of auth.config sets.
func (a *authentication) field(name string) (abi.Field, bool) {
	i := slices.IndexFunc(a.info.Fields, func(f abi.Field) bool { return f.Name == name || slices.Contains(f.Aliases, name) })
	if i < 0 {
		return abi.Field{}, false
	}
	return a.info.Fields[i], true
}

// fieldMistakes warns of what authors often confuse in the fields of an auth type.
func (i *inspector) fieldMistakes(a *authentication, config *node, path string) {
	added := map[string]string{} // texts of fields, which the plugin may put before a credential
	for _, f := range a.info.Fields {
		text, ok := stringOf(config.get(a.writtenAs(f)))
		if !ok {
			text = f.Default
		}
		if text != "" && !f.Sealed && f.Kind == abi.KindString {
			added[strings.ToLower(text)] = f.Name
		}
	}
	for _, m := range config.members {
		f, ok := a.field(m.name)
		text, isText := m.value.value.(string)
		memberPath := problem.Join(path, m.name)
		suggestionIndex := slices.IndexFunc(f.Suggested, func(s string) bool {
			return s != text && spelling.Replace(strings.ToLower(text)) == spelling.Replace(s)
		})
		switch word, _, more := strings.Cut(text, " "); {
		case !ok || !isText:
		case suggestionIndex >= 0:
			i.warn(m.value.Place, memberPath, "is %q: did you mean %q?", text, f.Suggested[suggestionIndex])
		case f.Kind == abi.KindURL:
			i.endpoint(m.value, memberPath, m.name, text)
		case more && f.Sealed && added[strings.ToLower(word)] != "":
			i.warn(m.value.Place, memberPath, "begins with %q, which the field %s adds: leave it out here", word, added[strings.ToLower(word)])
		default:
			i.prefixTwice(m.value, memberPath)
		}
	}
}

// spelling replaces what people write in place of a hyphen.
var spelling = strings.NewReplacer("_", "-", " ", "-")

// belowURL warns of patterns of paths that repeat the path of the URL.
func (i *inspector) belowURL(c *definition) {
	if c.url == nil {
		return
	}
	own := strings.TrimSuffix(c.url.Path, "/")
	for n, pattern := range c.gateway.Paths {
		if rest, found := strings.CutPrefix(pattern, own); own != "" && found && (rest == "" || rest[0] == '/') {
			itemPath := fmt.Sprintf("paths[%d]", n)
			i.warn(c.member.place(itemPath), c.path()+"."+itemPath, "stands below url, whose path %s it repeats: write the rest of it, unless the API has the path %s", own, own+pattern)
		}
	}
}

// prefixTwice warns of a text that begins with the same word twice, as in Bearer Bearer.
func (i *inspector) prefixTwice(n *node, memberPath string) {
	text, _ := n.value.(string)
	if words := strings.Fields(text); len(words) > 2 && strings.EqualFold(words[0], words[1]) && authScheme.MatchString(words[0]) {
		i.warn(n.Place, memberPath, "begins with the same word twice: write it once")
	}
}

// authScheme matches words that may be a scheme of the header Authorization.
var authScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{2,15}$`)

// endpoint warns of the URL of an authorization endpoint in place of that of a token endpoint, and the other way round.
func (i *inspector) endpoint(n *node, memberPath, name, text string) {
	u, err := url.Parse(text)
	if err != nil {
		return
	}
	switch last := strings.ToLower(path.Base(u.Path)); {
	case strings.HasSuffix(name, "token_url") && slices.Contains([]string{"authorize", "auth", "authorization"}, last):
		i.warn(n.Place, memberPath, "ends in /%s, as URLs do to which a browser goes for consent: write the URL of the token endpoint, unless it is this one", last)
	case name == "authorization_url" && last == "token":
		i.warn(n.Place, memberPath, "ends in /token, as token endpoints do: write the URL to which a browser goes for consent, unless it is this one")
	}
}

// assignment matches a line of a file of environment variables.
var assignment = regexp.MustCompile(`^(?:export\s+\w+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)=[^=]`)

// oddSecret returns what is probably wrong with the text of a secret, or "". A text of several lines, such as a key, may have anything.
func oddSecret(value string) string {
	trimmed := strings.TrimSpace(value)
	switch last := len(trimmed) - 1; {
	case strings.Contains(trimmed, "\n"):
	case assignment.MatchString(trimmed):
		return "is a line NAME=VALUE, all of which is used: store the value alone"
	case last > 0 && trimmed[0] == trimmed[last] && strings.IndexByte("\"'`", trimmed[0]) >= 0:
		return "stands in quotes, which are used with it: store it without, unless they are a part of the secret"
	case len(trimmed) != len(value):
		return "begins or ends with white space, which is used with it: store it without, unless it is a part of the secret"
	}
	return ""
}
