// Package egress decides which addresses the host may dial, and makes HTTP transports that dial only these.
//
// Authors of connectors must not reach the operator's internal network. But the token URL or base URL of a connector can
// have an internal address, or a host name that resolves to one, and possibly to another one with each lookup. So the
// policy checks the very address that the kernel is about to connect to, after name resolution.
package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// maxIdleConnsPerHost is more than the 2 of the standard library, with which a busy connector would dial for most requests.
const maxIdleConnsPerHost = 64

// DefaultTimeout is the default of Policy.DialTimeout and Policy.HandshakeTimeout.
const DefaultTimeout = 10 * time.Second

// Policy configures which addresses may be dialled, and how: if zero, public ones, with the system's roots, and no proxy. The first
// fields mean what those of host.Egress mean. The operator chose the proxy, so its own address is not checked. TLS is cloned.
type Policy struct {
	AllowPrivate bool
	Allow        []netip.Prefix
	Proxy        *url.URL
	TLS          *tls.Config

	// DialTimeout and HandshakeTimeout limit the time to connect and the time of the TLS handshake. 0 means
	// DefaultTimeout. Only its context limits the time of a request as a whole.
	DialTimeout, HandshakeTimeout time.Duration

	// Resolver looks host names up. If it is nil, the system's resolver is used.
	Resolver *net.Resolver
}

// Transport returns a transport that dials only addresses that the policy allows. It uses HTTP/2 if the server does. It
// returns an error if the policy is invalid. If the transport refuses an address, errors.As finds an *AddressError. It asks for no
// compression, so that limits on the size of answers apply to the bytes on the wire.
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
		Proxy: proxy, OnProxyConnectResponse: proxyAnswer, DialContext: p.dialContext,
		TLSClientConfig: config, TLSHandshakeTimeout: cmp.Or(p.HandshakeTimeout, DefaultTimeout),
		ForceAttemptHTTP2: true, // a custom DialContext would turn HTTP/2 off
		// It detects dead connections, by the time without a frame.
		HTTP2:        &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		MaxIdleConns: 1024, MaxIdleConnsPerHost: maxIdleConnsPerHost, IdleConnTimeout: 90 * time.Second,
		ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: 1 << 20, DisableCompression: true,
	}, nil
}

// TokenClient returns a client for token endpoints with a transport. It returns redirects to the caller and never follows them, because a
// 307 would post the client's secret to any URL. It keeps no cookies.
func TokenClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
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

// dialContext connects to address, a host and a port. It refuses an address right before it connects.
func (p Policy) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: cmp.Or(p.DialTimeout, DefaultTimeout), Resolver: p.Resolver}
	if p.Proxy == nil {
		dialer.ControlContext = p.control
	} // with a proxy, the one address that the transport dials is the proxy's

	dialled, err := dialer.DialContext(ctx, network, address)
	if addressErr, ok := errors.AsType[*AddressError](err); ok {
		host, _, _ := net.SplitHostPort(address) // "" after an error
		return nil, &AddressError{Host: host, Addr: addressErr.Addr, Kind: addressErr.Kind}
	}
	if err != nil {
		return nil, err
	}
	return &conn{Conn: dialled, over: make(chan struct{})}, nil
}

// control is called for each address that the dialer tries, after the socket has been made and before it is connected.
func (p Policy) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("egress: network %q is not TCP", network)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return &AddressError{Kind: KindInvalid} // an empty host, which would be this machine
	}
	return p.Check(target.Addr())
}

// proxy returns the function for http.Transport.Proxy.
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

// ProxyError is the error for a proxy's answer to CONNECT with another status than 200.
type ProxyError struct{ Status int }

func (e *ProxyError) Error() string { return fmt.Sprintf("the proxy answered %d", e.Status) }

// proxyAnswer returns an error for a refusal. It has only the status, because the text is the proxy's.
func proxyAnswer(_ context.Context, _ *url.URL, _ *http.Request, response *http.Response) error {
	if response.StatusCode != http.StatusOK {
		return &ProxyError{response.StatusCode}
	}
	return nil
}

// checkHost checks the text of a host, for requests through a proxy. Without a proxy, the dialled address is checked. A
// host that is not ASCII is checked in the form in which net/http writes it: full-width digits become digits.
func (p Policy) checkHost(host string) error {
	ascii, err := host, error(nil)
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
		ascii, err = idna.Lookup.ToASCII(host)
	}
	if err != nil {
		return &AddressError{Host: host, Kind: KindInvalid}
	}
	if addr, err := netip.ParseAddr(ascii); err == nil {
		if kind := p.refuses(addr); kind != "" {
			return &AddressError{Host: host, Addr: addr, Kind: kind}
		}
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(ascii, "."))
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

