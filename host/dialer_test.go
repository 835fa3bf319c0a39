package host_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
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
	return s.open(host.ConnectorConfig{
		Name: name, Origins: []string{s.api.URL}, Egress: egress,
		Auth: []host.Auth{{Type: "oauth_client_credentials", Config: with(oauth("{{ get_secret('s') }}"), "token_url", endpoint)}},
	})
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
	c := s.open(host.ConnectorConfig{Name: "api", Origins: []string{s.api.URL}, Auth: []host.Auth{{Type: "none"}}})
	testworld.WantError(t, "the API of another connector", s.call(t.Context(), c), "127.0.0.1 is a loopback address")
}

// A connector with tls keeps its certificate when it has an Egress of its own.
func TestOwnEgressWithTLS(t *testing.T) {
	s := newSecureWorld(t, func(c *host.Config) { c.Egress = host.Egress{} })
	s.issueTo("client", "client", s.Now().Add(day))
	s.must(s.open(host.ConnectorConfig{
		Origins: []string{s.api.URL}, TLS: of("client"), Auth: []host.Auth{s.credentials()},
		Egress: &host.Egress{Allow: loopback, TLS: &tls.Config{RootCAs: s.authority.Pool()}},
	}))
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
		w.refuseConnector(host.ConnectorConfig{Auth: []host.Auth{{Type: "none"}}, Egress: e}, "egress", want)
	}
	refused(newWorld(t), &host.Egress{}, "Config.Base takes its place")
	s := ownWorld(t)
	refused(s.world, &host.Egress{Proxy: &url.URL{Scheme: "gopher", Host: "proxy"}}, "the scheme has to be http, https, socks5 or socks5h")
	refused(s.world, &host.Egress{TLS: &tls.Config{InsecureSkipVerify: true}}, "InsecureSkipVerify") //nolint:gosec // it is refused
}

// AllowHTTP of a connector's Egress holds for that connector only.
func TestPlainHTTPOfOneConnector(t *testing.T) {
	s := ownWorld(t)
	c := host.ConnectorConfig{Origins: []string{"http://10.0.0.1"}, Auth: []host.Auth{{Type: "none"}}, Egress: &host.Egress{AllowHTTP: true}}
	s.open(c)
	c.Egress = nil
	s.refuseConnector(c, "origins[0]", "is plain http")
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
		_, err := s.tryOpen(host.ConnectorConfig{
			Origins: []string{c.origin}, Egress: &host.Egress{PlainHTTP: c.hosts},
			Auth: []host.Auth{{Type: "oauth_client_credentials", Config: with(oauth("{{ get_secret('s') }}"), "token_url", c.token)}},
		})
		testworld.WantError(t, fmt.Sprintf("%s, %s with %q", c.origin, c.token, c.hosts), err, c.want)
	}
}

// threats.md 23: Egress.Transport enforces the policy without a host, too. Package egress tests the policy.
func TestTheTransportOfEgressKeepsToIt(t *testing.T) {
	var encodings []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		encodings = append(encodings, r.Header.Get("Accept-Encoding"))
	}))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for want, egress := range map[string]host.Egress{
		"":                 {AllowPrivate: true, TLS: &tls.Config{RootCAs: roots}},
		"loopback address": {TLS: &tls.Config{RootCAs: roots}},
		"certificate":      {AllowPrivate: true},
	} {
		transport := must(egress.Transport())(t)
		defer transport.CloseIdleConnections()
		testworld.WantError(t, want, roundTripError((&http.Client{Transport: transport}).Get(server.URL)), want)
	}
	if len(encodings) != 1 || encodings[0] != "" {
		t.Errorf("the server saw requests with Accept-Encoding %q, and wants one without", encodings)
	}
	_, err := (host.Egress{TLS: &tls.Config{InsecureSkipVerify: true}}).Transport() //nolint:gosec // it is refused
	testworld.WantError(t, "a transport that verifies nobody", err, "InsecureSkipVerify")
}
