// Package egress decides which addresses the host may dial, and makes the HTTP transports that hold to it.
//
// Connectors are written by people who may not reach into the operator's network. A token URL or base URL of theirs
// can name an inside address, or a host name that resolves to one, differently each time it is asked for. So the
// check is made on the very address that the kernel is about to connect to, after name resolution.
package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Limits of the transports.
const (
	maxResponseHeaderBytes = 1 << 20
	maxIdleConns           = 1024
	maxIdleConnsPerHost    = 64 // the standard library's 2 makes a busy connector connect anew for most requests
	idleConnTimeout        = 90 * time.Second
	expectContinueTimeout  = time.Second
	http2PingAfter         = 30 * time.Second // without a frame: finds a connection that died silently
	http2PingTimeout       = 15 * time.Second
)

// DefaultTimeout is how long a connection and a TLS handshake may each take when Policy does not say.
const DefaultTimeout = 10 * time.Second

// Policy says where connections may go, and how. The zero Policy allows public addresses, with the system's roots,
// without a proxy.
type Policy struct {
	// AllowPrivate lets connections go to loopback, private and carrier NAT addresses. Link-local and cloud metadata
	// addresses stay refused.
	AllowPrivate bool

	// Allow has further addresses that may be dialled, whatever their kind.
	Allow []netip.Prefix

	// Proxy is the proxy for all connections: http, https, socks5 or socks5h. Nil is none; the environment's
	// proxies are never used. The proxy's own address is not checked, since the operator chose it. It is the proxy
	// that looks host names up, so it has to keep them out of the operator's network; what can be refused here are
	// addresses and names of this machine written in the URL.
	Proxy *url.URL

	// TLS has roots and client certificates. It is cloned. A MinVersion below TLS 1.2 is raised to it;
	// InsecureSkipVerify is refused.
	TLS *tls.Config

	// DialTimeout and HandshakeTimeout limit how a connection comes to be. 0 is DefaultTimeout. The request as a
	// whole is limited by its context alone.
	DialTimeout, HandshakeTimeout time.Duration

	// Resolver looks host names up. Nil is the system's.
	Resolver *net.Resolver
}

// Transport makes a transport that dials only what the policy allows. It speaks HTTP/2 where the server does. An
// error says what is wrong with the policy. What a dial refuses is an *AddressError, to be found with errors.As.
//
// Callers may set DisableCompression before the first use.
func (p Policy) Transport() (*http.Transport, error) {
	config, err := p.tlsConfig()
	if err != nil {
		return nil, err
	}
	proxy, err := p.proxy()
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		Proxy:                  proxy,
		OnProxyConnectResponse: proxyAnswer,
		DialContext:            p.dialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    cmp.Or(p.HandshakeTimeout, DefaultTimeout),
		ForceAttemptHTTP2:      true, // a transport with a dialer of its own would do without
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: http2PingAfter, PingTimeout: http2PingTimeout},
		MaxIdleConns:           maxIdleConns,
		MaxIdleConnsPerHost:    maxIdleConnsPerHost,
		IdleConnTimeout:        idleConnTimeout,
		ExpectContinueTimeout:  expectContinueTimeout,
		MaxResponseHeaderBytes: maxResponseHeaderBytes,
	}, nil
}

// TokenClient makes a client for token endpoints: a Transport that never follows a redirect, because a 307 would post
// the client's secret wherever it points, keeps no cookies, and asks for no compression, so that the size limit on
// answers counts what comes over the wire. The caller sees a redirect as the answer it is.
func (p Policy) TokenClient() (*http.Client, error) {
	transport, err := p.Transport()
	if err != nil {
		return nil, err
	}
	transport.DisableCompression = true
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func (p Policy) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.TLS != nil {
		config = p.TLS.Clone()
		config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	}
	switch {
	case config.InsecureSkipVerify:
		return nil, errors.New("egress: TLS without verification (InsecureSkipVerify) is not possible; add the server's CA to RootCAs")
	case config.MaxVersion != 0 && config.MaxVersion < config.MinVersion:
		return nil, fmt.Errorf("egress: TLS is limited to %s, and it has to be at least %s",
			tls.VersionName(config.MaxVersion), tls.VersionName(config.MinVersion))
	}
	return config, nil
}

// dialContext connects to address, which is a host and a port, and refuses in the moment of connecting.
func (p Policy) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: cmp.Or(p.DialTimeout, DefaultTimeout), Resolver: p.Resolver}
	if p.Proxy == nil {
		dialer.ControlContext = p.control
	} // with a proxy, the one address that the transport dials is the proxy's

	conn, err := dialer.DialContext(ctx, network, address)
	var refused *AddressError
	if errors.As(err, &refused) {
		host, _, splitErr := net.SplitHostPort(address)
		if splitErr != nil {
			host = ""
		}
		return nil, &AddressError{Host: host, Addr: refused.Addr, Kind: refused.Kind}
	}
	return conn, err
}

// control is called with the socket made and the address chosen, before connecting. It is called for each address
// that a host name has.
func (p Policy) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("egress: network %q is not TCP", network)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return &AddressError{Kind: KindInvalid} // an empty host: it would be this machine
	}
	return p.Check(target.Addr())
}

// proxy returns what http.Transport.Proxy is to be.
func (p Policy) proxy() (func(*http.Request) (*url.URL, error), error) {
	if p.Proxy == nil {
		return nil, nil
	}
	switch p.Proxy.Scheme {
	case "http", "https", "socks5", "socks5h":
	default:
		return nil, fmt.Errorf("egress: proxy %s: the scheme has to be http, https, socks5 or socks5h", p.Proxy.Redacted())
	}
	if p.Proxy.Hostname() == "" {
		return nil, fmt.Errorf("egress: proxy %s: there is no host", p.Proxy.Redacted())
	}
	return func(r *http.Request) (*url.URL, error) {
		if err := p.checkHost(r.URL.Hostname()); err != nil {
			return nil, err
		}
		return p.Proxy, nil
	}, nil
}

// ProxyError is the answer of a proxy that does not connect.
type ProxyError struct{ Status int }

func (e *ProxyError) Error() string { return fmt.Sprintf("the proxy answered %d", e.Status) }

// proxyAnswer makes an error of a refusal that says no more than its status: its text is the proxy's.
func proxyAnswer(_ context.Context, _ *url.URL, _ *http.Request, response *http.Response) error {
	if response.StatusCode != http.StatusOK {
		return &ProxyError{response.StatusCode}
	}
	return nil
}

// checkHost refuses what can be told from the host's text. It is for requests through a proxy: elsewhere the address
// that is dialled is checked. A host that is not ASCII is looked at as net/http writes it: full-width digits become
// digits.
func (p Policy) checkHost(host string) error {
	written, err := host, error(nil)
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
		written, err = idna.Lookup.ToASCII(host)
	}
	if err != nil {
		return &AddressError{Host: host, Kind: KindInvalid}
	}
	if addr, err := netip.ParseAddr(written); err == nil {
		if kind := p.refuses(addr); kind != "" {
			return &AddressError{Host: host, Addr: addr, Kind: kind}
		}
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(written, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case last == "" || last[0] >= '0' && last[0] <= '9' || strings.Contains(name, ":"):
		// 127.1, 2130706433 and 0x7f.0.0.1 are addresses to many resolvers, and no top-level domain begins with a digit.
		return &AddressError{Host: host, Kind: KindInvalid}
	case last == "localhost" && !p.AllowPrivate:
		return &AddressError{Host: host, Kind: KindLoopback}
	}
	return nil
}