// Identity has the certificate that one client presents in TLS, and the authorities that it trusts.
type Identity struct {
	// Certificate is the client certificate. If it is nil, the client presents what Policy.TLS has.
	Certificate *tls.Certificate
	// Roots are the authorities that verify servers. If it is nil, those of Policy.TLS verify them.
	Roots *x509.CertPool
}

// ErrPlain is the error of a TransportAs for a URL of plain http, where nobody presents a certificate or verifies one.
var ErrPlain = errors.New("the connector has tls, and the URL is plain http: use https")

// TransportAs returns a transport like Transport for a client with an identity of its own. It differs as follows:
//
//   - It presents the certificate to each server that asks for one, whatever authorities the server lists. Without it, the
//     request would be sent, and the server would refuse it without a reason that names the certificate.
//   - It resumes no TLS session, because a session carries the identity of the client that began it, and Policy.TLS may
//     have a cache that all transports share.
//   - It refuses plain http with ErrPlain.
//   - An https proxy gets the certificate of Policy.TLS and is verified with its roots.
func (p Policy) TransportAs(id Identity) (*http.Transport, error) {
	transport, err := p.Transport()
	if err != nil {
		return nil, err
	}
	ordinary := transport.TLSClientConfig
	own := ordinary.Clone()
	own.ClientSessionCache = nil
	if id.Certificate != nil {
		own.Certificates = nil
		own.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return id.Certificate, nil }
	}
	if id.Roots != nil {
		own.RootCAs = id.Roots
	}
	transport.TLSClientConfig = own
	transport.MaxIdleConns = maxIdleConnsPerHost // it has few hosts, and there are many such transports
	transport.RegisterProtocol("http", plain{})
	if p.Proxy != nil && p.Proxy.Scheme == "https" {
		transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return p.dialProxy(ctx, network, address, ordinary)
		}
	}
	return transport, nil
}

// dialProxy connects to an https proxy. net/http limits the time of its own handshakes only.
func (p Policy) dialProxy(ctx context.Context, network, address string, config *tls.Config) (net.Conn, error) {
	conn, err := p.dialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config = config.Clone()
	config.ServerName = cmp.Or(config.ServerName, p.Proxy.Hostname())
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(p.HandshakeTimeout, DefaultTimeout))
	defer cancel()
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

type plain struct{}

func (plain) RoundTrip(*http.Request) (*http.Response, error) { return nil, ErrPlain }

// conn is a connection whose failed writes return only when its answer has been read. A server that refuses a request before it has read
// the body answers and closes the connection (RFC 9112 section 9.6); net/http would return the error of the write in place of that answer.
type conn struct {
	net.Conn
	once sync.Once
	// over is closed when nothing more can be read.
	over chan struct{}
}

func (c *conn) end() { c.once.Do(func() { close(c.over) }) }

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	const answerTime = time.Second // the maximum time that a failed write waits for the answer
	n, err := c.Conn.Write(p)
	if err != nil {
		timer := time.NewTimer(answerTime)
		defer timer.Stop()
		select {
		case <-c.over:
		case <-timer.C:
			c.end() // the alert of TLS, which follows, does not wait again
		}
	}
	return n, err
}

func (c *conn) Close() error {
	c.end()
	return c.Conn.Close()
}

// Once returns a client that sends each request over a connection of its own, and nothing after the deadline of a context. It
// returns false, and the same client, if the client's transport is not an [http.Transport].
func Once(sendCtx context.Context, client *http.Client) (*http.Client, bool) {
	transport, ok := client.Transport.(*http.Transport)
	if !ok {
		return client, false
	}
	own := transport.Clone()
	own.DisableKeepAlives = true
	own.DialContext, own.DialTLSContext = inTime(sendCtx, own.DialContext), inTime(sendCtx, own.DialTLSContext)
	once := *client
	once.Transport = own
	return &once, true
}

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// inTime returns a function that connects like next, with connections that send nothing after the deadline of a context. A process
// that was stopped goes on before its timers run, and another node may have the turn by then.
func inTime(sendCtx context.Context, next dial) dial {
	deadline, bounded := sendCtx.Deadline()
	if next == nil || !bounded {
		return next
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &timely{conn, deadline}, nil
	}
}

// timely is a connection with a deadline for what is sent.
type timely struct {
	net.Conn
	deadline time.Time
}

func (t *timely) Write(b []byte) (int, error) {
	if Over(t.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return t.Conn.Write(b)
}

// Over reports whether a deadline is over, by either clock: the monotonic one stands while a machine is suspended.
func Over(deadline time.Time) bool {
	now := time.Now()
	return !now.Before(deadline) || !now.Round(0).Before(deadline.Round(0))
}
