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

// PublicJWK returns the public half of a key as a JWK (RFC 7517) that has the required members only, in the order of RFC 7638 section 3. So
// its SHA-256 is the thumbprint. Algorithms, keys and errors are those of [Signer.Key]. The secret of an HMAC has no public half.
func (s *Signer) PublicJWK(algorithm, key string) (string, error) {
	if jws.Symmetric(algorithm) {
		return "", &KeyError{algorithm, "is a shared secret, which has no public half"}
	}
	k, _, err := s.Key(algorithm, key)
	if err != nil {
		return "", err
	}
	return k.jwk, nil
}

// JWK returns a public key as PublicJWK does.
func JWK(key crypto.PublicKey) (string, error) {
	encode := base64.RawURLEncoding.EncodeToString
	var members map[string]string // which encoding/json sorts
	switch key := key.(type) {
	case *rsa.PublicKey:
		members = map[string]string{"kty": "RSA", "e": encode(big.NewInt(int64(key.E)).Bytes()), "n": encode(key.N.Bytes())}
	case *ecdsa.PublicKey:
		point, err := key.Bytes() // 4, x and y
		if err != nil {
			return "", err
		}
		half := len(point) / 2
		members = map[string]string{"kty": "EC", "crv": key.Params().Name, "x": encode(point[1 : 1+half]), "y": encode(point[1+half:])}
	case ed25519.PublicKey:
		members = map[string]string{"kty": "OKP", "crv": "Ed25519", "x": encode(key)}
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

// CheckPublic returns a *KeyError unless an algorithm fits a key with the public half public. public is nil for a key without a public
// half. kind is the store's own name for the kind of key. The error is ErrAlgorithm for an HMAC and for an unknown algorithm.
//
// For keys that stay in a store, which may sign with whatever key it has.
func CheckPublic(algorithm, kind string, public crypto.PublicKey) error {
	method := methodOf(algorithm)
	if method == nil || jws.Symmetric(algorithm) { // no store signs with a shared secret; it makes a MAC
		return ErrAlgorithm
	}
	needed, ok := fits(method, public)
	if needed == neededRSA {
		needed = fmt.Sprintf("%s of %d to %d bits", needed, minRSABits, maxRSABits)
		ok = ok && isAllowedLength(public.(*rsa.PublicKey).N.BitLen())
	}
	if !ok {
		return &KeyError{algorithm, fmt.Sprintf("is of the type %s: %s is needed", kind, needed)}
	}
	return nil
}

// Verify reports whether a signature with an algorithm is one of data. public is the key's public half, which CheckPublic has found to fit.
func Verify(algorithm string, public crypto.PublicKey, data, signature []byte) bool {
	method := methodOf(algorithm)
	return method != nil && method.Verify(string(data), signature, public) == nil
}

// SignatureSize returns the length of a signature with an algorithm, in bytes, or of the MAC of an HMAC algorithm. public is the public
// half of the key, which CheckPublic has found to fit, and nil for an HMAC. The length of an unknown HMAC is 0.
func SignatureSize(algorithm string, public crypto.PublicKey) int {
	if newHash := hashes[algorithm]; newHash != nil {
		return newHash().Size()
	}
	switch public := public.(type) {
	case *rsa.PublicKey:
		return public.Size()
	case *ecdsa.PublicKey:
		return 2 * ((public.Params().BitSize + 7) / 8)
	case ed25519.PublicKey:
		return ed25519.SignatureSize
	}
	return 0
}

// Certificates returns the certificates in a PEM text, at least one, in order. Its error describes the text, and does not quote it.
func Certificates(text string) (all []*x509.Certificate, err error) {
	blocks, problem := PEM(text)
	if problem != "" {
		return nil, errors.New(problem)
	}
	for _, block := range blocks {
		if block.Type != "CERTIFICATE" {
			continue // a file may have the key as well
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("has a certificate, number %d, that cannot be parsed: copy the whole file again", len(all)+1)
		}
		all = append(all, one)
	}
	if all == nil {
		return nil, errors.New("has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----: " +
			"take it from a secret, as in {{ get_secret('client_certificate') }}")
	}
	return all, nil
}

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
		curve := map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384()}[algorithm]
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
