package host

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/urlcheck"
)

// Egress limits where the host may connect to. The zero value allows https to public addresses.
type Egress struct {
	// AllowHTTP allows origins and token URLs of plain http, for development.
	AllowHTTP bool
	// PlainHTTP lists the hosts, such as keycloak or 127.0.0.1:8080, whose origins and token URLs may be of plain http. Without a port,
	// a host is meant with any. Their addresses have to be allowed all the same.
	PlainHTTP []string
	// AllowPrivate allows loopback, private and carrier NAT addresses. Link-local and cloud metadata addresses stay refused.
	AllowPrivate bool
	// Allow lists further addresses that the host may dial, of any kind. A cloud metadata address is allowed only by a prefix that is
	// this address alone.
	Allow []netip.Prefix
	// Proxy is the proxy of all connections: http, https, socks5 or socks5h. Nil means none; the proxies of the environment are ignored.
	// The address of the proxy itself is not checked. The proxy resolves the names of all others, so it must refuse those of internal
	// addresses: the host refuses only addresses in a URL and names of this machine.
	Proxy *url.URL
	// TLS has the root and client certificates. TLS 1.2 is the lowest version, and certificates are always verified:
	// InsecureSkipVerify is refused.
	TLS *tls.Config
}

// Transport returns a transport that connects only to the allowed addresses, for requests that no connector sends. It checks each address
// after name resolution, just before it connects, so no host name and no redirect can lead to an internal address. It neither asks for
// compression nor decompresses. It does not enforce AllowsHTTP; callers check URLs. It returns an error if e is invalid.
func (e Egress) Transport() (*http.Transport, error) { return e.policy().Transport() }

// AllowsHTTP reports whether a URL may be of plain http.
func (e Egress) AllowsHTTP(u *url.URL) bool {
	return e.AllowHTTP || slices.ContainsFunc(e.PlainHTTP, func(host string) bool { return urlcheck.Names(host, u) })
}

func (e Egress) policy() egress.Policy {
	return egress.Policy{AllowPrivate: e.AllowPrivate, Allow: e.Allow, Proxy: e.Proxy, TLS: e.TLS}
}

type dialer struct {
	egress Egress
	api    http.RoundTripper
	tokens *http.Client
}

// newDialer returns the dialer of an Egress. If base is not nil, it takes the place of both transports.
func newDialer(e Egress, base http.RoundTripper) (*dialer, error) {
	for _, host := range e.PlainHTTP {
		if _, err := urlcheck.ParseHost(host); err != nil {
			return nil, fmt.Errorf("an item of PlainHTTP %w", err)
		}
	}
	own, err := e.Transport()
	switch {
	case err != nil:
		return nil, err
	case base != nil:
		return &dialer{e, base, egress.TokenClient(base)}, nil
	}
	return &dialer{e, own, egress.TokenClient(own.Clone())}, nil // each with connections of its own
}

func (d *dialer) closeIdle() {
	d.tokens.CloseIdleConnections()
	(&http.Client{Transport: d.api}).CloseIdleConnections()
}

// checkTokenURL returns an error if text is not a valid value for a field of kind url.
func (d *dialer) checkTokenURL(text string) error {
	_, err := urlcheck.Rule{
		HTTP: d.egress.AllowsHTTP, PlainHTTP: "which would send the credential in the open: use https", Credentials: "use the fields for credentials",
	}.Parse(text)
	return err
}

// dialerKey identifies an Egress within a host.
type dialerKey struct {
	// text is the same for all hosts with the same Egress but for its TLS.
	text string
	tls  *tls.Config
}

func keyOfEgress(e Egress) dialerKey {
	return dialerKey{fmt.Sprintf("%t %q %t %s %v %t", e.AllowHTTP, e.PlainHTTP, e.AllowPrivate, e.Allow, e.Proxy, e.TLS != nil), e.TLS}
}

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
	// Key is its private key in PEM, without a passphrase: RSA, EC or Ed25519, in PKCS #8, PKCS #1 or SEC 1. It names a secret.
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

// Values of [TLS].For.
const (
	// TLSForAPI identifies the requests of a Transport. Its base must then be nil, or send through [Connector.Base].
	TLSForAPI = "api"
	// TLSForToken identifies exchanges with token endpoints.
	TLSForToken = "token"
)

// ClientCertificate describes the client certificate of a connector, by its subject and its end: go doc
// github.com/keywright/keywright/host/view.ClientCertificate shows its fields.
type ClientCertificate = view.ClientCertificate

// CertificateError is the error for a client certificate that has ended. An [Error] of [StageConfig] wraps it; find it with [errors.As]. It
// has that time: go doc github.com/keywright/keywright/host/view.CertificateError shows its field.
type CertificateError = view.CertificateError
