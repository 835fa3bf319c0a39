package view

import (
	"crypto"
	"time"
)

// Key names a key of a host.Keys.
type Key struct {
	Name string
	// Version is the version of the key. 0 is the newest one.
	Version int
}

// KeyInfo describes a key of a host.Keys.
type KeyInfo struct {
	// Type is the store's name for the kind of key, such as ecdsa-p256, for errors.
	Type string
	// Version is the version that is described, from 1. It is 0 if the store has no versions.
	Version int
	// Public is the public half: an *rsa.PublicKey, an *ecdsa.PublicKey or an ed25519.PublicKey. It is nil for a key
	// without a public half, which can only make HMACs.
	Public crypto.PublicKey
}

// ClientCertificate describes the client certificate of a connector.
type ClientCertificate struct {
	// Subject is the distinguished name of the subject, RFC 4514.
	Subject string `json:"subject,omitempty"`
	// NotAfter is the time at which the certificate ends. From then on, all requests that need it fail.
	NotAfter time.Time `json:"not_after"`
	// Path is the path of the member that has the certificate: tls.certificate or tls.pkcs12.
	Path string `json:"-"`
}

// EndsSoon reports whether the certificate has ended, or ends within 30 days.
func (c *ClientCertificate) EndsSoon(now time.Time) bool {
	return now.Add(30 * 24 * time.Hour).After(c.NotAfter)
}

// Ended returns the error that requests get if the certificate has ended, and otherwise nil. A certificate that is not valid yet
// is no error: the clocks of issuer and host may differ by some seconds, and the server decides.
func (c *ClientCertificate) Ended(now time.Time) error {
	if c == nil || !now.After(c.NotAfter) {
		return nil
	}
	return &FieldError{c.Path, &CertificateError{c.NotAfter}}
}
