package connectors

import (
	"cmp"
	"slices"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// warn adds a warning, if Options.Inspect is set.
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
	end, endOK := l.source.character(n, to+1)
	hidden := end.Column - where.Column
	if !ok || !endOK { // a text of several lines, or with an escape
		where = n.Place
		hidden = l.source.length(where)
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
	i.mistakes(c)
	i.placeholders(c.member, c.path())
	if n, _, found := c.member.locate("egress.ca_file"); found {
		l.checkAuthorities(n, c.path()+".egress.ca_file")
	}
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

// warnOfConsent warns of a connector that nobody can connect.
func (l *loader) warnOfConsent(c *definition, notice string) {
	if notice != "" {
		l.warn(c.member.place("auth.type"), c.path(), "%s", notice)
	}
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
func (c *definition) field(name string) (abi.Field, bool) {
	i := slices.IndexFunc(c.info.Fields, func(f abi.Field) bool { return f.Name == name || slices.Contains(f.Aliases, name) })
	if i < 0 {
		return abi.Field{}, false
	}
	return c.info.Fields[i], true
}
