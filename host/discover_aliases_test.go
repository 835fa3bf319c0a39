package host_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/keywright/keywright/host"
)

// A connector with a client certificate for the token endpoint asks the endpoint that the issuer has for those (RFC 8705 section
// 5). A connector with authorities only, or with a certificate for the API only, asks the other one.
func TestTokenEndpointForClientsWithACertificate(t *testing.T) {
	s := newSecureWorld(t, func(c *host.Config) { c.Egress.AllowPrivate = true })
	s.canary("s")
	s.issueTo("client", "client", s.Now().Add(day))
	var asked string
	tokens := s.server(0, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"t","token_type":"Bearer","expires_in":3600}`)
	})
	issuer := s.server(0, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"issuer":"https://`+r.Host+`","token_endpoint":"`+tokens.URL+`/plain","mtls_endpoint_aliases":{"token_endpoint":"`+tokens.URL+`/mutual"}}`)
	})
	for name, c := range map[string]struct {
		tls  *host.TLS
		want string
	}{
		"no tls":                      {nil, "/plain"},
		"a certificate":               {of("client"), "/mutual"},
		"a certificate for the token": {of("client", host.TLSForToken), "/mutual"},
		"a certificate for the api":   {of("client", host.TLSForAPI), "/plain"},
		"authorities for the token":   {&host.TLS{CA: s.authority.PEM(), For: []string{host.TLSForToken}}, "/plain"},
	} {
		connector := s.secureAs(name, c.tls, host.Auth{Type: "oauth_client_credentials", Config: with(discovering(), "token_url", "{{ discover('"+issuer.URL+"', 'token_endpoint') }}")})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.api.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		asked = ""
		response, err := connector.Transport(nil).RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
		}
		if asked != c.want {
			t.Errorf("%s: it asks %s, want %s; %v", name, asked, c.want, err)
		}
	}
}
