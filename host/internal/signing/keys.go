package signing

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// Limits of RSA keys, in bits of the modulus. The lower one is that of RFC 7518 section 3.3. At the upper one, a
// signature takes most of a second, so a larger key could only do harm.
const (
	minRSABits = 2048
	maxRSABits = 8192
	maxPEM     = 16 << 10 // length of the text of a key that is parsed, in bytes: a key of maxRSABits fits
)

func isAllowedLength(bits int) bool { return minRSABits <= bits && bits <= maxRSABits }

// KeyError is the error for a key that cannot be used. It contains nothing of the key.
type KeyError struct {
	// Algorithm is the algorithm that the key was given for.
	Algorithm string
	// Problem says what is wrong, and what to do about it, such as "is empty or blank".
	Problem string
}

func (e *KeyError) Error() string { return "the key for " + e.Algorithm + " " + e.Problem }

// blank reports whether a key is empty or white space, like a secret that nobody has set.
func blank(key string) bool { return strings.TrimSpace(key) == "" }

// hmacKey returns the key of an HMAC algorithm, which is the bytes of the text. It refuses PEM: then the algorithm must
// be wrong, and if a public key were used as a secret, anybody could sign.
func hmacKey(method *jwt.SigningMethodHMAC, text string) (key []byte, warning string, err error) {
	switch {
	case blank(text):
		return nil, "", &KeyError{method.Name, problemBlank}
	case strings.Contains(text, "-----BEGIN") || strings.Contains(text, "-----END"):
		return nil, "", &KeyError{method.Name, "is PEM: a shared secret is needed, or the algorithm that the PEM key is for"}
	case len(text) < method.Hash.Size():
		warning = fmt.Sprintf("%s key is shorter than %d bytes", method.Name, method.Hash.Size())
	}
	return []byte(text), warning, nil
}

// ParsePrivate returns the private key in a text: PEM, Base64 of either alphabet, or a JWK. algorithm is the one that the key is for, or
// "". Otherwise, problem says what is wrong, as in a KeyError. It reports whether the key is an RSA key for RSASSA-PSS only.
func ParsePrivate(text, algorithm string) (key any, pss bool, problem string) {
	if len(text) > maxPEM {
		return nil, false, fmt.Sprintf("is longer than %d bytes", maxPEM)
	}
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "\ufeff"))
	var der []byte
	switch {
	case text == "":
		return nil, false, problemBlank
	case strings.HasPrefix(text, "{"):
		der, problem = jwkDER(text, algorithm)
	case strings.Contains(text, begin):
		der, problem = privateDER(text)
	default:
		if der = fromBase64(strings.Trim(text, "\"'")); algorithm == "EdDSA" && (len(der) == ed25519.SeedSize || len(der) == ed25519.PrivateKeySize) {
			key, problem = rawEd25519(der)
			return key, false, problem
		}
		if lengthOf(der) == 0 || lengthOf(der) != len(der) {
			return nil, false, "is not PEM, nor a JWK, nor Base64 of PKCS #8, PKCS #1 or SEC 1: copy all of it, with the line -----BEGIN … PRIVATE KEY----- if there is one"
		}
	}
	if problem != "" {
		return nil, false, problem
	}
	inner, pss := unwrap(der)
	if bits := rsaBits(inner); bits != 0 && !isAllowedLength(bits) {
		return nil, false, fmt.Sprintf("is an RSA key of %d bits: from %d to %d are allowed", bits, minRSABits, maxRSABits)
	}
	if pss { // the standard library does not parse it in PKCS #8
		der = inner
	}
	if key = parseDER(der); key == nil {
		return nil, false, otherDER(der)
	}
	return key, pss, ""
}

