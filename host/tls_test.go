package host_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
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
	return s.open(host.ConnectorConfig{Name: name, Origins: []string{s.api.URL}, Auth: []host.Auth{auth}, TLS: t})
}

// credentials is the configuration of RFC 8705 section 2.
func (s *secureWorld) credentials() host.Auth {
	return host.Auth{Type: "oauth_client_credentials", Config: config{"client_id": "c", "client_auth": "tls_client_auth", "token_url": s.token.URL}}
}

// call sends a request and returns the host's error.
func (s *secureWorld) call(ctx context.Context, c *host.Connector) error {
	s.t.Helper()
	r := must(http.NewRequestWithContext(ctx, http.MethodGet, s.api.URL+"/v1", nil))(s.t)
	_, err := s.try(c, r)
	return err
}

// must sends a request that must succeed.
func (s *secureWorld) must(c *host.Connector) {
	s.t.Helper()
	check(s.t, s.call(context.Background(), c))
}

// The certificate goes where the configuration says, and nowhere else.
func TestClientCertificateTargets(t *testing.T) {
	for name, c := range map[string]struct {
		purposes   []string
		api, token string
	}{
		"both":  {nil, "ann", "ann"},
		"api":   {[]string{host.TLSForAPI}, "ann", ""},
		"token": {[]string{host.TLSForToken}, "", "ann"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSecureWorld(t)
			s.api, s.token = s.server(tls.RequestClientCert, func(http.ResponseWriter, *http.Request) {}), s.server(tls.RequestClientCert, s.issue)
			s.issueTo("ann", "ann", start.Add(90*day))
			s.must(s.secureAs("crm", of("ann", c.purposes...), s.credentials()))
			if got := s.api.seen(); !slices.Equal(got, []string{c.api}) {
				t.Errorf("the API saw the certificates %q, want %q", got, c.api)
			}
			if got := s.token.seen(); !slices.Equal(got, []string{c.token}) {
				t.Errorf("the token endpoint saw the certificates %q, want %q", got, c.token)
			}
		})
	}
}

// A server that requires certificates refuses a connector without one, and a connector whose certificate is for another place.
func TestRequiredClientCertificate(t *testing.T) {
	s := newSecureWorld(t)
	s.issueTo("ann", "ann", start.Add(90*day))
	for name, c := range map[string]*host.Connector{
		"none": s.secure("none", nil), "for the token only": s.secure("token", of("ann", host.TLSForToken)),
		"token endpoint": s.secureAs("api", of("ann", host.TLSForAPI), s.credentials()),
	} {
		if err := s.call(context.Background(), c); err == nil {
			t.Errorf("%s: the request succeeded", name)
		}
	}
	if seen := slices.Concat(s.api.seen(), s.token.seen()); len(seen) > 0 {
		t.Errorf("the servers answered %q", seen)
	}
}

// The connector's authorities replace those of the host, for this connector only.
func TestAConnectorTrustsItsOwnAuthorities(t *testing.T) {
	s := newSecureWorld(t)
	s.issueTo("ann", "ann", start.Add(90*day))
	other := testworld.NewAuthority(t)
	s.setSecret("other", other.PEM())
	s.setSecret("own", strings.ReplaceAll(s.authority.PEM(), "\n", `\n`)) // as in environment variables
	with := func(ca string) *host.TLS {
		t := of("ann")
		t.CA = ca
		return t
	}
	s.must(s.secure("own", with("{{ get_secret('own') }}")))
	s.must(s.secure("literal", with(s.authority.PEM())))
	err := s.call(context.Background(), s.secure("other", with("{{ get_secret('other') }}")))
	testworld.WantError(t, "with another authority", err, "its certificate is signed by an unknown authority")
	s.must(s.secure("ordinary", of("ann")))
	if got := s.api.seen(); len(got) != 3 {
		t.Errorf("%d requests reached the API, want 3", len(got))
	}
}

// Authorities without a certificate are enough, for an API that has its own.
func TestAuthoritiesWithoutACertificate(t *testing.T) {
	s := newSecureWorld(t, func(c *host.Config) { c.Egress.TLS = nil })
	s.api = s.server(tls.NoClientCert, func(http.ResponseWriter, *http.Request) {})
	s.must(s.secure("crm", &host.TLS{CA: s.authority.PEM()}))
	if err := s.call(context.Background(), s.secure("none", nil)); err == nil {
		t.Error("without ca, the server is trusted")
	}
}

