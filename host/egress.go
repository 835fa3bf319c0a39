package host

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/internal/urlcheck"
)

// Egress limits where the host may connect to. The zero value allows https to public addresses.
type Egress struct {
	// AllowHTTP allows origins and token URLs of plain http, for development.
	AllowHTTP bool
	// PlainHTTP lists the hosts, such as keycloak or 127.0.0.1:8080, whose origins and token URLs may be of plain http. Without a port,
	// a host is meant with any. Their addresses have to be allowed all the same.
	PlainHTTP []string
	// AllowPrivate allows loopback, private and carrier NAT addresses. Link-local and cloud metadata addresses stay
	// refused.
	AllowPrivate bool
	// Allow lists further addresses that the host may dial, of any kind. A cloud metadata address is allowed only by a prefix that is
	// this address alone.
	Allow []netip.Prefix
	// Proxy is the proxy of all connections: http, https, socks5 or socks5h. Nil means none; the proxies of the
	// environment are ignored. The proxy resolves host names, so it must itself refuse those of internal addresses.
	Proxy *url.URL
	// TLS has the root and client certificates. TLS 1.2 is the lowest version, and certificates are always verified:
	// InsecureSkipVerify is refused.
	TLS *tls.Config
}

// Transport returns a transport that connects only to the allowed addresses, for requests that no connector sends. It
// checks each address after name resolution, just before it connects, so no host name and no redirect can lead to an
// internal address. It neither asks for compression nor decompresses. It does not enforce AllowsHTTP; callers check
// URLs. It returns an error if e is invalid.
func (e Egress) Transport() (*http.Transport, error) {
	transport, err := e.policy().Transport()
	if err != nil {
		return nil, err
	}
	// Otherwise net/http adds Accept-Encoding to the request.
	transport.DisableCompression = true
	return transport, nil
}

// AllowsHTTP reports whether a URL may be of plain http.
func (e Egress) AllowsHTTP(u *url.URL) bool {
	return e.AllowHTTP || slices.ContainsFunc(e.PlainHTTP, func(host string) bool { return urlcheck.Names(host, u) })
}

func (e Egress) policy() egress.Policy {
	return egress.Policy{AllowPrivate: e.AllowPrivate, Allow: e.Allow, Proxy: e.Proxy, TLS: e.TLS}
}

// dialer has the transports of one Egress.
type dialer struct {
	egress Egress
	// api is for requests to APIs.
	api http.RoundTripper
	// tokens is for exchanges with token endpoints.
	tokens *http.Client
}

// newDialer returns the dialer of an Egress. If base is not nil, it takes the place of both transports.
func newDialer(e Egress, base http.RoundTripper) (*dialer, error) {
	d := &dialer{egress: e, api: base}
	for _, host := range e.PlainHTTP {
		if _, err := urlcheck.ParseHost(host); err != nil {
			return nil, fmt.Errorf("an item of PlainHTTP %w", err)
		}
	}
	if base == nil {
		transport, err := e.Transport()
		if err != nil {
			return nil, err
		}
		d.api = transport
	}
	var err error
	if d.tokens, err = e.policy().TokenClient(); err != nil {
		return nil, err
	}
	if base != nil {
		d.tokens.Transport = base
	}
	return d, nil
}

// closeIdle closes the connections that no request uses.
func (d *dialer) closeIdle() {
	for _, transport := range []http.RoundTripper{d.api, d.tokens.Transport} {
		if t, ok := transport.(*http.Transport); ok {
			t.CloseIdleConnections()
		}
	}
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
	allowHTTP, allowPrivate bool
	plain, allow, proxy     string
	tls                     *tls.Config
}

// String returns a text that is the same for all hosts with the same Egress but for its TLS.
func (k dialerKey) String() string {
	return fmt.Sprintf("%t %q %t %s %s %t", k.allowHTTP, k.plain, k.allowPrivate, k.allow, k.proxy, k.tls != nil)
}

func keyOfEgress(e Egress) dialerKey {
	key := dialerKey{allowHTTP: e.AllowHTTP, plain: strings.Join(e.PlainHTTP, " "), allowPrivate: e.AllowPrivate, tls: e.TLS}
	for _, prefix := range e.Allow {
		key.allow += prefix.String() + " "
	}
	if e.Proxy != nil {
		key.proxy = e.Proxy.String()
	}
	return key
}
