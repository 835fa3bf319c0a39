// Package pkcs12 reads client certificates with their keys from files of PKCS #12 (RFC 7292), as banks hand them out.
package pkcs12

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"software.sslmate.com/src/go-pkcs12"
)

// maxIterations is the maximum number of iterations by which a key is derived from the passphrase.
const maxIterations = 100_000

// Read returns the private key of a file, its certificate, and behind that the others in the order of the file. It reads
// AES (PBES2) and the legacy RC2 and 3DES. The error says what is wrong, and has nothing of the file.
func Read(file []byte, passphrase string) (*tls.Certificate, error) {
	if costly(file, 0) {
		return nil, fmt.Errorf("derives its keys by more than %d iterations: export it with fewer", maxIterations)
	}
	key, first, others, err := pkcs12.DecodeChain(file, passphrase)
	var unknown pkcs12.NotImplementedError
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword):
		return nil, errors.New("the passphrase is wrong")
	case errors.As(err, &unknown):
		return nil, errors.New("has a form or an encryption that is not known: export it again with openssl pkcs12 -export")
	case err != nil && strings.HasSuffix(err.Error(), "encoded in UCS-2"):
		return nil, errors.New("the passphrase has a character that no such file can have")
	case err != nil && strings.HasSuffix(err.Error(), "private key missing"):
		return nil, errors.New("has no private key: export the certificate with its key")
	case err != nil && strings.HasSuffix(err.Error(), "certificate missing"):
		return nil, errors.New("has no certificate: export the key with its certificate")
	case err != nil && strings.HasSuffix(err.Error(), "exactly one key bag"):
		return nil, errors.New("has several private keys: export the one that is meant")
	case err != nil:
		return nil, errors.New("is damaged, or no file of PKCS #12: copy the whole file again")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("its key cannot sign: a client certificate needs an RSA, EC or Ed25519 key")
	}
	both := &tls.Certificate{PrivateKey: signer}
	for _, one := range append([]*x509.Certificate{first}, others...) {
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
