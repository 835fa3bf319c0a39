package connect

import (
	"crypto/fips140"
	"slices"
	"strings"

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

// The texts of a TLS.
const (
	Certificate = iota
	Key
	PKCS12
	Passphrase
	CA
	TLSTexts // their number
)

// TLSPaths are the paths of the texts of a TLS.
var TLSPaths = [TLSTexts]string{"tls.certificate", "tls.key", "tls.pkcs12", "tls.passphrase", "tls.ca"}

// TLS is a compiled TLS.
type TLS struct {
	// Templates has nil for a text that is empty.
	Templates [TLSTexts]*template.Template
	// API and Token report what it is for.
	API, Token bool
}

// tlsNames calls add with the path and the names of each template of the plan's TLS.
func (p *Plan) tlsNames(add func(path string, names template.Names)) {
	if p.TLS == nil {
		return
	}
	for i, t := range p.TLS.Templates {
		if t != nil {
			add(TLSPaths[i], t.Names())
		}
	}
}

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
	case t.PKCS12 != "" && fips140.Enforced():
		k.Wrong("tls.pkcs12", "is not allowed with fips140=only: write certificate and key, in PEM")
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
	compiled := &TLS{API: len(t.For) == 0 || slices.Contains(t.For, ForAPI), Token: len(t.For) == 0 || slices.Contains(t.For, ForToken)}
	for i, text := range [...]string{Certificate: t.Certificate, Key: t.Key, PKCS12: t.PKCS12, Passphrase: t.Passphrase, CA: t.CA} {
		compiled.Templates[i] = k.pem(TLSPaths[i], text)
	}
	k.plan.TLS = compiled
	if key := compiled.Templates[Key]; key != nil && !key.Secret() {
		k.Wrong("tls.key", "names no secret: keep the key in one, and write {{ get_secret('client_key') }}")
	}
	if file := compiled.Templates[PKCS12]; file != nil && !file.Secret() {
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
	if column, wrong := Misplaced(compiled); wrong != "" {
		k.At(problem.Place{Column: column}, path, "%s", wrong)
		return nil
	}
	if literal, ok := compiled.Literal(); ok && (path == "tls.certificate" || path == "tls.ca") {
		if _, err := signing.Certificates(literal); err != nil {
			k.Wrong(path, "%v", err)
		}
	}
	return compiled
}