// threats.md 92: a secret that is replaced counts at once, the connection of the one before is closed, and a token that is
// bound to the certificate before is not sent with the new one.
func TestClientCertificateReplacement(t *testing.T) {
	for name, http2 := range map[string][]bool{"HTTP/1.1": nil, "HTTP/2": {true}} {
		t.Run(name, func(t *testing.T) {
			s := newSecureWorld(t)
			var tokens []string
			s.api = s.server(tls.RequireAndVerifyClientCert, func(_ http.ResponseWriter, r *http.Request) {
				tokens = append(tokens, r.Header.Get("Authorization"))
			}, http2...)
			c := s.secureAs("crm", of("crm"), s.credentials())
			s.issueTo("crm", "old", start.Add(90*day))
			s.must(c)
			s.must(c)
			before := s.api.last()
			s.issueTo("crm", "new", start.Add(90*day))
			s.must(c)
			if closed := <-s.api.closed; closed != before {
				t.Errorf("the connection %s was closed, want %s", closed, before)
			}
			if got := s.api.seen(); !slices.Equal(got, []string{"old", "old", "new"}) {
				t.Errorf("the API saw %q", got)
			}
			if got := s.token.seen(); !slices.Equal(got, []string{"old", "new"}) {
				t.Errorf("the token endpoint saw %q", got)
			}
			if want := []string{"Bearer token-of-old", "Bearer token-of-old", "Bearer token-of-new"}; !slices.Equal(tokens, want) {
				t.Errorf("the API got %q", tokens)
			}
			if got := c.LastClientCertificate(); got == nil || got.Subject != "CN=new" {
				t.Errorf("the last certificate is %+v", got)
			}
		})
	}
}

// threats.md 91: connectors share neither connections nor TLS sessions, also if they have the same certificate, and if the
// operator's TLS has a cache of sessions.
func TestConnectorsShareNoConnection(t *testing.T) {
	cache := tls.NewLRUClientSessionCache(10)
	s := newSecureWorld(t, func(c *host.Config) { c.Egress.TLS.ClientSessionCache = cache })
	s.issueTo("ann", "ann", start.Add(90*day))
	s.issueTo("bob", "bob", start.Add(90*day))
	connectors := []*host.Connector{s.secure("ann", of("ann")), s.secure("bob", of("bob")), s.secure("again", of("ann"))}
	remotes := map[string]bool{}
	for _, c := range connectors {
		for range 2 {
			s.must(c)
			remotes[s.api.last()] = true
		}
	}
	if len(remotes) != 3 {
		t.Errorf("3 connectors had %d connections", len(remotes))
	}
	if got := s.api.seen(); !slices.Equal(got, []string{"ann", "ann", "bob", "bob", "ann", "ann"}) {
		t.Errorf("the API saw %q", got)
	}
	if err := s.call(context.Background(), s.secure("nobody", nil)); err == nil {
		t.Error("a connector without a certificate has the session of another")
	}
}

// Each user's certificate has a connection of its own.
func TestAClientCertificateOfTheUser(t *testing.T) {
	s := newSecureWorld(t)
	s.issueTo("ann", "ann", start.Add(90*day))
	s.issueTo("bob", "bob", start.Add(90*day))
	c := s.secure("crm", &host.TLS{
		Certificate: "{{ user.id == 'ann' ? get_secret('ann.crt') : get_secret('bob.crt') }}",
		Key:         "{{ user.id == 'ann' ? get_secret('ann.key') : get_secret('bob.key') }}",
	})
	for _, user := range []string{"ann", "bob", "ann"} {
		check(t, s.call(host.WithUser(context.Background(), host.User{ID: user}), c))
	}
	if got := s.api.seen(); !slices.Equal(got, []string{"ann", "bob", "ann"}) || s.api.remotes[0] != s.api.remotes[2] {
		t.Errorf("the API saw %q on connections %q", got, s.api.remotes)
	}
}

// threats.md 93: no number of certificates makes the host keep more than 100 transports.
func TestTheHostKeepsAHundredTransports(t *testing.T) {
	s := newSecureWorld(t)
	s.issueTo("ann", "ann", start.Add(90*day))
	first := s.secure("first", of("ann"))
	s.must(first)
	kept := s.api.last()
	s.must(s.secure("second", of("ann")))
	second := s.api.last()
	for i := range 98 {
		s.must(s.secure(fmt.Sprint("connector ", i), of("ann")))
	}
	s.must(first) // the second is now the one that was used least recently
	if got := s.api.last(); got != kept {
		t.Errorf("the first connector has a new connection, and 100 transports are kept")
	}
	s.must(s.secure("one more", of("ann")))
	if closed := <-s.api.closed; closed != second {
		t.Errorf("the connection %s was closed, want that of the second connector, %s", closed, second)
	}
	check(t, s.host.Close(context.Background()))
	for range 100 { // ends with the time limit of the test if one stays open
		<-s.api.closed
	}
}

