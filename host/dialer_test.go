package host_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

// ownWorld is a secureWorld whose host dials public addresses only, and whose servers ask for no certificate.
func ownWorld(t *testing.T) *secureWorld {
	s := newSecureWorld(t, func(c *host.Config) { c.Egress = host.Egress{} })
	s.canary("s")
	s.api = s.server(0, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	s.token = s.server(0, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/") {
			_, _ = io.WriteString(w, `{"issuer":"https://`+r.Host+`","token_endpoint":"https://`+r.Host+`/token"}`)
			return
		}
		s.issue(w, r)
	})
	return s
}

// own connects a connector with an Egress of its own. The endpoint is written, or that of an issuer.
func (s *secureWorld) own(name string, egress *host.Egress, endpoint string) *host.Connector {
	s.t.Helper()
	return must(s.host.NewConnector(s.t.Context(), host.ConnectorConfig{
		Name: name, Origins: []string{s.api.URL}, Egress: egress,
		Auth: host.Auth{Type: "oauth_client_credentials", Config: with(oauth("{{ get_secret('s') }}"), "token_url", endpoint)},
	}))(s.t)
}

// threats.md 186: an address that one connector may dial is dialled for no other one: neither for the API, nor for a token, nor for
// the metadata of an issuer, nor with authorities that only the one trusts.
func TestEgressPerConnector(t *testing.T) {
	s := ownWorld(t)
	inside := &host.Egress{Allow: loopback, TLS: &tls.Config{RootCAs: s.authority.Pool()}}
	discovered := "{{ discover('" + s.token.URL + "', 'token_endpoint') }}"
	s.must(s.own("written", inside, s.token.URL))
	s.must(s.own("discovered", inside, discovered))
	for endpoint, asked := range map[string]string{s.token.URL: "", discovered: "/.well-known/oauth-authorization-server"} {
		fails := func(name string, egress *host.Egress, why string) {
			t.Helper()
			var failed *host.Error
			err := s.call(t.Context(), s.own(name, egress, endpoint))
			if !errors.As(err, &failed) || failed.Stage != host.StageToken || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), asked) {
				t.Errorf("%s, %s: err = %v", name, endpoint, err)
			}
		}
		fails("other", nil, "127.0.0.1 is a loopback address")
		fails("no authority", &host.Egress{Allow: loopback}, "authority")
	}
	c := must(s.host.NewConnector(t.Context(), host.ConnectorConfig{Name: "api", Origins: []string{s.api.URL}, Auth: host.Auth{Type: "none"}}))(t)
	testworld.WantError(t, "the API of another connector", s.call(t.Context(), c), "127.0.0.1 is a loopback address")
}

// A connector with tls keeps its certificate when it has an Egress of its own.
func TestOwnEgressWithTLS(t *testing.T) {
	s := newSecureWorld(t, func(c *host.Config) { c.Egress = host.Egress{} })
	s.issueTo("client", "client", s.Now().Add(day))
	c := must(s.host.NewConnector(t.Context(), host.ConnectorConfig{
		Name: "crm", Origins: []string{s.api.URL}, TLS: of("client"), Auth: s.credentials(),
		Egress: &host.Egress{Allow: loopback, TLS: &tls.Config{RootCAs: s.authority.Pool()}},
	}))(t)
	s.must(c)
	if api, token := s.api.seen(), s.token.seen(); len(api) != 1 || api[0] != "client" || len(token) != 1 || token[0] != "client" {
		t.Errorf("the API has seen %q, the token endpoint %q", api, token)
	}
}

// A connector's requests and its exchanges go through its proxy, and those of others do not.
func TestProxyOfOneConnector(t *testing.T) {
	s := ownWorld(t)
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.Host)
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	at := must(url.Parse(proxy.URL))(t)
	c := s.own("proxied", &host.Egress{Proxy: at}, "https://login.example/token")
	testworld.WantError(t, "", s.call(t.Context(), c), "the proxy answered 502")
	if len(asked) != 1 || asked[0] != "CONNECT login.example:443" {
		t.Errorf("the proxy was asked for %q", asked)
	}
}

