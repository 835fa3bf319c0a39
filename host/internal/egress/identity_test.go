package egress

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// An https proxy belongs to the operator: it is verified with the operator's roots, and it does not see the client certificate
// of a connector, which is for the server behind it.
func TestAProxySeesNoIdentity(t *testing.T) {
	operators, connectors := testworld.NewAuthority(t), testworld.NewAuthority(t)
	certificate, key := connectors.Client("ann", time.Now().Add(time.Hour))
	pair := testworld.Must(tls.X509KeyPair([]byte(certificate), []byte(key)))(t)
	start := func(a *testworld.Authority, policy tls.ClientAuthType, handler http.HandlerFunc) *httptest.Server {
		s := httptest.NewUnstartedServer(handler)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{a.Server()}, ClientAuth: policy, ClientCAs: connectors.Pool()}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	target := start(connectors, tls.RequireAndVerifyClientCert, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	})
	asked := 0
	proxy := start(operators, tls.RequestClientCert, func(w http.ResponseWriter, r *http.Request) {
		if asked++; len(r.TLS.PeerCertificates) > 0 {
			t.Error("the proxy sees the client certificate")
		}
		tunnel(t, w, target.Listener.Addr().String())
	})
	proxyURL := testworld.Must(url.Parse(proxy.URL))(t)
	transport := testworld.Must(Policy{AllowPrivate: true, Proxy: proxyURL, TLS: &tls.Config{RootCAs: operators.Pool()}}.TransportAs(Identity{&pair, connectors.Pool()}))(t)
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("https://localhost:443/") // the tunnel leads to the target
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); string(body) != "ann" || asked != 1 {
		t.Errorf("the server saw %q, and the proxy was asked %d times", body, asked)
	}
}

// Without a proxy, the server itself sees the client certificate of a connector.
func TestAServerSeesTheIdentity(t *testing.T) {
	authority := testworld.NewAuthority(t)
	certificate, key := authority.Client("ann", time.Now().Add(time.Hour))
	pair := testworld.Must(tls.X509KeyPair([]byte(certificate), []byte(key)))(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Server()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool()}
	server.StartTLS()
	defer server.Close()
	transport := testworld.Must(Policy{AllowPrivate: true}.TransportAs(Identity{&pair, authority.Pool()}))(t)
	defer transport.CloseIdleConnections()
	response := testworld.Must((&http.Client{Transport: transport}).Get(server.URL))(t)
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); string(body) != "ann" {
		t.Errorf("the server saw %q", body)
	}
}

// tunnel connects the client of a CONNECT with an address.
func tunnel(t *testing.T, w http.ResponseWriter, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
}
