package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// The caller's tenant decides the host, and no ID leads elsewhere (threats.md 481).
func TestTenantHost(t *testing.T) {
	var requests []string
	tenant := ""
	w := newWorld(t, func(o *options, d *gateway.Definition) {
		d.URL, d.Hosts, d.HostsShareSecrets = "https://{{ tenant_id }}.example.test/v1", []string{"*.example.test"}, true
		d.Paths = []string{"/**"}
		o.Users = users(func(*http.Request) (host.User, error) { return host.User{ID: "u", TenantID: tenant}, nil })
		o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) {
			requests = append(requests, r.URL.String())
			return testworld.Respond(http.StatusOK, "")(r)
		})
	})
	for _, tenant = range append(testworld.HostSpellings(), "acme", "globex-1") {
		requests = nil
		code := w.get("/connectors/weather/a").status
		harmless := tenant != "" && strings.Trim(tenant, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && tenant[0] != '-' && !strings.HasPrefix(tenant, "xn--")
		switch {
		case harmless && (code != http.StatusOK || len(requests) != 1 || requests[0] != "https://"+tenant+".example.test/v1/a"):
			t.Errorf("tenant %q: %d, requests %q", tenant, code, requests)
		case !harmless && (code < 400 || requests != nil):
			t.Errorf("tenant %q: %d, requests %q", tenant, code, requests)
		}
	}
	if got := w.connector(gateway.Definition{
		Name: "Tenants", URL: "https://{{ tenant_id }}.example.test:8443/v1/{{ user.id }}", Hosts: []string{"*.example.test:8443"}, Auth: []host.Auth{{Type: "none"}},
	}).BaseURL().String(); got != "https://*.example.test:8443/v1/" { // for logs, metrics and the console
		t.Errorf("the URL for people is %s", got)
	}
}

// A header reaches the tenant's host as well as the credential (threats.md 482).
func TestTenantHostHeader(t *testing.T) {
	w := newWorld(t)
	d := gateway.Definition{
		Name: "Tenants", URL: "https://{{ tenant_id }}.example.test", Hosts: []string{"*.example.test"}, Auth: []host.Auth{{Type: "none"}},
		Headers: []gateway.Parameter{{Name: "X-Key", Value: "{{ get_secret('key') }}"}},
	}
	_, err := gateway.NewConnector(t.Context(), w.host, d)
	testworld.WantError(t, "a shared secret", err, "headers[0].value: names a secret that is the same for all tenants")
	d.HostsShareSecrets = true
	w.connector(d)
	d.Hosts = nil
	_, err = gateway.NewConnector(t.Context(), w.host, d)
	testworld.WantError(t, "no list", err, "url: has a template in its scheme or host")
}
