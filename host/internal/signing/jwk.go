package signing

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
	"slices"

	"github.com/keywright/keywright/host/internal/strictjson"
)

// privateJWK has the members of a private key as a JWK: RFC 7517 section 4, RFC 7518 sections 6.2 and 6.3, RFC 8037 section 2.
type privateJWK struct {
	Kty    string   `json:"kty"`
	Use    string   `json:"use"`
	KeyOps []string `json:"key_ops"`
	Alg    string   `json:"alg"`
	Crv    string   `json:"crv"`
	X      octets   `json:"x"`
	Y      octets   `json:"y"`
	D      octets   `json:"d"`
	N      octets   `json:"n"`
	E      octets   `json:"e"`
	P      octets   `json:"p"`
	Q      octets   `json:"q"`
	DP     octets   `json:"dp"`
	DQ     octets   `json:"dq"`
	QI     octets   `json:"qi"`
	Oth    any      `json:"oth"`
}

// octets are bytes in base64url.
type octets []byte

// UnmarshalText implements [encoding.TextUnmarshaler].
func (o *octets) UnmarshalText(text []byte) (err error) {
	*o, err = base64.RawURLEncoding.Strict().DecodeString(string(text))
	return err
}

// jwkDER returns the private key of a JWK in PKCS #8 or PKCS #1. algorithm is the one that the key is for, or "".
func jwkDER(text, algorithm string) (der []byte, problem string) {
	var k privateJWK
	err := strictjson.UnmarshalOpen([]byte(text), &k)
	switch {
	case err != nil:
		return nil, "begins with { and is no JWK that can be read: copy all of it"
	case k.Kty == "":
		return nil, "is JSON without kty, so no JWK: of a set of keys or a key file, store the private key alone"
	case k.Kty == "oct":
		return nil, "is a shared secret (kty oct): the private key is needed"
	case k.D == nil:
		return nil, problemPublic
	case k.Use != "" && k.Use != "sig", k.KeyOps != nil && !slices.Contains(k.KeyOps, "sign"):
		return nil, "is a JWK that is not for signing, by its use or key_ops: another key is needed"
	case k.Alg != "" && algorithm != "" && k.Alg != algorithm && (k.Alg != "Ed25519" || algorithm != "EdDSA"): // RFC 9864 section 2.2
		return nil, "is a JWK for another algorithm, by its alg: set that one, or take another key"
	}
	switch k.Kty {
	case "RSA":
		return k.rsa()
	case "EC", "OKP":
		key := k.curve()
		if der, err = x509.MarshalPKCS8PrivateKey(key); err == nil {
			return der, ""
		}
	}
	return nil, "is a JWK whose members do not fit each other, or of an unknown kind: RSA, EC on P-256, P-384 or P-521, and Ed25519 are known"
}

// rsa returns an RSA key in PKCS #1 (RFC 8017 appendix A.1.2). Its parser checks whether the members fit each other.
func (k *privateJWK) rsa() (der []byte, problem string) {
	if k.P == nil || k.Q == nil || k.DP == nil || k.DQ == nil || k.QI == nil || k.Oth != nil {
		return nil, "is an RSA key as a JWK that lacks p, q, dp, dq or qi, or has oth: convert it to PKCS #8"
	}
	n := func(o octets) *big.Int { return new(big.Int).SetBytes(o) }
	der, err := asn1.Marshal(struct {
		Version                     int
		N, E, D, P, Q, Dp, Dq, Qinv *big.Int
	}{0, n(k.N), n(k.E), n(k.D), n(k.P), n(k.Q), n(k.DP), n(k.DQ), n(k.QI)})
	if err != nil {
		return nil, "is a JWK that cannot be read"
	}
	return der, ""
}

// curve returns an EC, Ed25519 or X25519 key, or nil if the private member does not fit the public ones.
func (k *privateJWK) curve() any {
	var key any
	var public []byte
	curves := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}
	switch curve := curves[k.Crv]; {
	case k.Kty == "EC" && curve != nil:
		private, err := ecdsa.ParseRawPrivateKey(curve, k.D)
		if err != nil {
			return nil
		}
		public, _ = private.PublicKey.Bytes()
		key, public = private, public[1:] // without the 4 in front of x and y
	case k.Kty == "OKP" && k.Crv == "Ed25519" && len(k.D) == ed25519.SeedSize:
		private := ed25519.NewKeyFromSeed(k.D)
		key, public = private, private[ed25519.SeedSize:]
	case k.Kty == "OKP" && k.Crv == "X25519":
		private, err := ecdh.X25519().NewPrivateKey(k.D)
		if err != nil {
			return nil
		}
		key, public = private, private.PublicKey().Bytes()
	}
	if !bytes.Equal(public, slices.Concat(k.X, k.Y)) {
		return nil
	}
	return key
}