// fromBase64 returns the bytes of a text in either alphabet of RFC 4648, with or without padding, or nil.
func fromBase64(text string) []byte {
	text = strings.TrimRight(strings.Join(strings.Fields(lineBreaks.Replace(text)), ""), "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	der, err := encoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return der
}

// rawEd25519 returns the key of a seed, or of a seed and its public key (RFC 8032 section 5.1.5), as
// Coinbase hands them out (docs.cdp.coinbase.com).
func rawEd25519(raw []byte) (key ed25519.PrivateKey, problem string) {
	key = ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	if len(raw) == ed25519.PrivateKeySize && !bytes.Equal(key, raw) {
		return nil, "has 64 bytes, and its second half is not the public key of its first"
	}
	return key, ""
}

// otherDER says what der is, which is no private key that is known.
func otherDER(der []byte) (problem string) {
	var encrypted struct { // RFC 5958 section 3
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	if _, err := asn1.Unmarshal(der, &encrypted); err == nil {
		return problemEncrypted
	}
	if _, err := x509.ParsePKIXPublicKey(der); err == nil {
		return problemPublic
	}
	if _, err := x509.ParseCertificate(der); err == nil {
		return problemCertificate
	}
	return "is damaged, or of an unknown kind: RSA, EC and Ed25519 keys are known, in PKCS #8, PKCS #1 or SEC 1"
}

// Problems of what is no private key, or cannot be read.
const (
	problemBlank       = "is empty or blank"
	problemEncrypted   = "is encrypted: store it without a passphrase"
	problemPublic      = "is a public key: the private key is needed"
	problemCertificate = "is a certificate: the private key is needed"
)

// privateKey parses the key of any other algorithm.
func privateKey(method jwt.SigningMethod, text string) (any, error) {
	key, pss, problem := ParsePrivate(text, method.Alg())
	if problem != "" {
		return nil, &KeyError{method.Alg(), problem}
	}
	var public crypto.PublicKey
	if signer, ok := key.(crypto.Signer); ok {
		public = signer.Public()
	}
	if needed, ok := fits(method, public); !ok {
		return nil, &KeyError{method.Alg(), fmt.Sprintf("is %s: %s is needed", kind(key), needed)}
	}
	if _, v15 := method.(*jwt.SigningMethodRSA); v15 && pss {
		return nil, &KeyError{method.Alg(), "is an RSA key for RSASSA-PSS only: PS256, PS384 and PS512 are its algorithms"}
	}
	return key, nil
}

// privateDER returns the DER of the only private key in a PEM text. Otherwise, problem says what is wrong.
func privateDER(text string) (der []byte, problem string) {
	blocks, problem := PEM(text)
	// OpenSSL writes the curve in a block before the key. The key also names it.
	blocks = slices.DeleteFunc(blocks, func(b *pem.Block) bool { return b.Type == "EC PARAMETERS" })
	switch {
	case problem != "":
		return nil, problem
	case len(blocks) == 0:
		return nil, "is damaged PEM: there is no private key in it"
	case len(blocks) > 1:
		return nil, "has more than one PEM block: leave nothing but the private key"
	}
	return blocks[0].Bytes, blockProblem(blocks[0])
}

// blockProblem returns the reason why a PEM block cannot be a private key that signs, or "".
func blockProblem(block *pem.Block) string {
	switch {
	case block.Type == "ENCRYPTED PRIVATE KEY", strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
		return problemEncrypted
	case strings.HasSuffix(block.Type, "PUBLIC KEY"):
		return problemPublic
	case strings.HasSuffix(block.Type, "CERTIFICATE"):
		return problemCertificate
	case block.Type == "OPENSSH PRIVATE KEY":
		return "is in OpenSSH's own format: convert it to PKCS #8"
	case !strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return "is PEM, but no private key"
	}
	return ""
}

// rsaBits returns the length of the modulus of an RSA key in PKCS #1, or 0 for another key. It is called before the key is
// parsed, because parsing takes long for a huge key, and fails without a reason for a tiny one.
func rsaBits(der []byte) int {
	var key struct { // its other members are ignored
		Version int
		Modulus *big.Int
	}
	if _, err := asn1.Unmarshal(der, &key); err != nil {
		return 0
	}
	return key.Modulus.BitLen()
}

// oidPSS is the algorithm of keys for RSASSA-PSS only (RFC 4055 section 3.1).
var oidPSS = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10}

// unwrap returns the key in a key of PKCS #8 (RFC 5208 section 5), or else der, and whether that is for RSASSA-PSS only.
func unwrap(der []byte) (key []byte, pss bool) {
	var wrapped struct { // its attributes are ignored
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}
	if _, err := asn1.Unmarshal(der, &wrapped); err != nil {
		return der, false
	}
	return wrapped.Key, wrapped.Algorithm.Algorithm.Equal(oidPSS)
}

// parseDER returns the key in PKCS #8, PKCS #1 or SEC 1, or nil. It does not use the type of the PEM block, because
// blocks of the wrong type are common. It drops the errors of the parsers, because they describe the key.
func parseDER(der []byte) any {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return key
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key
	}
	return nil
}

// fits reports whether a method can use a key with the public half public, or nil. needed names the kind of key that it needs.
func fits(method jwt.SigningMethod, public crypto.PublicKey) (needed string, ok bool) {
	switch method := method.(type) {
	case *jwt.SigningMethodRSA, *jwt.SigningMethodRSAPSS:
		_, ok = public.(*rsa.PublicKey)
		return neededRSA, ok
	case *jwt.SigningMethodECDSA:
		key, ok := public.(*ecdsa.PublicKey)
		return fmt.Sprintf("an EC key on P-%d", method.CurveBits), ok && key.Curve.Params().BitSize == method.CurveBits
	case *jwt.SigningMethodEd25519:
		_, ok = public.(ed25519.PublicKey)
		return "an Ed25519 key", ok
	}
	return "another key", false
}

const neededRSA = "an RSA key"

func kind(key any) string {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return neededRSA
	case *ecdsa.PrivateKey:
		return "an EC key on " + key.Curve.Params().Name
	case ed25519.PrivateKey:
		return "an Ed25519 key"
	case *ecdh.PrivateKey:
		return "an X25519 key, which cannot sign"
	}
	return "a key of another kind"
}
