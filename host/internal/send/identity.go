package send

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
	"github.com/keywright/keywright/host/internal/run"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/printable"
)

// TLS presents the client certificate of a connector, and trusts its authorities.
type TLS struct {
	Plan   *connect.Plan
	Policy egress.Policy
	// PKCS12 is that of host.Config.
	PKCS12     func(file []byte, passphrase string) (*tls.Certificate, error)
	Identities *Identities
	// Warn logs a warning about a member of the configuration.
	Warn func(ctx context.Context, path, text string)
	// Last is the certificate that a request needed last.
	Last *atomic.Pointer[view.ClientCertificate]

	// lastKey is that of the last identity that was used, unless the templates name something of the user.
	lastKey atomic.Pointer[identityKey]
}

type pemTexts [connect.TLSTexts]string

// identityKey identifies an identity. No two connectors share one.
type identityKey struct {
	owner *TLS
	texts pemTexts
}

// identity has the transport with one certificate of a connector, and with its authorities.
type identity struct {
	owner       *TLS
	certificate *view.ClientCertificate
	transport   *http.Transport
	client      *http.Client
	warned      atomic.Bool
}

// Identities keeps the transports of a host's connectors with TLS of their own.
type Identities = lru.Cache[identityKey, *identity]

// NewIdentities returns an empty Identities, for 100 of them.
func NewIdentities() *Identities {
	all, _ := lru.NewWithEvict(100, func(_ identityKey, id *identity) { id.transport.CloseIdleConnections() }) // the only error is for sizes below one
	return all
}

func (t *TLS) render(ctx context.Context, in *hostfn.Inputs) (texts pemTexts, failure *hostfn.Failure) {
	values := hostfn.New(ctx, t.Plan.Plan, in, hostfn.Inline).Values()
	for i, text := range t.Plan.TLS.Templates {
		if text == nil {
			continue
		}
		parts, err := text.Render(values)
		if err != nil {
			return pemTexts{}, &hostfn.Failure{Stage: hostfn.StageTemplate, Err: hostfn.FieldErrorf(connect.TLSPaths[i], "%w", err)}
		}
		texts[i] = template.Join(parts)
	}
	return texts, nil
}

// parse parses the texts. The errors are of StageConfig.
func (t *TLS) parse(texts pemTexts) (id egress.Identity, certificate *view.ClientCertificate, failure *hostfn.Failure) {
	var err error
	path := "tls.certificate"
	switch templates := &t.Plan.TLS.Templates; {
	case templates[connect.Certificate] != nil:
		id.Certificate, err = parsePair(texts[connect.Certificate], texts[connect.Key])
	case templates[connect.PKCS12] != nil:
		path = "tls.pkcs12"
		id.Certificate, err = t.parsePKCS12(texts)
	}
	if id.Certificate != nil {
		leaf := id.Certificate.Leaf
		certificate = &view.ClientCertificate{Subject: printable.Text(leaf.Subject.String(), 1024), NotAfter: leaf.NotAfter, Path: path}
	}
	if err == nil && t.Plan.TLS.Templates[connect.CA] != nil {
		var authorities []*x509.Certificate
		if authorities, err = signing.Certificates(texts[connect.CA]); err != nil {
			err = hostfn.FieldErrorf("tls.ca", "%w", err)
		}
		id.Roots = x509.NewCertPool()
		for _, authority := range authorities {
			id.Roots.AddCert(authority)
		}
	}
	if err != nil {
		return egress.Identity{}, nil, &hostfn.Failure{Stage: hostfn.StageConfig, Err: err}
	}
	return id, certificate, nil
}

// identity returns the identity for the inputs of a call. It returns a failure if the certificate has ended, because the
// server would refuse it with an alert that TLS 1.3 often loses.
func (t *TLS) identity(ctx context.Context, in *hostfn.Inputs) (*identity, *hostfn.Failure) {
	texts, failure := t.render(ctx, in)
	if failure != nil {
		return nil, failure
	}
	key := identityKey{t, texts}
	id, ok := t.Identities.Get(key)
	if !ok {
		if id, failure = t.newIdentity(texts); failure != nil {
			return nil, failure
		}
		if current, there, _ := t.Identities.PeekOrAdd(key, id); there {
			id = current
		}
	}
	if id.certificate != nil {
		t.Last.Store(id.certificate) // also one that has ended, so that operators see the reason of the failures
	}
	now := t.Plan.Clock()
	if err := id.certificate.Ended(now); err != nil {
		return nil, &hostfn.Failure{Stage: hostfn.StageConfig, Err: err}
	}
	t.replace(key)
	if id.certificate != nil && id.certificate.EndsSoon(now) && id.warned.CompareAndSwap(false, true) {
		t.Warn(ctx, id.certificate.Path, "the client certificate ends at "+id.certificate.NotAfter.UTC().Format(time.RFC3339)+": renew it")
	}
	return id, nil
}