// A certificate that cannot be used fails the request before anything is sent, and the error says which member is wrong.
func TestUnusableClientCertificate(t *testing.T) {
	s := newSecureWorld(t)
	certificate, key := s.authority.Client("ann", start.Add(90*day))
	_, otherKey := s.authority.Client("bob", start.Add(90*day))
	ended, endedKey := s.authority.Client("ann", start.Add(-time.Hour))
	for name, c := range map[string]struct{ certificate, key, want string }{
		"no PEM":           {s.Secret("certificate"), key, "config: tls.certificate: has no certificate in PEM"},
		"a damaged line":   {strings.Replace(certificate, "MII", "AII", 1), key, "config: tls.certificate: has a certificate, number 1, that cannot be parsed"},
		"half a file":      {certificate[:200], key, "config: tls.certificate: is damaged PEM"},
		"a key":            {key, key, "config: tls.certificate: has no certificate in PEM"},
		"no key":           {certificate, s.Secret("key"), "config: tls.key: the key is not PEM"},
		"a certificate":    {certificate, certificate, "config: tls.key: the key is a certificate: the private key is needed"},
		"another key":      {certificate, otherKey, "config: tls.key: the key is not that of tls.certificate"},
		"the wrong order":  {s.authority.PEM() + certificate, key, "config: tls.certificate: certificate 2 in it is the key's own: put it first"},
		"ended":            {ended, endedKey, "config: tls.certificate: the certificate ended at 2023-11-14T21:13:20Z"},
		"a missing secret": {"", "", `template: tls.certificate: secret "x.crt"`},
	} {
		t.Run(name, func(t *testing.T) {
			s.store("x", c.certificate, c.key)
			for _, connector := range []*host.Connector{s.secure("crm", of("x")), s.secureAs("erp", of("x"), s.credentials())} {
				err := s.call(context.Background(), connector)
				if _, ok := errors.AsType[*host.Error](err); !ok || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the error is %v, want %q", err, c.want)
				}
				if _, explained := connector.Explain(request(t, s.api.URL)); explained == nil || explained.Error() != err.Error() {
					t.Errorf("Explain returns %v, and a request %v", explained, err)
				}
			}
		})
	}
	if seen := slices.Concat(s.api.seen(), s.token.seen()); len(seen) > 0 {
		t.Errorf("the servers answered %q", seen)
	}
}

// A connection that was made while the certificate was valid is not used after its end.
func TestAClientCertificateEnds(t *testing.T) {
	s := newSecureWorld(t)
	s.issueTo("ann", "ann", start.Add(31*day))
	c := s.secure("crm", of("ann"))
	s.must(c)
	if s.logged("tls.certificate") > 0 {
		t.Error("a warning came early")
	}
	s.Advance(2 * day)
	s.must(c)
	s.must(c)
	if got := s.logged("tls.certificate: the client certificate ends at 2023-12-15T22:13:20Z: renew it"); got != 1 {
		t.Errorf("there are %d warnings, want 1", got)
	}
	s.Advance(30 * day)
	if err := s.call(context.Background(), c); err == nil {
		t.Error("a certificate that has ended is used")
	}
	certificate, err := c.ClientCertificate(context.Background())
	if err != nil || certificate.Subject != "CN=ann" || !certificate.EndsSoon(s.Now()) {
		t.Errorf("the certificate is %+v, %v", certificate, err)
	}
}

// Explain shows the certificate and not its PEM.
func TestExplainShowsTheClientCertificate(t *testing.T) {
	s := newSecureWorld(t)
	s.issueTo("ann", "ann", start.Add(90*day))
	e := must(s.secure("crm", of("ann", host.TLSForAPI)).Explain(request(t, s.api.URL)))(t)
	s.Out("the explanation", fmt.Sprintf("%+v %+v", e, e.TLS))
	if e.TLS == nil || !slices.Equal(e.TLS.For, []string{host.TLSForAPI}) || e.TLS.CA ||
		*e.TLS.ClientCertificate != (host.ClientCertificate{Subject: "CN=ann", NotAfter: start.Add(90 * day).UTC(), Path: "tls.certificate"}) {
		t.Errorf("it is %+v", e.TLS)
	}
}

