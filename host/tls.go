package host

import (
	"time"

	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/hostfn"
)

// TLS configures what a connector presents and trusts in its TLS connections, such as the client certificate of RFC 8705.
// Its texts are templates. The host renders them outside of any plugin, for each request, so a secret that is replaced
// counts at once. Connections with the certificate before it are closed when they are idle, within 90 seconds.
//
// No other connector uses these connections. The host keeps the transports of 100 certificates. If more are in use, it closes
// the idle connections of the one that was used least recently.
type TLS struct {
	// Certificate is the client certificate in PEM, and behind it the certificates of its issuers.
	//
	// If it is empty, the client certificates of [Egress].TLS are used.
	Certificate string
	// Key is its private key in PEM, without a passphrase: RSA, EC or Ed25519, in PKCS #8, PKCS #1 or SEC 1. It names a
	// secret.
	Key string `file:",secret"`
	// PKCS12 is a file of PKCS #12 (.p12, .pfx) with one key, in Base64 (base64 -w0 FILE), in place of Certificate and Key: up
	// to 64 KiB and 100,000 iterations. It names a secret.
	//
	// The host reads it with [Config].PKCS12.
	PKCS12 string `file:",secret"`
	// Passphrase is the passphrase of PKCS12.
	Passphrase string
	// CA has certificates of authorities in PEM, in place of the system's and those of egress, for this connector only.
	CA string
	// For says what all of this is for: api, token, or a list of both. Without it, both.
	//
	// The values are [TLSForAPI] and [TLSForToken].
	For []TLSPurpose
}

// TLSPurpose is a kind of connection that a [TLS] is for.
type TLSPurpose string

// The purposes.
const (
	// TLSForAPI is for the requests of a Transport. Its base must then be nil, or send through [Connector.Base].
	TLSForAPI TLSPurpose = connect.ForAPI
	// TLSForToken is for exchanges with token endpoints.
	TLSForToken TLSPurpose = connect.ForToken
)

// plan returns the TLS for package connect.
func (t *TLS) plan() *connect.TLSConfig {
	if t == nil {
		return nil
	}
	return &connect.TLSConfig{
		Certificate: t.Certificate, Key: t.Key, PKCS12: t.PKCS12, Passphrase: t.Passphrase, CA: t.CA, For: plainTexts(t.For),
	}
}

// plainTexts returns named texts as plain ones.
func plainTexts[T ~string](list []T) (all []string) {
	for _, text := range list {
		all = append(all, string(text))
	}
	return all
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

// certificateWarning is the time before the end of a certificate from which there are warnings.
const certificateWarning = 30 * 24 * time.Hour

// EndsSoon reports whether the certificate has ended, or ends within 30 days.
func (c *ClientCertificate) EndsSoon(now time.Time) bool {
	return now.Add(certificateWarning).After(c.NotAfter)
}

// Ended returns the error that requests get if the certificate has ended, and otherwise nil. A certificate that is not valid yet
// is no error: the clocks of issuer and host may differ by some seconds, and the server decides.
func (c *ClientCertificate) Ended(now time.Time) error {
	if c == nil || !now.After(c.NotAfter) {
		return nil
	}
	return hostfn.FieldErrorf(c.Path, "%w", &CertificateError{c.NotAfter})
}

// CertificateError is the error for a client certificate that has ended. An [Error] of [StageConfig] wraps it; find it with
// [errors.As].
type CertificateError struct{ NotAfter time.Time }

func (e *CertificateError) Error() string {
	return "the certificate ended at " + e.NotAfter.UTC().Format(time.RFC3339) + ": replace the secret by a renewed one"
}