// A connector's Egress that cannot be used is a problem of the connector.
func TestInvalidEgress(t *testing.T) {
	refused := func(w *world, e *host.Egress, want string) {
		t.Helper()
		_, err := w.host.NewConnector(t.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{"https://api.test"}, Auth: host.Auth{Type: "none"}, Egress: e})
		var wrong *host.ConfigError
		if !errors.As(err, &wrong) || len(wrong.Problems) != 1 || wrong.Problems[0].Path != "egress" || !strings.Contains(wrong.Problems[0].Message, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused(newWorld(t), &host.Egress{}, "Config.Base takes its place")
	s := ownWorld(t)
	refused(s.world, &host.Egress{Proxy: &url.URL{Scheme: "gopher", Host: "proxy"}}, "the scheme has to be http, https, socks5 or socks5h")
	refused(s.world, &host.Egress{TLS: &tls.Config{InsecureSkipVerify: true}}, "InsecureSkipVerify") //nolint:gosec // it is refused
}

// AllowHTTP of a connector's Egress holds for that connector only.
func TestPlainHTTPOfOneConnector(t *testing.T) {
	s := ownWorld(t)
	connect := func(e *host.Egress) error {
		_, err := s.host.NewConnector(t.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{"http://10.0.0.1"}, Auth: host.Auth{Type: "none"}, Egress: e})
		return err
	}
	check(t, connect(&host.Egress{AllowHTTP: true}))
	testworld.WantError(t, "without it", connect(nil), "is plain http")
}

// threats.md 312: PlainHTTP names the hosts of origins and token URLs that may be of plain http, for one connector.
func TestHostsOfPlainHTTP(t *testing.T) {
	s := ownWorld(t)
	for _, c := range []struct {
		origin, token string
		hosts         []string
		want          string // "" if the connector is made
	}{
		{"http://Sidecar", "http://keycloak:8080/token", []string{"sidecar", "keycloak:8080"}, ""},
		{"http://sidecar:99", "https://a.test/token", []string{"sidecar"}, ""},
		{"http://sidecar", "https://a.test/token", []string{"sidecar:80"}, ""},
		{"http://[::1]:8080", "https://a.test/token", []string{"[::1]"}, ""},
		{"http://sidecar:8080", "https://a.test/token", []string{"sidecar:80"}, "origins[0]: is plain http"},
		{"http://a.sidecar", "https://a.test/token", []string{"sidecar"}, "origins[0]: is plain http"},
		{"https://a.test", "http://keycloak:8081/token", []string{"keycloak:8080"}, "token_url: is plain http"},
		{"https://a.test", "https://a.test/token", []string{"http://keycloak"}, "egress: an item of PlainHTTP is not the name of a host"},
		{"https://a.test", "https://a.test/token", []string{"*"}, "egress: an item of PlainHTTP is not the name of a host"},
	} {
		_, err := s.host.NewConnector(t.Context(), host.ConnectorConfig{
			Name: "crm", Origins: []string{c.origin}, Egress: &host.Egress{PlainHTTP: c.hosts},
			Auth: host.Auth{Type: "oauth_client_credentials", Config: with(oauth("{{ get_secret('s') }}"), "token_url", c.token)},
		})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s with %q: %v, want %q", c.origin, c.token, c.hosts, err, c.want)
		}
	}
}

// threats.md 23: Egress.Transport enforces the policy without a host, too.
func TestTheTransportOfEgressKeepsToIt(t *testing.T) {
	var encodings []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		encodings = append(encodings, r.Header.Get("Accept-Encoding"))
	}))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	named := "https://localhost:" + port
	for name, c := range map[string]struct {
		egress host.Egress
		url    string
		want   string // "" means success
	}{
		"allowed":         {host.Egress{AllowPrivate: true, TLS: &tls.Config{RootCAs: roots}}, server.URL, ""},
		"inside":          {host.Egress{TLS: &tls.Config{RootCAs: roots}}, server.URL, "loopback address"},
		"a name inside":   {host.Egress{TLS: &tls.Config{RootCAs: roots}}, named, "loopback address"},
		"cloud metadata":  {host.Egress{AllowPrivate: true}, "http://169.254.169.254/", "cloud metadata address"},
		"unknown issuers": {host.Egress{AllowPrivate: true}, server.URL, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			transport := must(c.egress.Transport())(t)
			defer transport.CloseIdleConnections()
			err := roundTripError((&http.Client{Transport: transport}).Get(c.url))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if len(encodings) != 1 || encodings[0] != "" {
		t.Errorf("the server saw requests with Accept-Encoding %q, and wants one without", encodings)
	}
	if _, err := (host.Egress{TLS: &tls.Config{InsecureSkipVerify: true}}).Transport(); err == nil {
		t.Error("a transport that verifies nobody is made")
	}
}