func (t *TLS) newIdentity(texts pemTexts) (*identity, *hostfn.Failure) {
	parsed, certificate, failure := t.parse(texts)
	if failure != nil {
		return nil, failure
	}
	transport, err := t.Policy.TransportAs(parsed)
	if err != nil {
		return nil, &hostfn.Failure{Stage: hostfn.StageConfig, Err: err}
	}
	return &identity{owner: t, certificate: certificate, transport: transport, client: egress.TokenClient(transport)}, nil
}

// replace drops the identity that the connector used before, if its secrets have changed since. If the templates name
// something of the user, several identities are in use at once, and only the limit drops them.
func (t *TLS) replace(key identityKey) {
	last := t.lastKey.Load()
	if t.Plan.Personal() || last != nil && *last == key {
		return
	}
	if last = t.lastKey.Swap(&key); last != nil && *last != key {
		t.Identities.Remove(*last)
	}
}

// Client returns the client for token endpoints with the identity for the inputs of a call. It implements hostfn.Plan.ClientOf.
func (t *TLS) Client(ctx context.Context, in *hostfn.Inputs) (*http.Client, *hostfn.Failure) {
	id, failure := t.identity(ctx, in)
	if failure != nil {
		return nil, failure
	}
	return id.client, nil
}

// Read returns the certificate for the inputs of a call, without a transport.
func (t *TLS) Read(ctx context.Context, in *hostfn.Inputs) (*view.ClientCertificate, *hostfn.Failure) {
	texts, failure := t.render(ctx, in)
	if failure != nil {
		return nil, failure
	}
	_, certificate, failure := t.parse(texts)
	return certificate, failure
}

// Texts returns the texts of the certificate, its key and the authorities for the inputs of a call.
func (t *TLS) Texts(ctx context.Context, in *hostfn.Inputs) ([]string, *hostfn.Failure) {
	texts, failure := t.render(ctx, in)
	return texts[:], failure
}

type identityInContext struct{}

// identified returns a request with the connector's identity in its context, if its API is to see one. call is the one that
// authenticated the request. So the token and the connection are of the same certificate.
func (t *Transport) identified(r *http.Request, out *run.Outcome) (*http.Request, error) {
	if t.TLS == nil || !t.TLS.Plan.TLS.API {
		return r, nil
	}
	own := out.Parts()[slices.Index(t.Runners, t.Runner)]
	id, failure := t.TLS.identity(r.Context(), own.Call.Inputs())
	if failure != nil {
		return nil, t.Fail(failure.Stage, failure.Err)
	}
	return r.WithContext(context.WithValue(r.Context(), identityInContext{}, id)), nil
}

// identityBase sends requests with the identity in their contexts.
type identityBase struct{ *Transport }

func (b identityBase) RoundTrip(r *http.Request) (*http.Response, error) {
	id, ok := r.Context().Value(identityInContext{}).(*identity)
	if !ok || id.owner != b.TLS {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, b.Fail(hostfn.StageOrigin, errors.New("the request has not been authenticated by this connector, whose tls is for its own requests"))
	}
	response, err := id.transport.RoundTrip(r)
	return response, egress.Failure(err)
}

// Base returns the transport that presents the identity of authenticated requests, or API if there is none to present.
func (t *Transport) Base() http.RoundTripper {
	if t.TLS != nil && t.TLS.Plan.TLS.API {
		return identityBase{t}
	}
	return t.API
}

// parsePKCS12 parses a certificate and its key. The error has nothing of either.
func (t *TLS) parsePKCS12(texts pemTexts) (*tls.Certificate, error) {
	file, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(texts[connect.PKCS12]), ""))
	if err != nil || len(file) > maxPKCS12 {
		return nil, hostfn.FieldErrorf("tls.pkcs12", "is no Base64 of a file of up to %d KiB: write it with base64 -w0", maxPKCS12>>10)
	}
	both, err := t.PKCS12(file, texts[connect.Passphrase])
	if err != nil {
		return nil, hostfn.FieldErrorf("tls.pkcs12", "%w", err)
	}
	if both == nil || both.Leaf == nil {
		return nil, hostfn.FieldErrorf("tls.pkcs12", "Config.PKCS12 returned no certificate with its Leaf")
	}
	return both, nil
}

const maxPKCS12 = 64 << 10 // bytes of a file of TLS.PKCS12

// parsePair parses certificates, of which the first is the client's own, and its key. The error has nothing of either.
func parsePair(certificates, text string) (*tls.Certificate, error) {
	chain, err := signing.Certificates(certificates)
	if err != nil {
		return nil, hostfn.FieldErrorf("tls.certificate", "%w", err)
	}
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
