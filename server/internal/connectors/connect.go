package connectors

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/nearest"
	"github.com/keywright/keywright/server/gateway"
)

// maxExpressions bounds the bytes of all texts in a file that are expressions, or have some in them. To compile a byte of
// them can take a thousand times as long as to read it.
const maxExpressions = 512 << 10

// expressions returns how many bytes the texts of a connector have that are expressions, or have some in them.
func (c *definition) expressions() int {
	all := len(c.gateway.Response.Filter)
	if !strings.Contains(c.gateway.Response.Body, "{{") {
		all += len(c.gateway.Response.Body)
	}
	return all + c.member.templates()
}

func (n *node) templates() (bytes int) {
	for _, m := range n.members {
		bytes += m.value.templates()
	}
	for _, item := range n.items {
		bytes += item.templates()
	}
	if text, _ := n.value.(string); strings.Contains(text, "{{") {
		bytes += len(text)
	}
	return bytes
}

// connect connects a connector, and gives what is wrong with it its place in the file. What its requests and answers are
// like is looked at also where it cannot be connected.
func (l *loader) connect(ctx context.Context, c *definition, info host.PluginInfo, taken map[string]string) {
	if l.expressions <= maxExpressions {
		l.expressions += c.expressions()
		if l.expressions > maxExpressions {
			l.at(c.member.place, c.path(), "makes the texts with expressions in them longer than %d KiB, all of the file together: split it", maxExpressions>>10)
		}
	}
	if l.expressions > maxExpressions {
		return
	}
	connected := l.authenticated(ctx, c, info)
	c.gateway.Name, c.gateway.Permalink, c.gateway.Auth = c.name, c.permalink, c.auth
	c.gateway.Patterns = &l.patterns
	if c.url == nil {
		c.gateway.URL = "https://unknown.invalid/" // complained of already
	}
	compiled, problems := gateway.Compile(l.set.Host, connected, c.gateway)
	for _, p := range problems {
		l.problem(c, p, info)
	}
	if connected == nil {
		return
	}
	names := connected.Secrets()
	if compiled != nil {
		names = compiled.Secrets()
	}
	l.variables(c, names, taken)
	if l.options.ReadSecrets {
		l.secrets(ctx, c, connected, names, info)
	}
	if compiled != nil && c.url != nil {
		l.set.Connectors = append(l.set.Connectors, &Connector{Connector: connected, Title: c.name, Permalink: c.permalink, URL: c.url, Gateway: compiled})
	}
}

// authenticated is the host's connector, or nil when there is something wrong with it.
func (l *loader) authenticated(ctx context.Context, c *definition, info host.PluginInfo) *host.Connector {
	if c.auth.Type == "" {
		return nil // complained of already
	}
	definition := host.Connector{Name: c.path(), Origins: []string{"https://unknown.invalid"}, Auth: c.auth, Timeout: c.gateway.Timeout}
	if c.permalink != "" {
		definition.Name = c.permalink
	}
	if c.url != nil {
		definition.Origins = []string{c.url.Scheme + "://" + c.url.Host}
	}
	connected, err := l.set.Host.Connect(ctx, definition)
	var wrong *host.ConfigError
	if errors.As(err, &wrong) {
		misspelt := misspelt(c, info)
		for _, p := range wrong.Problems {
			if !misspelt[p.Path] && !l.lacks(c, p, info) {
				l.problem(c, p, info)
			}
		}
		l.more += wrong.More
		return nil
	}
	if err != nil {
		l.at(c.member.place, c.path(), "%v", err)
		return nil
	}
	return connected
}

// lacks reports whether a problem is there only because a plugin of the file could not be loaded, which may have the auth
// type.
func (l *loader) lacks(c *definition, p host.Problem, info host.PluginInfo) bool {
	if !l.lacking || info.Type != "" || p.Path != "auth.type" {
		return false
	}
	_, slip := nearest.Name(c.auth.Type, l.types)
	return !slip
}

// misspelt returns the paths of the fields that are missing because their names are misspelt.
func misspelt(c *definition, info host.PluginInfo) map[string]bool {
	fields := make([]string, len(info.Fields))
	for i, f := range info.Fields {
		fields[i] = f.Name
	}
	paths := map[string]bool{}
	for name := range c.auth.Config {
		if meant, ok := nearest.Name(name, fields); ok && meant != name {
			paths["auth.config."+meant] = true
		}
	}
	for name := range c.auth.Config {
		delete(paths, "auth.config."+name)
	}
	return paths
}

func (l *loader) problem(c *definition, p host.Problem, info host.PluginInfo) {
	if l.full() {
		l.more++
		return
	}
	path := p.Path
	if strings.HasPrefix(path, "origins") {
		path = "url" // of which the origin was made
	}
	n, where, found := c.member.locate(path)
	message := p.Message
	name, inConfig := strings.CutPrefix(path, "auth.config.")
	field, known := fieldOf(info, name)
	switch {
	case p.Column > 0 && found:
		at, ok := l.source.character(n, p.Column)
		if !ok {
			message = fmt.Sprintf("at character %d of the text: %s", p.Column, message)
		}
		where = at
	case found && n.kind == scalar && (!inConfig || known):
		where = n.place
	}
	if inConfig && field.Kind == abi.KindURL && isPlainHTTP(n) && !l.options.Host.Egress.AllowHTTP {
		message += ", or --dev while developing" // it is what the host complains of first
	}
	l.at(where, c.path()+"."+path, "%s", message)
}

// fieldOf returns the field of the auth type that a path within the configuration is of. When there is none, it is the
// name that is wrong, and that is what the place is to show.
func fieldOf(info host.PluginInfo, path string) (host.Field, bool) {
	name, _, _ := step(path)
	i := slices.IndexFunc(info.Fields, func(f host.Field) bool { return f.Name == name })
	if i < 0 {
		return host.Field{}, false
	}
	return info.Fields[i], true
}

// isPlainHTTP reports whether a value is a URL that needs --dev, which the host does not know.
func isPlainHTTP(n *node) bool {
	text, _ := n.value.(string)
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "http"
}
