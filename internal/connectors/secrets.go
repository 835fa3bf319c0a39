package connectors

import (
	"fmt"
	"strings"

	"github.com/keywright/keywright/host"
)

// variables complains of names that the environment cannot tell apart.
func (l *loader) variables(c *definition, names []string, taken map[string]string) {
	if !l.options.Environment {
		return
	}
	for _, name := range names {
		variable := host.EnvName(name)
		other, known := taken[variable]
		if !known {
			taken[variable] = name
		}
		if !known || other == name {
			continue
		}
		path, where := l.mention(c, name)
		l.at(where, path, "the secrets %q and %q are the same environment variable, %s: rename one of them", other, name, variable)
	}
}

// mention finds where a connector's configuration names a secret first.
func (l *loader) mention(c *definition, secret string) (string, place) {
	config, where, _ := c.member.locate("auth.config")
	path := c.path() + ".auth.config"
	var find func(n *node, path string) bool
	find = func(n *node, at string) bool {
		for _, m := range n.members {
			if find(m.value, keyPath(at, m.name)) {
				return true
			}
		}
		for i, item := range n.items {
			if find(item, fmt.Sprintf("%s[%d]", at, i)) {
				return true
			}
		}
		text, _ := n.value.(string)
		for _, quote := range []string{`'`, `"`} {
			if before, _, ok := strings.Cut(text, quote+secret+quote); ok {
				path = at
				where, _ = l.source.character(n, len([]rune(before))+1)
				return true
			}
		}
		return false
	}
	find(config, path)
	return path, where
}
