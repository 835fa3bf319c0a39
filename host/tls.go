package host

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/template"
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
	For []string
}

// The values of [TLS].For.
const (
	// TLSForAPI is for the requests of a Transport. Its base must then be nil, or send through [Connector.Base].
	TLSForAPI = connect.ForAPI
	// TLSForToken is for exchanges with token endpoints.
	TLSForToken = connect.ForToken
)

// Covers reports whether t is for a purpose: [TLSForAPI] or [TLSForToken]. It returns false if t is nil.
func (t *TLS) Covers(purpose string) bool {
	return t != nil && (len(t.For) == 0 || slices.Contains(t.For, purpose))
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

// connectorTLS is the compiled TLS of a connector.
type connectorTLS struct {
	*connect.TLS
	// read is Config.PKCS12.
	read func(file []byte, passphrase string) (*tls.Certificate, error)
}

// pemTexts are the rendered texts of a TLS.
type pemTexts struct{ certificate, key, pkcs12, passphrase, ca string }

// identityKey identifies an identity. No two connectors share one.
type identityKey struct {
	connector *Connector
	texts     pemTexts
}

// identity has the transport with one certificate of a connector, and with its authorities.
type identity struct {
	connector   *Connector
	certificate *ClientCertificate
	transport   *http.Transport
	client      *http.Client
	warned      atomic.Bool
}

// maxIdentities is the number of identities that a host keeps.
const maxIdentities = 100

// newIdentities returns the LRU of a host's identities.
func newIdentities() (*lru.Cache[identityKey, *identity], error) {
	return lru.NewWithEvict(maxIdentities, func(_ identityKey, id *identity) { id.transport.CloseIdleConnections() })
}

// render renders the texts for the inputs of a call.
func (t *connectorTLS) render(ctx context.Context, c *Connector, in *hostfn.Inputs) (texts pemTexts, failure *hostfn.Failure) {
	values := hostfn.New(ctx, c.plan.Plan, in, hostfn.Inline).Values()
	for _, one := range []struct {
		name     string
		template *template.Template
		to       *string
	}{
		{"certificate", t.Certificate, &texts.certificate},
		{"key", t.Key, &texts.key},
		{"ca", t.CA, &texts.ca},
		{"pkcs12", t.PKCS12, &texts.pkcs12},
		{"passphrase", t.Passphrase, &texts.passphrase},
	} {
		if one.template == nil {
			continue
		}
		parts, err := one.template.Render(values)
		if err != nil {
			return pemTexts{}, &hostfn.Failure{Stage: hostfn.StageTemplate, Err: hostfn.FieldErrorf("tls."+one.name, "%w", err)}
		}
		*one.to = template.Join(parts)
	}
	return texts, nil
}

// parse parses the texts. The errors are of StageConfig.
func (t *connectorTLS) parse(texts pemTexts) (id egress.Identity, certificate *ClientCertificate, failure *hostfn.Failure) {
	var err error
	path := "tls.certificate"
	switch {
	case t.Certificate != nil:
		id.Certificate, err = parsePair(texts.certificate, texts.key)
	case t.PKCS12 != nil:
		path = "tls.pkcs12"
		id.Certificate, err = t.parsePKCS12(texts)
	}
	if id.Certificate != nil {
		leaf := id.Certificate.Leaf
		certificate = &ClientCertificate{Subject: Printable(leaf.Subject.String()), NotAfter: leaf.NotAfter, Path: path}
	}
	if err == nil && t.CA != nil {
		id.Roots, err = parseRoots(texts.ca)
	}
	if err != nil {
		return egress.Identity{}, nil, &hostfn.Failure{Stage: hostfn.StageConfig, Err: err}
	}
	return id, certificate, nil
}

// identity returns the identity for the inputs of a call. It returns a failure if the certificate has ended, because the
// server would refuse it with an alert that TLS 1.3 often loses.
func (c *Connector) identity(ctx context.Context, in *hostfn.Inputs) (*identity, *hostfn.Failure) {
	texts, failure := c.tls.render(ctx, c, in)
	if failure != nil {
		return nil, failure
	}
	key := identityKey{c, texts}
	id, ok := c.host.identities.Get(key)
	if !ok {
		if id, failure = c.newIdentity(texts); failure != nil {
			return nil, failure
		}
		if current, there, _ := c.host.identities.PeekOrAdd(key, id); there {
			id = current
		}
	}
	if id.certificate != nil {
		c.lastCertificate.Store(id.certificate) // also one that has ended, so that operators see the reason of the failures
	}
	now := c.host.config.Clock()
	if err := id.certificate.Ended(now); err != nil {
		return nil, &hostfn.Failure{Stage: hostfn.StageConfig, Err: err}
	}
	c.replace(key)
	if id.certificate != nil && id.certificate.EndsSoon(now) && id.warned.CompareAndSwap(false, true) {
		c.log.warn(ctx, id.certificate.Path, "the client certificate ends at "+id.certificate.NotAfter.UTC().Format(time.RFC3339)+": renew it")
	}
	return id, nil
}

// newIdentity makes an identity.
func (c *Connector) newIdentity(texts pemTexts) (*identity, *hostfn.Failure) {
	parsed, certificate, failure := c.tls.parse(texts)
	if failure != nil {
		return nil, failure
	}
	transport, err := c.dialer.egress.policy().TransportAs(parsed)
	if err != nil {
		return nil, &hostfn.Failure{Stage: hostfn.StageConfig, Err: err}
	}
	transport.DisableCompression = true
	return &identity{connector: c, certificate: certificate, transport: transport, client: egress.TokenClient(transport)}, nil
}

// replace drops the identity that the connector used before, if its secrets have changed since. If the templates name
// something of the user, several identities are in use at once, and only the limit drops them.
func (c *Connector) replace(key identityKey) {
	last := c.lastIdentity.Load()
	if c.plan.Personal() || last != nil && *last == key {
		return
	}
	if last = c.lastIdentity.Swap(&key); last != nil && *last != key {
		c.host.identities.Remove(*last)
	}
}

// tokenClient implements hostfn.Plan.ClientOf.
func (c *Connector) tokenClient(ctx context.Context, in *hostfn.Inputs) (*http.Client, *hostfn.Failure) {
	id, failure := c.identity(ctx, in)
	if failure != nil {
		return nil, failure
	}
	return id.client, nil
}

// identityInContext is the key of the identity in the context of an authenticated request.
type identityInContext struct{}

// identified returns a request with the connector's identity in its context, if its API is to see one. out is the outcome
// that authenticated the request. So the token and the connection are of the same certificate.
func (c *Connector) identified(r *http.Request, out *outcome) (*http.Request, error) {
	if c.tls == nil || !c.tls.API {
		return r, nil
	}
	id, failure := c.identity(r.Context(), out.call.Inputs())
	if failure != nil {
		return nil, c.failure(failure)
	}
	return r.WithContext(context.WithValue(r.Context(), identityInContext{}, id)), nil
}

// identityBase sends requests with the identity in their contexts.
type identityBase struct{ connector *Connector }

// RoundTrip implements [http.RoundTripper].
func (b identityBase) RoundTrip(r *http.Request) (*http.Response, error) {
	id, ok := r.Context().Value(identityInContext{}).(*identity)
	if !ok || id.connector != b.connector {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, b.connector.fail(StageOrigin, errors.New("the request has not been authenticated by this connector, whose tls is for its own requests"))
	}
	response, err := id.transport.RoundTrip(r)
	return response, egress.Failure(err)
}

// Base returns the transport that [Connector.Transport] uses if its base is nil. It adds no credential, but if the TLS of the
// connector is for the API, it presents the client certificate. Then it sends only requests that this connector has
// authenticated: those that a base receives, and those of [Connector.Authenticate].
func (c *Connector) Base() http.RoundTripper {
	if c.host == nil || c.tls != nil && c.tls.API {
		return identityBase{c}
	}
	return c.dialer.api
}

// ClientCertificate reads the secrets and returns the client certificate that a request with the user of the context uses, or
// nil for a connector without one. The error is the one that requests get, but a certificate that has ended is no error: see
// [ClientCertificate.Ended].
func (c *Connector) ClientCertificate(ctx context.Context) (*ClientCertificate, error) {
	if c.tls == nil {
		return nil, nil
	}
	secrets, failure := c.reader.ReadSecrets(ctx, nil)
	if failure != nil {
		return nil, c.failure(failure)
	}
	certificate, failure := c.readCertificate(ctx, c.reader.Inputs(secrets, c.reader.Subject(ctx), nil))
	if failure != nil {
		return nil, c.failure(failure)
	}
	return certificate, nil
}

// readCertificate returns the certificate for the inputs of a call, without a transport.
func (c *Connector) readCertificate(ctx context.Context, in *hostfn.Inputs) (*ClientCertificate, *hostfn.Failure) {
	texts, failure := c.tls.render(ctx, c, in)
	if failure != nil {
		return nil, failure
	}
	_, certificate, failure := c.tls.parse(texts)
	return certificate, failure
}

// LastClientCertificate returns the client certificate that a request needed last, or nil if none has needed one. The
// certificate may have ended, and then it was not used. LastClientCertificate reads no secret.
func (c *Connector) LastClientCertificate() *ClientCertificate { return c.lastCertificate.Load() }

// parsePair parses a certificate and its key. The error has nothing of either.
func parsePair(certificate, key string) (*tls.Certificate, error) {
	chain, err := connect.ParseCertificates("tls.certificate", certificate)
	if err != nil {
		return nil, err
	}
	return pair(chain, key)
}

// parsePKCS12 parses a file of a certificate and its key. The error has nothing of either.
func (t *connectorTLS) parsePKCS12(texts pemTexts) (*tls.Certificate, error) {
	file, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(texts.pkcs12), ""))
	if err != nil || len(file) > maxPKCS12 {
		return nil, hostfn.FieldErrorf("tls.pkcs12", "is no Base64 of a file of up to %d KiB: write it with base64 -w0", maxPKCS12>>10)
	}
	both, err := t.read(file, texts.passphrase)
	if err != nil {
		return nil, hostfn.FieldErrorf("tls.pkcs12", "%w", err)
	}
	if both == nil || both.Leaf == nil {
		return nil, hostfn.FieldErrorf("tls.pkcs12", "Config.PKCS12 returned no certificate with its Leaf")
	}
	return both, nil
}

