package connectors

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/serve/httpserver"
)

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
