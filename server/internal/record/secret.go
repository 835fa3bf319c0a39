package record

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
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
		if key := r.key(value); key != "" {
			return key
		}
		for _, known := range []string{"CERTIFICATE", "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "PUBLIC KEY", "OPENSSH PRIVATE KEY"} {
			if label == known {
				return pemBegin + label + "-----\n" + r.text("a text without padding") + "\n-----END " + label + "-----\n"
			}
		}
	}
	return r.text(value)
}

const pemBegin = "-----BEGIN "

// document returns a document of the same shape, such as a key file of Google, with other texts.
func (r *recorder) document(value any) any {
	name := func(name string) string {
		if plainName.MatchString(name) || r.names(name) {
			return name
		}
		return r.text(name)
	}
	return mapped(value, name, func(value any) any {
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

// names reports whether an expression of the configuration has a name, such as that of a member of a document.
func (r *recorder) names(name string) bool {
	return name != "" && slices.ContainsFunc(configTexts(r.out.Case.Config), func(text string) bool { return strings.Contains(text, name) })
}

// documentWords are texts of such documents that are the same everywhere.
var documentWords = []string{
	"service_account", "authorized_user", "RSA", "EC", "OKP", "oct", "sig", "enc", "P-256", "P-384", "P-521", "Ed25519",
	"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512",
}

// parsed returns the private key in a PEM text, or nil.
func parsed(text string) any {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		return key
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key
	}
	return nil
}

// algorithmOf returns an algorithm for which the private key in a PEM text is, or "".
func algorithmOf(text string) string {
	switch key := parsed(text).(type) {
	case *rsa.PrivateKey:
		return "RS256"
	case ed25519.PrivateKey:
		return "EdDSA"
	case *ecdsa.PrivateKey:
		return map[elliptic.Curve]string{elliptic.P256(): "ES256", elliptic.P384(): "ES384", elliptic.P521(): "ES512"}[key.Curve]
	}
	return ""
}

// key returns a new private key of the same kind as that in a PEM text, or "" if there is none.
func (r *recorder) key(text string) string {
	var made any
	var err error
	switch key := parsed(text).(type) {
	case *rsa.PrivateKey:
		made, err = rsa.GenerateKey(rand.Reader, 2048)
	case ed25519.PrivateKey:
		_, made, err = ed25519.GenerateKey(rand.Reader)
	case *ecdsa.PrivateKey:
		made, err = ecdsa.GenerateKey(key.Curve, rand.Reader)
	default:
		return ""
	}
	if err != nil {
		return ""
	}
	der, err := x509.MarshalPKCS8PrivateKey(made)
	if err != nil {
		return ""
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
