package host_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

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
			transport, err := c.egress.Transport()
			if err != nil {
				t.Fatal(err)
			}
			defer transport.CloseIdleConnections()
			response, err := (&http.Client{Transport: transport}).Get(c.url)
			if err == nil {
				_ = response.Body.Close()
			}
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
