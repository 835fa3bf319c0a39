package host

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/problem"
)

// tls checks and compiles the TLS of the connector.
func (k *checker) tls() {
	c, t := k.connector, k.connector.config.TLS
	if t == nil {
		return
	}
	if k.host.config.Base != nil {
		k.Wrong("tls", "needs the transport of the host, and Config.Base takes its place: leave one of them out")
	}
	switch {
	case t.Certificate == "" && t.Key == "" && t.PKCS12 == "" && t.CA == "":
		k.Wrong("tls", "has neither certificate nor pkcs12 nor ca: give it one of them, or leave it out")
	case t.PKCS12 != "" && (t.Certificate != "" || t.Key != ""):
		k.Wrong("tls.pkcs12", "takes the place of certificate and key: leave them out, or this")
	case t.PKCS12 != "" && k.host.config.PKCS12 == nil:
		k.Wrong("tls.pkcs12", "needs Config.PKCS12, which reads such files")
	case t.PKCS12 == "" && t.Passphrase != "":
		k.Wrong("tls.passphrase", "has no effect without pkcs12: leave it out")
	case t.Certificate == "" && t.Key != "":
		k.Wrong("tls.certificate", "is missing: key has no use without it")
	case t.Certificate != "" && t.Key == "":
		k.Wrong("tls.key", "is missing: it is the private key of certificate")
	}
	c.tls = &connectorTLS{api: t.Covers(TLSForAPI), token: t.Covers(TLSForToken), read: k.host.config.PKCS12}
	all := []string{TLSForAPI, TLSForToken}
	for i, purpose := range t.For {
		if !slices.Contains(all, purpose) {
			k.Wrong(fmt.Sprintf("tls.for[%d]", i), "is neither %s%s", strings.Join(all, " nor "), problem.DidYouMean(purpose, all))
		}
	}
	c.tls.certificate = k.pem("tls.certificate", t.Certificate)
	c.tls.key = k.pem("tls.key", t.Key)
	c.tls.ca = k.pem("tls.ca", t.CA)
	c.tls.pkcs12 = k.pem("tls.pkcs12", t.PKCS12)
	c.tls.passphrase = k.pem("tls.passphrase", t.Passphrase)
	if c.tls.key != nil && !c.tls.key.Secret() {
		k.Wrong("tls.key", "names no secret: keep the key in one, and write {{ get_secret('client_key') }}")
	}
	if c.tls.pkcs12 != nil && !c.tls.pkcs12.Secret() {
		k.Wrong("tls.pkcs12", "names no secret: keep the file in one, and write {{ get_secret('client_p12') }}")
	}
	if c.tls.api && c.origins.Insecure() {
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
		k.Wrong(path, "%s", userTokenPlace)
		return nil
	case len(names.Discovered) > 0:
		k.Wrong(path, "%s", discoverPlace)
		return nil
	}
	if literal, ok := compiled.Literal(); ok && (path == "tls.certificate" || path == "tls.ca") {
		if _, err := parseCertificates(path, literal); err != nil {
			k.Wrong(path, "%v", errors.Unwrap(err))
		}
	}
	return compiled
}

// tlsNames adds the names in the templates of the connector's TLS to its plan. They become part of the partition, so that a
// token that is bound to a certificate (RFC 8705 section 3) is not used with another one. They have no sinks, so that no plugin
// can ask for them.
func (k *checker) tlsNames() {
	c := k.connector
	for _, t := range c.tls.templates() {
		names := t.Names()
		c.plan.Names.Merge(names)
		for _, secret := range names.Secrets {
			if c.fieldOfSecret[secret] == "" {
				c.fieldOfSecret[secret] = t.path
			}
		}
	}
	if c.tls != nil && c.tls.token {
		c.plan.ClientOf = c.tokenClient
	}
}

// parseCertificates returns the certificates in a PEM text, at least one. Blocks of other kinds are ignored, such as a key in
// the same file. The error names the member of the connector that has the text, and nothing of the text.
func parseCertificates(path, text string) (all []*x509.Certificate, err error) {
	blocks, problem := signing.PEM(text)
	if problem != "" {
		return nil, fieldError(path, "%s", problem)
	}
	for _, block := range blocks {
		if block.Type != "CERTIFICATE" {
			continue
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fieldError(path, "certificate %d in it cannot be parsed: copy the whole file again", len(all)+1)
		}
		all = append(all, one)
	}
	if len(all) > 0 {
		return all, nil
	}
	return nil, fieldError(path, "has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----: take it from a secret, as in {{ get_secret('client_certificate') }}")
}

// fieldError returns an error about a member of tls.
func fieldError(path, format string, args ...any) error {
	return &hostfn.FieldError{Field: path, Err: fmt.Errorf(format, args...)}
}

// pair returns a chain with its key. The chain begins with the client's own certificate.
func pair(chain []*x509.Certificate, text string) (*tls.Certificate, error) {
	key, _, wrong := signing.ParsePrivate(text, "")
	if wrong != "" {
		return nil, fieldError("tls.key", "the key %s", wrong)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fieldError("tls.key", "the key cannot sign: a client certificate needs an RSA, EC or Ed25519 key")
	}
	fits := func(one *x509.Certificate) bool {
		public, ok := one.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
		return ok && public.Equal(signer.Public())
	}
	switch i := slices.IndexFunc(chain, fits); {
	case i < 0:
		return nil, fieldError("tls.key", "the key is not that of tls.certificate: both must be renewed together")
	case i > 0:
		return nil, fieldError("tls.certificate", "certificate %d in it is the key's own: put it first, and its issuers behind it", i+1)
	}
	certificate := &tls.Certificate{PrivateKey: signer, Leaf: chain[0]}
	for _, one := range chain {
		certificate.Certificate = append(certificate.Certificate, one.Raw)
	}
	return certificate, nil
}
