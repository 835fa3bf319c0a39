package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"

	"github.com/keywright/keywright/internal/jws"
)

// PublicJWK returns the public half of a key as a JWK (RFC 7517) that has the required members only, in the order of RFC
// 7638 section 3. So its SHA-256 is the thumbprint. Algorithms, keys and errors are those of [Signer.Sign]. The secret of an
// HMAC has no public half.
func (s *Signer) PublicJWK(algorithm, key string) (string, error) {
	method := methodOf(algorithm)
	if method == nil {
		return "", ErrAlgorithm
	}
	if jws.Symmetric(algorithm) {
		return "", &KeyError{algorithm, "is a shared secret, which has no public half"}
	}
	parsed, _, err := s.key(method, key)
	if err != nil {
		return "", err
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return "", &KeyError{algorithm, "has no public half"}
	}
	return JWK(signer.Public())
}

// JWK returns a public key as PublicJWK does.
func JWK(key crypto.PublicKey) (string, error) {
	encode := base64.RawURLEncoding.EncodeToString
	var members any // in lexicographic order
	switch key := key.(type) {
	case *rsa.PublicKey:
		members = struct {
			E   string `json:"e"`
			Kty string `json:"kty"`
			N   string `json:"n"`
		}{encode(big.NewInt(int64(key.E)).Bytes()), "RSA", encode(key.N.Bytes())}
	case *ecdsa.PublicKey:
		point, err := key.Bytes() // 4, x and y
		if err != nil {
			return "", err
		}
		half := len(point) / 2
		members = struct {
			Crv string `json:"crv"`
			Kty string `json:"kty"`
			X   string `json:"x"`
			Y   string `json:"y"`
		}{key.Params().Name, "EC", encode(point[1 : 1+half]), encode(point[1+half:])}
	case ed25519.PublicKey:
		members = struct {
			Crv string `json:"crv"`
			Kty string `json:"kty"`
			X   string `json:"x"`
		}{"Ed25519", "OKP", encode(key)}
	default:
		return "", errors.New("the key has no form as JWK")
	}
	document, err := json.Marshal(members)
	return string(document), err
}

// Thumbprint returns the thumbprint of a JWK of PublicJWK with SHA-256, in base64url (RFC 7638).
func Thumbprint(jwk string) string {
	sum := sha256.Sum256([]byte(jwk))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Certificates returns the certificates in a PEM text, in order. Its error describes the text, and does not quote it. There
// is at least one certificate, and at most 16.
func Certificates(text string) ([]*x509.Certificate, error) {
	if len(text) > 4*maxPEM {
		return nil, fmt.Errorf("is longer than %d bytes", 4*maxPEM)
	}
	blocks, problem := PEM(text)
	if problem != "" {
		return nil, errors.New(problem)
	}
	var all []*x509.Certificate
	for _, block := range blocks {
		if block.Type != "CERTIFICATE" || len(all) == maxCertificates {
			continue // a file may have the key as well
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("has a certificate that is damaged")
		}
		all = append(all, certificate)
	}
	if len(all) == 0 {
		return nil, errors.New("is no certificate in PEM: it must have its lines -----BEGIN CERTIFICATE-----")
	}
	return all, nil
}

// maxCertificates is the maximum number of certificates that are read from a text.
const maxCertificates = 16

// Generate returns a private key in PKCS #8 and PEM, for ES256, ES384 or EdDSA. The key is derived from secret and info with
// HKDF (RFC 5869), so the same arguments return the same key. It is kept, because to derive it takes as long as a signature.
func (s *Signer) Generate(algorithm string, secret [32]byte, info string) (string, error) {
	id := fingerprint{algorithm, sha256.Sum256(append(secret[:], info...))}
	if key, ok := s.generated.Get(id); ok {
		return key, nil
	}
	key, err := generate(algorithm, secret[:], info)
	if err == nil {
		s.generated.Add(id, key)
	}
	return key, err
}

func generate(algorithm string, secret []byte, info string) (string, error) {
	var key any
	switch algorithm {
	case "ES256", "ES384":
		curve := elliptic.P256()
		if algorithm == "ES384" {
			curve = elliptic.P384()
		}
		size := (curve.Params().BitSize + 7) / 8
		for n := byte(0); key == nil; n++ { // nearly each number of that size is less than the order of the curve
			scalar, err := hkdf.Key(sha256.New, secret, []byte{n}, algorithm+" "+info, size)
			if err != nil {
				return "", err
			}
			if parsed, err := ecdsa.ParseRawPrivateKey(curve, scalar); err == nil {
				key = parsed
			}
		}
	case "EdDSA":
		seed, err := hkdf.Key(sha256.New, secret, nil, algorithm+" "+info, ed25519.SeedSize)
		if err != nil {
			return "", err
		}
		key = ed25519.NewKeyFromSeed(seed)
	default:
		return "", fmt.Errorf("a key is generated for ES256, ES384 and EdDSA only, not for %s", algorithm)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
}
