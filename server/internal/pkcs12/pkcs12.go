// Package pkcs12 reads client certificates with their keys from files of PKCS #12 (RFC 7292), as banks hand them out.
package pkcs12

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf16"

	"software.sslmate.com/src/go-pkcs12"
)

// maxIterations is the maximum number of iterations by which a key is derived from the passphrase.
const maxIterations = 100_000

var errUnknownForm = errors.New("has a form or an encryption that is not known: export it again with openssl pkcs12 -export")

// Read returns the private key of a file, its certificate, and behind that the others in the order of the file. It reads
// AES (PBES2) and the legacy RC2 and 3DES. A key may be encrypted once, and not within the part of the certificates. The error says what is
// wrong, and has nothing of the file.
func Read(file []byte, passphrase string) (*tls.Certificate, error) {
	if costly(file, 0) {
		return nil, fmt.Errorf("derives its keys by more than %d iterations: export it with fewer", maxIterations)
	}
	if hidesKey(file, passphrase) {
		return nil, errUnknownForm
	}
	key, first, chain, err := pkcs12.DecodeChain(file, passphrase)
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword):
		return nil, errors.New("the passphrase is wrong")
	case errors.As(err, new(pkcs12.NotImplementedError)):
		return nil, errUnknownForm
	case err != nil && strings.HasSuffix(err.Error(), "encoded in UCS-2"):
		return nil, errors.New("the passphrase has a character that no such file can have")
	case err != nil && strings.HasSuffix(err.Error(), "private key missing"):
		return nil, errors.New("has no private key: export the certificate with its key")
	case err != nil && strings.HasSuffix(err.Error(), "certificate missing"):
		return nil, errors.New("has no certificate: export the key with its certificate")
	case secondKey(err):
		return nil, errors.New("has several private keys: export the one that is meant")
	case err != nil:
		return nil, errors.New("is damaged, or no file of PKCS #12: copy the whole file again")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("its key cannot sign: a client certificate needs an RSA, EC or Ed25519 key")
	}
	both := &tls.Certificate{PrivateKey: signer}
	for _, one := range append([]*x509.Certificate{first}, chain...) {
		public, ok := one.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
		if both.Leaf == nil && ok && public.Equal(signer.Public()) { // wherever it stands in the file
			both.Leaf, both.Certificate = one, append([][]byte{one.Raw}, both.Certificate...)
			continue
		}
		both.Certificate = append(both.Certificate, one.Raw)
	}
	if both.Leaf == nil {
		return nil, errors.New("its key is that of none of its certificates")
	}
	return both, nil
}

// costly reports whether a document in DER has more iterations than maxIterations, in what is not encrypted: they are an integer behind
// an octet string, the salt (RFC 7292 section 4, RFC 8018 appendix A).
func costly(der []byte, depth int) bool {
	salt := false
	for len(der) > 0 && depth < 32 {
		var one asn1.RawValue
		rest, err := asn1.Unmarshal(der, &one)
		if err != nil {
			return false
		}
		universal := one.Class == asn1.ClassUniversal
		if universal && one.Tag == asn1.TagInteger && salt && new(big.Int).SetBytes(one.Bytes).Cmp(big.NewInt(maxIterations)) > 0 {
			return true
		}
		salt = universal && one.Tag == asn1.TagOctetString
		if (one.IsCompound || salt) && costly(one.Bytes, depth+1) {
			return true
		}
		der = rest
	}
	return false
}

// secondKey reports whether an error of the library is for a second key. The library returns it before it decrypts that key.
func secondKey(err error) bool {
	return err != nil && strings.HasSuffix(err.Error(), "exactly one key bag")
}

// Identifiers of RFC 7292, sections 4 and 4.2, and of SHA-256.
var (
	plainData = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	keyBag    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 1}
	sha256OID = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
)

// plainContent is a ContentInfo of plainData.
type plainContent struct {
	Kind asn1.ObjectIdentifier
	Data []byte `asn1:"tag:0,explicit"`
}

// safeBag is a SafeBag without attributes. Value has the explicit tag 0.
type safeBag struct {
	Kind  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// hidesKey reports whether an encrypted part of a file has a key, of which costly does not see the iterations. It has the library
// decrypt each such part behind another key, so that a key in it is the second. It reports false for a file that the library refuses.
func hidesKey(file []byte, passphrase string) bool {
	var outer struct {
		Version int
		Safe    plainContent
		MAC     asn1.RawValue `asn1:"optional"`
	}
	var parts []asn1.RawValue
	if _, err := asn1.Unmarshal(file, &outer); err != nil {
		return false
	}
	if _, err := asn1.Unmarshal(outer.Safe.Data, &parts); err != nil {
		return false
	}
	var password []byte // RFC 7292 appendix B.1
	for _, unit := range append(utf16.Encode([]rune(passphrase)), 0) {
		password = binary.BigEndian.AppendUint16(password, unit)
	}
	for _, part := range parts {
		var plain plainContent
		if _, err := asn1.Unmarshal(part.FullBytes, &plain); err == nil && plain.Kind.Equal(plainData) {
			continue
		}
		_, _, _, err := pkcs12.DecodeChain(behindKey(part, password), passphrase)
		if !secondKey(err) && passphrase == "" { // for which the library takes no bytes, too, if the MAC does
			_, _, _, err = pkcs12.DecodeChain(behindKey(part, nil), passphrase)
		}
		if secondKey(err) {
			return true
		}
	}
	return false
}

// behindKey returns a file of a plain key and a part behind it. Its MAC is that of RFC 7292 appendix B.2: SHA-256, once, without a salt.
func behindKey(part asn1.RawValue, password []byte) []byte {
	key, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		panic(err) // the key is right
	}
	bags := marshal([]safeBag{{keyBag, asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: key}}})
	parts := marshal([]asn1.RawValue{{FullBytes: marshal(plainContent{plainData, bags})}, part})
	derived := bytes.Repeat([]byte{3}, sha256.BlockSize)
	for i := range (len(password) + sha256.BlockSize - 1) / sha256.BlockSize * sha256.BlockSize {
		derived = append(derived, password[i%len(password)])
	}
	macKey := sha256.Sum256(derived)
	mac := hmac.New(sha256.New, macKey[:])
	mac.Write(parts)
	type digest struct {
		Algorithm pkix.AlgorithmIdentifier
		Digest    []byte
	}
	type macData struct {
		Digest digest
		Salt   []byte
	}
	return marshal(struct {
		Version int
		Safe    plainContent
		MAC     macData
	}{3, plainContent{plainData, parts}, macData{Digest: digest{pkix.AlgorithmIdentifier{Algorithm: sha256OID}, mac.Sum(nil)}}})
}

// marshal returns a value of a type of this package in DER.
func marshal(value any) []byte {
	der, err := asn1.Marshal(value)
	if err != nil {
		panic(err)
	}
	return der
}
