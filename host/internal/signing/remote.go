package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/jws"
)

// CheckPublic returns a *KeyError unless an algorithm fits a key with the public half public. public is nil for a key without
// a public half. kind is the store's own name for the kind of key. The error is ErrAlgorithm for an HMAC and for an unknown
// algorithm.
//
// For keys that stay in a store, which may sign with whatever key it has.
func CheckPublic(algorithm, kind string, public crypto.PublicKey) error {
	method := methodOf(algorithm)
	if method == nil {
		return ErrAlgorithm
	}
	var needed string
	var fits bool
	switch method := method.(type) {
	case *jwt.SigningMethodRSA, *jwt.SigningMethodRSAPSS:
		key, ok := public.(*rsa.PublicKey)
		needed, fits = fmt.Sprintf("an RSA key of %d to %d bits", minRSABits, maxRSABits), ok && key.N.BitLen() >= minRSABits && key.N.BitLen() <= maxRSABits
	case *jwt.SigningMethodECDSA:
		key, ok := public.(*ecdsa.PublicKey)
		needed, fits = fmt.Sprintf("an EC key on P-%d", method.CurveBits), ok && key.Curve.Params().BitSize == method.CurveBits
	case *jwt.SigningMethodEd25519:
		_, fits = public.(ed25519.PublicKey)
		needed = "an Ed25519 key"
	default:
		return ErrAlgorithm // no store signs with a shared secret; it makes a MAC
	}
	if !fits {
		return &KeyError{algorithm, fmt.Sprintf("is of the type %s: %s is needed", kind, needed)}
	}
	return nil
}

// Verify reports whether a signature with an algorithm is one of data. public is the public half of the key, which CheckPublic has
// found to fit.
func Verify(algorithm string, public crypto.PublicKey, data, signature []byte) bool {
	method := methodOf(algorithm)
	return method != nil && method.Verify(string(data), signature, public) == nil
}

// SignatureSize returns the length of a signature with an algorithm, in bytes, or of the MAC of an HMAC algorithm. public is
// the public half of the key, which CheckPublic has found to fit, and nil for an HMAC. The length of an unknown algorithm
// is 0.
func SignatureSize(algorithm string, public crypto.PublicKey) int {
	switch algorithm {
	case contract.MACSHA1:
		return crypto.SHA1.Size()
	case contract.SignRS1:
		algorithm = "RS256" // the hash does not change the length
	}
	switch method := jws.Method(algorithm).(type) {
	case *jwt.SigningMethodHMAC:
		return method.Hash.Size()
	case *jwt.SigningMethodECDSA:
		return 2 * method.KeySize
	case *jwt.SigningMethodEd25519:
		return ed25519.SignatureSize
	}
	if key, ok := public.(*rsa.PublicKey); ok {
		return key.Size()
	}
	return 0
}