// Requests that are authenticated by hand, and those of a base that others wrote, have the certificate if they go through Base.
func TestBasePresentsTheCertificate(t *testing.T) {
	s := newSecureWorld(t)
	s.issueTo("ann", "ann", start.Add(90*day))
	c := s.secure("crm", of("ann"))
	authenticated := must(c.Authenticate(request(t, s.api.URL)))(t)
	for name, send := range map[string]func() (*http.Response, error){
		"by hand": func() (*http.Response, error) { return c.Base().RoundTrip(authenticated) },
		"a base": func() (*http.Response, error) {
			return c.Transport(answer(c.Base().RoundTrip)).RoundTrip(request(t, s.api.URL))
		},
		"another's": func() (*http.Response, error) { return s.secure("erp", of("ann")).Base().RoundTrip(authenticated) },
		"another's as a base": func() (*http.Response, error) {
			return c.Transport(s.secure("erp", of("ann")).Base()).RoundTrip(request(t, s.api.URL))
		},
	} {
		err := roundTripError(send())
		if refused := err != nil && strings.Contains(err.Error(), "has not been authenticated by this connector"); refused != strings.HasPrefix(name, "another's") || err != nil && !refused {
			t.Errorf("%s: err = %v", name, err)
		}
	}
	if got := s.api.seen(); !slices.Equal(got, []string{"ann", "ann"}) {
		t.Errorf("the API saw %q", got)
	}
}

// A configuration that would not do what it says is refused.
func TestRefusedTLS(t *testing.T) {
	s := newSecureWorld(t, func(c *host.Config) { c.Egress.AllowHTTP = true })
	key := "{{ get_secret('k') }}"
	for name, c := range map[string]struct {
		tls    host.TLS
		origin string
		want   string
	}{
		"nothing":            {host.TLS{}, "", "tls: has neither certificate nor pkcs12 nor ca"},
		"a file beside it":   {host.TLS{Certificate: "{{ get_secret('c') }}", Key: key, PKCS12: key}, "", "tls.pkcs12: takes the place of certificate and key"},
		"no reader":          {host.TLS{PKCS12: key}, "", "tls.pkcs12: needs Config.PKCS12"},
		"a lone passphrase":  {host.TLS{Certificate: "{{ get_secret('c') }}", Key: key, Passphrase: key}, "", "tls.passphrase: has no effect"},
		"a file in the open": {host.TLS{PKCS12: "MIIJ"}, "", "tls.pkcs12: names no secret"},
		"no key":             {host.TLS{Certificate: "{{ get_secret('c') }}"}, "", "tls.key: is missing"},
		"no certificate":     {host.TLS{Key: key, CA: s.authority.PEM()}, "", "tls.certificate: is missing"},
		"a path":             {host.TLS{Certificate: "/etc/client.pem", Key: key}, "", "tls.certificate: has no certificate in PEM"},
		"a key in the open":  {host.TLS{Certificate: "{{ get_secret('c') }}", Key: "-----BEGIN"}, "", "tls.key: names no secret"},
		"a stored key":       {host.TLS{Certificate: "{{ get_secret('c') }}", Key: "{{ get_key('k') }}"}, "", "tls.key, column 1: get_key is for a field that takes a key"},
		"a user's token":     {host.TLS{Certificate: "{{ user.token }}", Key: key}, "", "tls.certificate: user.token goes to token endpoints only"},
		"a template":         {host.TLS{CA: "{{ get_sekret('c') }}"}, "", "tls.ca, column 4: unknown function"},
		"a purpose":          {host.TLS{CA: s.authority.PEM(), For: []string{"apis"}}, "", `tls.for[0]: is neither api nor token; did you mean "api"?`},
		"plain http":         {host.TLS{CA: s.authority.PEM()}, "http://api.test", "tls: is for the API, whose origin is plain http"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.tryOpen(host.ConnectorConfig{Origins: []string{cmp.Or(c.origin, apiOrigin)}, Auth: []host.Auth{{Type: "none"}}, TLS: &c.tls})
			testworld.WantError(t, "", err, c.want)
		})
	}
	newWorld(t).refuseConnector(host.ConnectorConfig{Auth: []host.Auth{{Type: "none"}}, TLS: of("ann")}, "tls", "needs the transport of the host, and Config.Base takes its place")
}

// A token endpoint of plain http, which a template may name, gets nothing.
func TestTLSForAPlainTokenEndpoint(t *testing.T) {
	s := newSecureWorld(t, func(c *host.Config) { c.Egress.AllowHTTP = true })
	asked := false
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer plain.Close()
	s.issueTo("ann", "ann", start.Add(90*day))
	auth := s.credentials()
	auth.Config["token_url"] = plain.URL
	err := s.call(context.Background(), s.secureAs("crm", of("ann"), auth))
	if err == nil || !strings.Contains(err.Error(), "the URL is plain http: use https") || asked {
		t.Errorf("the error is %v, and the endpoint was asked: %v", err, asked)
	}
}
