package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
)

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
	if config.ServerName == "" {
		config.ServerName = p.Proxy.Hostname()
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(p.HandshakeTimeout, DefaultTimeout))
	defer cancel()
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// plain is a RoundTripper that refuses each request.
type plain struct{}

// RoundTrip implements [http.RoundTripper].
func (plain) RoundTrip(*http.Request) (*http.Response, error) { return nil, ErrPlain }
