package connect

import (
	"crypto/x509"
	"errors"
	"slices"
	"strings"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/problem"
)

// TLSConfig is the TLS of a configuration. Each field means what the field of host.TLS with the same name means.
type TLSConfig struct {
	Certificate, Key, PKCS12, Passphrase, CA string
	For                                      []string
}

// What TLS is for.
const (
	ForAPI   = "api"
	ForToken = "token"
)

// TLS is a compiled TLS. Templates of texts that are empty are nil.
type TLS struct {
	Certificate, Key, PKCS12, Passphrase, CA *template.Template
	// API and Token report what it is for.
	API, Token bool
}

// tlsTemplate is a template of a TLS, with the path of its member.
type tlsTemplate struct {
	path string
	*template.Template
}

// templates returns the templates of a TLS, which may be nil.
func (t *TLS) templates() (all []tlsTemplate) {
	if t == nil {
		return nil
	}
	for _, one := range []tlsTemplate{
		{"tls.certificate", t.Certificate}, {"tls.key", t.Key}, {"tls.pkcs12", t.PKCS12}, {"tls.passphrase", t.Passphrase}, {"tls.ca", t.CA},
	} {
		if one.Template != nil {
			all = append(all, one)
		}
	}
	return all
}

// tls checks and compiles the TLS of the connector.
func (k *checker) tls() {
	t := k.in.TLS
	if t == nil {
		return
	}
	if k.in.Base {
		k.Wrong("tls", "needs the transport of the host, and Config.Base takes its place: leave one of them out")
	}
	switch {
	case t.Certificate == "" && t.Key == "" && t.PKCS12 == "" && t.CA == "":
		k.Wrong("tls", "has neither certificate nor pkcs12 nor ca: give it one of them, or leave it out")
	case t.PKCS12 != "" && (t.Certificate != "" || t.Key != ""):
		k.Wrong("tls.pkcs12", "takes the place of certificate and key: leave them out, or this")
	case t.PKCS12 != "" && !k.in.PKCS12:
		k.Wrong("tls.pkcs12", "needs Config.PKCS12, which reads such files")
	case t.PKCS12 == "" && t.Passphrase != "":
		k.Wrong("tls.passphrase", "has no effect without pkcs12: leave it out")
	case t.Certificate == "" && t.Key != "":
		k.Wrong("tls.certificate", "is missing: key has no use without it")
	case t.Certificate != "" && t.Key == "":
		k.Wrong("tls.key", "is missing: it is the private key of certificate")
	}
	all := []string{ForAPI, ForToken}
	for i, purpose := range t.For {
		if !slices.Contains(all, purpose) {
			k.Wrong(indexed("tls.for", i), "is neither %s%s", strings.Join(all, " nor "), problem.DidYouMean(purpose, all))
		}
	}
	compiled := &TLS{
		Certificate: k.pem("tls.certificate", t.Certificate), Key: k.pem("tls.key", t.Key), CA: k.pem("tls.ca", t.CA),
		PKCS12: k.pem("tls.pkcs12", t.PKCS12), Passphrase: k.pem("tls.passphrase", t.Passphrase),
		API: len(t.For) == 0 || slices.Contains(t.For, ForAPI), Token: len(t.For) == 0 || slices.Contains(t.For, ForToken),
	}
	k.plan.TLS = compiled
	if compiled.Key != nil && !compiled.Key.Secret() {
		k.Wrong("tls.key", "names no secret: keep the key in one, and write {{ get_secret('client_key') }}")
	}
	if compiled.PKCS12 != nil && !compiled.PKCS12.Secret() {
		k.Wrong("tls.pkcs12", "names no secret: keep the file in one, and write {{ get_secret('client_p12') }}")
	}
	if compiled.API && k.plan.Origins.Insecure() {
		k.Wrong("tls", "is for the API, whose origin is plain http: nobody presents a certificate there")
	}
}

// pem compiles a template of a text in PEM, and checks a text without expressions. It returns nil if the text is empty.
func (k *checker) pem(path, text string) *template.Template {
	if text == "" {
		return nil
	}
	compiled, errs := template.Compile(text)
	for _, e := range errs {
		k.At(problem.Place{Column: e.Column}, path, "%s", e.Message)
	}
	if len(errs) > 0 {
		return nil
	}
	switch names := compiled.Names(); {
	case compiled.Key() != nil:
		k.At(problem.Place{Column: 1}, path, "%s", template.NoKey)
		return nil
	case names.UserToken():
		k.Wrong(path, "%s", UserTokenPlace)
		return nil
	case len(names.Discovered) > 0:
		k.Wrong(path, "%s", DiscoverPlace)
		return nil
	}
	if literal, ok := compiled.Literal(); ok && (path == "tls.certificate" || path == "tls.ca") {
		if _, err := ParseCertificates(path, literal); err != nil {
			k.Wrong(path, "%v", errors.Unwrap(err))
		}
	}
	return compiled
}

// tlsNames adds the names in the templates of the connector's TLS to its plan. They become part of the partition, so that a
// token that is bound to a certificate (RFC 8705 section 3) is not used with another one. They have no sinks, so that no plugin
// can ask for them.
func (k *checker) tlsNames() {
	for _, t := range k.plan.TLS.templates() {
		k.plan.Names.Merge(t.Names())
		k.plan.addSecrets(t.path, t.Names())
	}
}

// ParseCertificates returns the certificates in a PEM text, at least one. Blocks of other kinds are ignored, such as a key in
// the same file. The error names the member of the connector that has the text, and nothing of the text.
func ParseCertificates(path, text string) (all []*x509.Certificate, err error) {
	blocks, problem := signing.PEM(text)
	if problem != "" {
		return nil, hostfn.FieldErrorf(path, "%s", problem)
	}
	for _, block := range blocks {
		if block.Type != "CERTIFICATE" {
			continue
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, hostfn.FieldErrorf(path, "certificate %d in it cannot be parsed: copy the whole file again", len(all)+1)
		}
		all = append(all, one)
	}
	if len(all) > 0 {
		return all, nil
	}
	return nil, hostfn.FieldErrorf(path, "has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----: "+
		"take it from a secret, as in {{ get_secret('client_certificate') }}")
}
