package host_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// secureWorld is a world with servers on the loopback that want client certificates.
type secureWorld struct {
	*world
	authority  *testworld.Authority
	api, token *secureServer
}

// secureServer is a server that keeps the names in the client certificates that it sees, "" for none.
type secureServer struct {
	*httptest.Server
	closed chan string // the address of each connection that is closed

	mu      sync.Mutex
	clients []string
	remotes []string
}

const day = 24 * time.Hour

func newSecureWorld(t *testing.T, change ...func(*host.Config)) *secureWorld {
	t.Helper()
	s := &secureWorld{authority: testworld.NewAuthority(t)}
	s.world = newWorld(t, append([]func(*host.Config){func(c *host.Config) {
		c.Base = nil
		c.Egress = host.Egress{AllowPrivate: true, TLS: &tls.Config{RootCAs: s.authority.Pool()}}
	}}, change...)...)
	s.api = s.server(tls.RequireAndVerifyClientCert, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	s.token = s.server(tls.RequireAndVerifyClientCert, s.issue)
	return s
}

// issue issues a token that has the name of the client in it, as one that is bound to a certificate.
func (s *secureWorld) issue(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"access_token":"token-of-%s","expires_in":3600}`, clientOf(r))
}

func clientOf(r *http.Request) string {
	if len(r.TLS.PeerCertificates) == 0 {
		return ""
	}
	return r.TLS.PeerCertificates[0].Subject.CommonName
}

// server starts a server, which ends with the test.
func (s *secureWorld) server(policy tls.ClientAuthType, handler http.HandlerFunc, http2 ...bool) *secureServer {
	server := &secureServer{closed: make(chan string, 1000)}
	server.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.mu.Lock()
		server.clients, server.remotes = append(server.clients, clientOf(r)), append(server.remotes, r.RemoteAddr)
		server.mu.Unlock()
		handler(w, r)
	}))
	server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			server.closed <- conn.RemoteAddr().String()
		}
	}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.EnableHTTP2 = len(http2) > 0
	server.TLS = &tls.Config{Certificates: []tls.Certificate{s.authority.Server()}, ClientCAs: s.authority.Pool(), ClientAuth: policy, Time: s.Now}
	server.StartTLS()
	s.t.Cleanup(server.Close)
	return server
}

// seen returns the names of the clients of all requests so far.
func (s *secureServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.clients)
}

// last returns the address of the connection of the last request.
func (s *secureServer) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remotes[len(s.remotes)-1]
}

// issueTo sets the secrets NAME.crt and NAME.key to a new certificate with a common name. Both are canaries.
func (s *secureWorld) issueTo(name, commonName string, ends time.Time) {
	certificate, key := s.authority.Client(commonName, ends)
	s.store(name, certificate, key)
}

func (s *secureWorld) store(name, certificate, key string) {
	for _, text := range []string{certificate, key} {
		if block, _ := pem.Decode([]byte(text)); block != nil {
			s.Hide("the PEM of "+name, strings.Split(text, "\n")[1])
		}
	}
	s.setSecret(name+".crt", certificate)
	s.setSecret(name+".key", key)
}

// of returns the TLS with a certificate that issueTo made.
func of(name string, purposes ...string) *host.TLS {
	return &host.TLS{
		Certificate: "{{ get_secret('" + name + ".crt') }}", Key: "{{ get_secret('" + name + ".key') }}", For: purposes,
	}
}

// secure connects a connector of the type api_key for the API.
func (s *secureWorld) secure(name string, t *host.TLS) *host.Connector {
	s.t.Helper()
	s.setSecret("key", "the key of the API")
	return s.secureAs(name, t, host.Auth{Type: "api_key", Config: config{"key": "X-Key", "in": "header", "value": "{{ get_secret('key') }}"}})
}

func (s *secureWorld) secureAs(name string, t *host.TLS, auth host.Auth) *host.Connector {
	s.t.Helper()
	c, err := s.host.NewConnector(context.Background(), host.ConnectorConfig{Name: name, Origins: []string{s.api.URL}, Auth: auth, TLS: t})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// credentials is the configuration of RFC 8705 section 2.
func (s *secureWorld) credentials() host.Auth {
	return host.Auth{Type: "oauth_client_credentials", Config: config{"client_id": "c", "client_auth": "tls_client_auth", "token_url": s.token.URL}}
}

// call sends a request and returns the host's error.
func (s *secureWorld) call(ctx context.Context, c *host.Connector) error {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.api.URL+"/v1", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = s.try(c, r)
	return err
}

// must sends a request that must succeed.
func (s *secureWorld) must(c *host.Connector) {
	s.t.Helper()
	if err := s.call(context.Background(), c); err != nil {
		s.t.Fatal(err)
	}
}

// getFrom returns a GET of a URL.
func getFrom(url string) *http.Request {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		panic(err)
	}
	return r
}
