package testworld

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"
)

// Authority is a certificate authority.
type Authority struct {
	t           testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns a new authority, whose certificate is valid at all times that tests use.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, key: newKey(t)}
	a.certificate = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotAfter: distantFuture,
	}, nil, &a.key.PublicKey)
	return a
}

var (
	distantPast   = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	distantFuture = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	return Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

// sign returns a certificate that the issuer signs, or that is self-signed if the issuer is nil.
func (a *Authority) sign(c, issuer *x509.Certificate, public *ecdsa.PublicKey) *x509.Certificate {
	a.t.Helper()
	c.SerialNumber, c.NotBefore = big.NewInt(time.Now().UnixNano()), distantPast
	issuer = cmp.Or(issuer, c)
	der := Must(x509.CreateCertificate(rand.Reader, c, issuer, public, a.key))(a.t)
	return Must(x509.ParseCertificate(der))(a.t)
}

// PEM returns the certificate of the authority.
func (a *Authority) PEM() string { return encode("CERTIFICATE", a.certificate.Raw) }

// Pool returns a pool with the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Client returns a client certificate with a common name, which ends at a time, and its key.
func (a *Authority) Client(name string, ends time.Time) (certificate, key string) {
	a.t.Helper()
	private := newKey(a.t)
	c := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotAfter: ends,
	}, a.certificate, &private.PublicKey)
	der := Must(x509.MarshalPKCS8PrivateKey(private))(a.t)
	return encode("CERTIFICATE", c.Raw), encode("PRIVATE KEY", der)
}

// Server returns the certificate of a server on the loopback.
func (a *Authority) Server() tls.Certificate {
	a.t.Helper()
	private := newKey(a.t)
	c := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, NotAfter: distantFuture,
	}, a.certificate, &private.PublicKey)
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: private, Leaf: c}
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// rsaKey returns the RSA key of the process. Making a key takes longer than a test.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// NewKey returns a signing key for a JWS algorithm as a text, and the key that verifies its signatures: a private key in PEM and its
// public half, or for HS256, HS384 and HS512 a random text and its bytes. All RSA keys of a process are the same.
func NewKey(algorithm string) (private string, public any, err error) {
	var key crypto.Signer
	switch algorithm {
	case "HS256", "HS384", "HS512":
		private = RandomSecret() + RandomSecret() // the host warns of one that is shorter than the longest hash
		return private, []byte(private), nil
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512":
		key, err = rsaKey()
	case "ES256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("there is no key for the algorithm %q", algorithm)
	}
	if err != nil {
		return "", nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return encode("PRIVATE KEY", der), key.Public(), err
}
