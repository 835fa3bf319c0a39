package connectors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/gateway"
)

// maxExpressions limits the texts in a file that are or contain expressions, in bytes. Each takes a thousand times as long as to read it.
const maxExpressions = 512 << 10

// expressions returns the size of the texts of a connector that are or contain expressions, in bytes.
func (c *definition) expressions() int {
	all := len(c.gateway.Response.Filter)
	if !strings.Contains(c.gateway.Response.Body, "{{") {
		all += len(c.gateway.Response.Body)
	}
	if a := c.gateway.Consent.Account; a != nil && !strings.Contains(a.Name, "{{") {
		all += len(a.Name)
	}
	c.member.walk("", func(n *node, _ string) bool {
		if text, _ := n.value.(string); strings.Contains(text, "{{") {
			all += len(text)
		}
		return true
	})
	return all
}

// connect connects a connector, and reports its problems. It checks all of its members even if it cannot be connected.
func (l *loader) connect(ctx context.Context, c *definition) {
	if l.expressions <= maxExpressions {
		l.expressions += c.expressions()
		if l.expressions > maxExpressions {
			l.report(c.member.Place, c.path(), "makes the texts with expressions in them longer than %d KiB, all of the file together: use several gateways", maxExpressions>>10)
		}
	}
	if l.expressions > maxExpressions {
		return
	}
	c.gateway.Permalink, c.gateway.Patterns = cmp.Or(c.permalink, c.path()), &l.patterns
	if c.url == nil {
		c.gateway.URL = "https://unknown.invalid/" // already reported
	}
	connected, err := gateway.NewConnector(ctx, l.set.Host, c.gateway)
	if err != nil {
		if upstream := l.reportConfig(ctx, c, err); upstream != nil {
			l.checkSecrets(ctx, c, upstream, upstream.Secrets())
		}
		return
	}
	c.connected = connected
	l.checkSecrets(ctx, c, connected.Upstream(), connected.Secrets())
	l.set.Connectors = append(l.set.Connectors, connected)
	if name, _ := locatePart(l.parts, c.member.Line); name != "" {
		l.set.Sources[connected.Definition().Permalink] = name
	}
	if notice := l.set.ConsentNotice(connected); notice != "" {
		consenting := max(0, slices.IndexFunc(c.auths, func(a authentication) bool { return a.info.Consent }))
		l.warn(c.member.place(c.auths[consenting].path+".type"), c.path(), "%s", notice)
	}
}

func (l *loader) checkSecrets(ctx context.Context, c *definition, upstream *host.Connector, names []string) {
	l.checkVariables(c, names)
	if l.options.ReadSecrets {
		l.secrets(ctx, c, upstream, names)
	}
}

// reportConfig reports the problems of a connector. It returns the host's connector if auth and tls are valid, for the check of secrets.
func (l *loader) reportConfig(ctx context.Context, c *definition, err error) *host.Connector {
	var wrong *host.ConfigError
	if !errors.As(err, &wrong) {
		l.report(c.member.Place, c.path(), "%v", err)
		return nil
	}
	misspelt := c.misspelt()
	for _, p := range wrong.Problems {
		a := c.authAt(p.Path)
		duplicate := a.Type == "" && p.Path == a.path+".type" // already reported
		if !duplicate && !misspelt[p.Path] && !l.mayLackPlugin(c, p) && (c.url != nil || p.Path != "hosts") {
			l.reportProblem(c, p)
		}
	}
	l.more += wrong.More
	if slices.ContainsFunc(wrong.Problems, func(p host.Problem) bool {
		return strings.HasPrefix(p.Path, "auth") || strings.HasPrefix(p.Path, "tls")
	}) {
		return nil
	}
	base, _ := c.gateway.BaseURL() // connect has replaced an invalid one
	upstream, _ := l.set.Host.NewConnector(ctx, host.ConnectorConfig{
		Name: c.gateway.Permalink, Origins: []string{base.Scheme + "://" + base.Host}, Auth: c.gateway.Auth, TLS: c.gateway.TLS, Egress: c.gateway.Egress,
	})
	return upstream // nil after an error
}

// mayLackPlugin reports whether p may be due to a plugin that could not be loaded: the auth type is unknown, and is not a misspelling
// of a built-in one. That of a plugin may resemble that of another, as acme_1 and acme_2 do.
func (l *loader) mayLackPlugin(c *definition, p host.Problem) bool {
	a := c.authAt(p.Path)
	if !l.pluginsMissing || a.info.Type != "" || p.Path != a.path+".type" {
		return false
	}
	_, slip := problem.Nearest(a.Type, plugins.Types())
	return !slip
}

// misspelt returns the paths of fields that are missing because their names are misspelt.
func (c *definition) misspelt() map[string]bool {
	paths := map[string]bool{}
	for _, a := range c.auths {
		fields := make([]string, len(a.info.Fields))
		for i, f := range a.info.Fields {
			fields[i] = f.Name
		}
		for name := range a.Config {
			if suggestion, ok := problem.Nearest(name, fields); ok && suggestion != name {
				paths[a.path+".config."+suggestion] = true
			}
		}
		for _, f := range a.info.Fields {
			if _, there := a.Config[a.writtenAs(f)]; there {
				delete(paths, a.path+".config."+f.Name)
			}
		}
	}
	return paths
}

// writtenAs returns the name of a field, or the alias that the file has in place of it.
func (a *authentication) writtenAs(f abi.Field) string {
	for _, alias := range f.Aliases {
		if _, there := a.Config[alias]; there {
			return alias
		}
	}
	return f.Name
}

func (l *loader) reportProblem(c *definition, p host.Problem) {
	if l.skip() {
		return
	}
	path := p.Path
	n, where, found := c.member.locate(path)
	message := p.Message
	a := c.authAt(path)
	name, inConfig := strings.CutPrefix(path, a.path+".config.")
	first, _, _ := step(name)
	_, isField := a.field(first) // if not, the name is wrong, and the place is that of the name
	switch {
	case p.Column > 0 && found:
		place, ok := l.source.character(n, p.Column)
		if !ok {
			message = fmt.Sprintf("at character %d of the text: %s", p.Column, message)
		}
		where = place
	case found && n.kind == scalar && (!inConfig || isField):
		where = n.Place
	}
	switch p.Code { // the host does not know the members
	case host.CodePlainHTTP:
		message += orName
	case host.CodeNoKeyStore:
		message += ": give a store of type vault the member transit"
	case host.CodeNoState:
		message = fmt.Sprintf("auth type %s keeps tokens that may be used once, which needs a store of state: add the member state to the file", a.info.Type)
	}
	l.report(where, c.path()+"."+path, "%s", message)
}
