package connectors

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/serve/httpserver"
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
	wrong, ok := errors.AsType[*host.ConfigError](err)
	if !ok {
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

// checkFiles checks the files that `serve` reads beside the file itself, and those of authorities, for their ends.
func (l *loader) checkFiles(ctx context.Context, root *node) {
	if !l.options.Inspect {
		return
	}
	l.ownCertificate(root)
	l.sessionKeys(ctx, root)
	l.checkAuthorities(root, "", "egress.ca_file")
	for i := range l.file.Secrets {
		l.checkAuthorities(root, "", fmt.Sprintf("secrets[%d].ca_file", i))
	}
}

// isReadable reports whether the file that a member names can be read. Where secrets are read, a file that cannot is a problem. Elsewhere it
// is a warning: the file may be on another machine, or belong to the user of the gateway (specification.md "files of another machine").
func (l *loader) isReadable(n *node, path, name string) bool {
	_, err := files.ReadRegular(name, 0)
	if err == nil {
		return true
	}
	why, add := "cannot be read: "+cause(err), l.warn
	switch {
	case errors.Is(err, files.ErrNotRegular):
		why, add = "is no regular file", l.report
	case errors.Is(err, fs.ErrNotExist):
		why = "names a file that is not on this machine"
	case errors.Is(err, fs.ErrPermission):
		why = "names a file that this user may not read"
	}
	if l.options.ReadSecrets {
		add = l.report
	}
	add(n.Place, path, "%s, and `serve` does not start without it", why)
	return false
}

// ownCertificate checks the certificate of the gateway and its key, as `serve` does at its start.
func (l *loader) ownCertificate(root *node) {
	pair := l.set.Settings.TLS
	n, _, found := root.locate("gateway.tls")
	if !found || pair.Cert == "" || pair.Key == "" {
		return // already reported
	}
	cert, key := n.get("cert").value, n.get("key").value
	const certPath, keyPath = "gateway.tls.cert", "gateway.tls.key"
	certReadable, keyReadable := l.isReadable(cert, certPath, pair.Cert), l.isReadable(key, keyPath, pair.Key)
	if !certReadable {
		return
	}
	chain, err := certificates(pair.Cert)
	if err != nil {
		l.report(cert.Place, certPath, "%v", err)
		return
	}
	if keyReadable {
		if _, err := httpserver.ReadPair(httpserver.Files(pair)); err != nil {
			l.report(key.Place, keyPath, "%v", err)
		}
	}
	if end := chain[0].NotAfter; l.options.Host.Clock().After(end) {
		l.report(cert.Place, certPath, "the certificate ended at %s, and callers refuse it: renew it", moment(end))
		return
	}
	l.warnOfEnds(chain, cert, certPath)
}

// checkAuthorities warns of authorities that have ended, or end soon, in the file that the member at a path within n names, if it is there.
// What is wrong with the file otherwise is reported already. n has the path prefix.
func (l *loader) checkAuthorities(n *node, prefix, path string) {
	n, _, found := n.locate(path)
	name, _ := n.value.(string)
	if !found || name == "" {
		return
	}
	path = prefix + path
	if !filepath.IsAbs(name) {
		name = filepath.Join(l.dir, name)
	}
	if _, err := files.ReadRegular(name, 0); err != nil {
		return
	}
	switch all, err := certificates(name); {
	case err == nil:
		l.warnOfEnds(all, n, path)
	case !slices.ContainsFunc(l.all, func(p Problem) bool { return p.Path == path }):
		l.warn(n.Place, path, "%v", err)
	}
}

// warnOfEnds warns of the first certificate to end, if it has ended or does so within 30 days.
func (l *loader) warnOfEnds(all []*x509.Certificate, n *node, path string) {
	first := slices.MinFunc(all, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	last := slices.MaxFunc(all, func(a, b *x509.Certificate) int { return a.NotBefore.Compare(b.NotBefore) })
	subject := func(c *x509.Certificate) string { return host.Printable(c.Subject.String()) }
	switch now := l.options.Host.Clock(); {
	case now.After(first.NotAfter):
		l.warn(n.Place, path, "the certificate of %s ended at %s: replace it", subject(first), moment(first.NotAfter))
	case (&host.ClientCertificate{NotAfter: first.NotAfter}).EndsSoon(now):
		l.warn(n.Place, path, "the certificate of %s ends at %s, within 30 days: renew it", subject(first), moment(first.NotAfter))
	case now.Before(last.NotBefore):
		l.warn(n.Place, path, "the certificate of %s is valid from %s on, and not before", subject(last), moment(last.NotBefore))
	}
}

// sessionKeys checks the file with the keys of sessions, as `serve` does at its start.
func (l *loader) sessionKeys(ctx context.Context, root *node) {
	n, _, found := root.locate("gateway.user.jwt.jwks_file")
	user := l.set.Settings.User
	const path = "gateway.user.jwt.jwks_file"
	if !found || user.JWT == nil || len(user.Check(l.set.Egress.AllowsHTTP)) > 0 || !l.isReadable(n, path, user.JWT.JWKSFile) {
		return
	}
	users, err := identity.New(ctx, user, identity.Options{Clock: l.options.Host.Clock, HTTP: l.set.Egress.AllowsHTTP})
	if err != nil {
		l.report(n.Place, path, "%v", err)
		return
	}
	defer users.Close()
	for _, reason := range users.Keys().Ignored {
		l.warn(n.Place, path, "a key of the file is not used: %s", reason)
	}
}

// certificates returns the certificates of a PEM file, of which there is one at least.
func certificates(name string) (all []*x509.Certificate, err error) {
	text, err := readAuthorities(name)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("has a certificate that cannot be read, number %d of the file", len(all)+1)
		}
		all = append(all, c)
	}
	if all == nil {
		return nil, errors.New("has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----")
	}
	return all, nil
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
