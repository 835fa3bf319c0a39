package record

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"

	"github.com/keywright/keywright/host/hosttest"
)

// secret sets a secret of the case in place of a value: a key of the same kind, a document of the same shape, or a text.
func (r *recorder) secret(name, value string) {
	if algorithm := algorithmOf(value); algorithm != "" {
		r.step().Keys[name] = algorithm
		return
	}
	r.step().Secrets[name] = r.madeUp(value)
}

// madeUp returns a value of the same kind as a secret's.
func (r *recorder) madeUp(value string) string {
	var document any
	if trimmed := strings.TrimSpace(value); strings.HasPrefix(trimmed, "{") && json.Unmarshal([]byte(value), &document) == nil {
		text, err := json.Marshal(r.document(document))
		if err == nil {
			return string(text)
		}
	}
	if label, _, ok := strings.Cut(strings.TrimPrefix(value, pemBegin), "-----"); ok && strings.HasPrefix(value, pemBegin) {
		if algorithm := algorithmOf(value); algorithm != "" {
			return newKey(algorithm)
		}
		if slices.Contains(pemLabels, label) {
			return pemBegin + label + "-----\n" + r.text("a text without padding") + "\n-----END " + label + "-----\n"
		}
	}
	return r.text(value)
}

const pemBegin = "-----BEGIN "

var pemLabels = []string{
	"CERTIFICATE", "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "PUBLIC KEY", "OPENSSH PRIVATE KEY",
}

// document returns a document of the same shape, such as a key file of Google, with other texts.
func (r *recorder) document(value any) any {
	memberName := func(name string) string {
		if plainName.MatchString(name) || name != "" && names(r.out.Case.Config, name) {
			return name
		}
		return r.text(name)
	}
	return mapped(value, memberName, func(value any) any {
		switch v := value.(type) {
		case string:
			switch url := r.withHosts(v); {
			case slices.Contains(documentWords, v):
				return v
			case url != v:
				return r.url(url)
			}
			return r.madeUp(v)
		case float64:
			return 1
		}
		return value
	})
}

// documentWords are texts of such documents that are the same everywhere.
var documentWords = []string{
	"service_account", "authorized_user", "RSA", "EC", "OKP", "oct", "sig", "enc", "P-256", "P-384", "P-521", "Ed25519",
	"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512",
}

// algorithmOf returns an algorithm for which the private key in a PEM text is, or "".
func algorithmOf(text string) string {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return ""
	}
	var key any
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	if err != nil {
		if key, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
			return ""
		}
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return "RS256"
	case ed25519.PrivateKey:
		return "EdDSA"
	case *ecdsa.PrivateKey:
		return map[elliptic.Curve]string{elliptic.P256(): "ES256", elliptic.P384(): "ES384", elliptic.P521(): "ES512"}[key.Curve]
	}
	return ""
}

// newKey returns a new private key in PEM for an algorithm.
func newKey(algorithm string) string {
	h := hosttest.New(&hosttest.Collector{}, "key", hosttest.Module{})
	h.Key("key", algorithm)
	key, _ := h.Render("{{ get_secret('key') }}") // it is there
	return key
}
