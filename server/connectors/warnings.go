package connectors

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// warnings collects the first hundred warnings of a file, and counts the others. It is safe for concurrent use.
type warnings struct {
	mu   sync.Mutex
	all  []Problem
	more int
	// literals has the credentials that stand in the file.
	literals []string
}

// hide adds a credential that stands in the file.
func (w *warnings) hide(literal string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.literals = append(w.literals, literal)
}

// add adds a warning unless there is one with this place and message.
func (w *warnings) add(where problem.Place, path string, hidden int, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := Problem{
		Line: where.Line, Column: where.Column, Path: printable(path), Message: printable(fmt.Sprintf(format, args...)), Hidden: hidden,
	}
	switch {
	case slices.ContainsFunc(w.all, func(p Problem) bool {
		return p.Line == found.Line && p.Column == found.Column && p.Message == found.Message
	}):
	case len(w.all) == maxProblems:
		w.more++
	default:
		w.all = append(w.all, found)
	}
}

// skip counts a warning that is not added because there are too many, and reports whether it did.
func (w *warnings) skip() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	full := len(w.all) >= maxProblems
	if full {
		w.more++
	}
	return full
}

// sorted returns the warnings in the order of their places. If there are more, the last one has their number.
func (w *warnings) sorted(parts []part) []Problem {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Clone(w.all)
	inOrder(all, parts)
	if w.more > 0 {
		all = append(all, Problem{Message: fmt.Sprintf("and %d more warnings", w.more)})
	}
	return all
}

// warn adds a warning, if Options.Inspect is set.
func (l *loader) warn(where problem.Place, path, format string, args ...any) {
	if l.options.Inspect {
		l.warnings.add(where, path, 0, format, args...)
	}
}

// warnOfText adds a warning of the characters from one to another of a text, counted from 0, which no output may show.
func (l *loader) warnOfText(n *node, from, to int, path, message string) {
	text, _ := n.value.(string)
	l.warnings.hide(string([]rune(text)[from:to]))
	if !l.options.Inspect || l.warnings.skip() {
		return // to find a place takes time
	}
	where, ok := l.source.character(n, from+1)
	end, whole := l.source.character(n, to+1)
	hidden := end.Column - where.Column
	if !ok || !whole { // a text of several lines, or with an escape
		where = n.Place
		hidden = l.source.length(where)
	}
	l.warnings.add(where, path, hidden, "%s", message)
}

// warned adds a warning of the host about the connector that is being checked.
func (l *loader) warned(_ string, p host.Problem) {
	c, path := l.connecting, cmp.Or(p.Path, "auth")
	n, where, exact := c.member.locate(path)
	if exact && n.kind == scalar {
		where = n.Place
	}
	l.warn(where, c.path()+"."+path, "%s", p.Message)
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

// inspected adds the warnings of a connector that need nothing but its definition.
func (l *loader) inspected(c *definition, info host.PluginInfo) {
	if !l.options.Inspect && !l.options.Conceal {
		return
	}
	i := inspector{loader: l, done: map[*node]bool{}, hidden: map[*node]bool{}}
	if i.credentials(c, info); !l.options.Inspect {
		return
	}
	i.mistakes(c, info)
	i.placeholders(c.member, c.path())
	if n, _, found := c.member.locate("egress.ca_file"); found {
		l.authorities(n, c.path()+".egress.ca_file")
	}
}

// ConsentNotice returns a notice if a connector needs the consent of users, and no user of the gateway can give it. Otherwise it
// returns "". That is no problem of the file, because the operator may use the connector without the gateway.
func (s *Set) ConsentNotice(c *gateway.Connector) string {
	const then = ", so that nobody can connect an account, and the gateway sends nothing: "
	switch user := s.Settings.User; {
	case !c.Upstream().Consents():
		return ""
	case !s.Settings.HasUsers():
		return "requests have no user" + then + "let gateway.user say who the user is"
	case user.Mode == identity.ModeHeader && user.Header.ID == "":
		return "users have no id" + then + "let gateway.user.header.id name the header with it"
	}
	return ""
}

// warnOfConsent warns of a connector that nobody can connect.
func (l *loader) warnOfConsent(c *definition, notice string) {
	if notice == "" {
		return
	}
	n, where, found := c.member.locate("auth.type")
	if found {
		where = n.Place
	}
	l.warn(where, c.path(), "%s", notice)
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
	if i.done[n] {
		return
	}
	i.done[n] = true
	if text, ok := n.value.(string); ok {
		do(n, path, text)
	}
	for _, m := range n.members {
		i.each(m.value, problem.Join(path, m.name), do)
	}
	for at, item := range n.items {
		i.each(item, fmt.Sprintf("%s[%d]", path, at), do)
	}
}

// fieldOf returns the field that a member of auth.config sets.
func fieldOf(info host.PluginInfo, name string) (abi.Field, bool) {
	i := slices.IndexFunc(info.Fields, func(f abi.Field) bool { return f.Name == name || slices.Contains(f.Aliases, name) })
	if i < 0 {
		return abi.Field{}, false
	}
	return info.Fields[i], true
}