// maxPKCS12 is the maximum size of a file of TLS.PKCS12, in bytes.
const maxPKCS12 = 64 << 10

// parseRoots parses the certificates of authorities.
func parseRoots(text string) (*x509.CertPool, error) {
	all, err := connect.ParseCertificates("tls.ca", text)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	for _, one := range all {
		roots.AddCert(one)
	}
	return roots, nil
}

// pair returns a chain with its key. The chain begins with the client's own certificate.
func pair(chain []*x509.Certificate, text string) (*tls.Certificate, error) {
	key, _, wrong := signing.ParsePrivate(text, "")
	if wrong != "" {
		return nil, hostfn.FieldErrorf("tls.key", "the key %s", wrong)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, hostfn.FieldErrorf("tls.key", "the key cannot sign: a client certificate needs an RSA, EC or Ed25519 key")
	}
	fits := func(one *x509.Certificate) bool {
		public, ok := one.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
		return ok && public.Equal(signer.Public())
	}
	switch i := slices.IndexFunc(chain, fits); {
	case i < 0:
		return nil, hostfn.FieldErrorf("tls.key", "the key is not that of tls.certificate: both must be renewed together")
	case i > 0:
		return nil, hostfn.FieldErrorf("tls.certificate", "certificate %d in it is the key's own: put it first, and its issuers behind it", i+1)
	}
	certificate := &tls.Certificate{PrivateKey: signer, Leaf: chain[0]}
	for _, one := range chain {
		certificate.Certificate = append(certificate.Certificate, one.Raw)
	}
	return certificate, nil
}
