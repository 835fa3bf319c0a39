package host_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// tenantConnector is a connector whose tenants have hosts of their own, for the API and for the token endpoint.
func tenantConnector(secret string) host.ConnectorConfig {
	c := oauth(secret)
	c["token_url"] = "https://{{ get_variable('zendesk', 'tenant') }}.zendesk.test/token"
	return host.ConnectorConfig{Origins: []string{"https://*.zendesk.test"}, Hosts: []string{"*.zendesk.test"}, Auth: []host.Auth{{Type: "oauth_client_credentials", Config: c}}}
}

// tenantWorld is a world with two tenants, whose token endpoints issue different tokens, and records the hosts that are requests.
func tenantWorld(t *testing.T, change ...func(*host.Config)) (w *world, hosts func() []string) {
	t.Helper()
	var requests []string
	network := answer(func(r *http.Request) (*http.Response, error) {
		requests = append(requests, r.URL.Host+" "+r.Header.Get("Authorization"))
		if r.URL.Path == "/token" {
			return token("of-"+r.URL.Host, 3600)(r)
		}
		return status(http.StatusOK)(r)
	})
	w = newWorld(t, append([]func(*host.Config){func(c *host.Config) {
		c.Base = network
		c.Variables = map[string]string{"tenants/acme/zendesk": "acme1", "tenants/globex/zendesk": "globex2"}
	}}, change...)...)
	w.canary("tenants/acme/own")
	w.canary("tenants/globex/own")
	w.canary("tenants/nobody/own")
	return w, func() []string {
		all := requests
		requests = nil
		return all
	}
}

func ofTenant(id string) context.Context {
	return host.WithUser(context.Background(), host.User{ID: "u", TenantID: id})
}

func sendTo(ctx context.Context, c *host.Connector, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := c.Transport(nil).RoundTrip(r)
	if err == nil {
		err = response.Body.Close()
	}
	return err
}

// Each tenant's token is of its own endpoint, and goes to its own host only (threats.md 480).
func TestTenantHosts_threats_480(t *testing.T) {
	w, hosts := tenantWorld(t)
	c := w.open(tenantConnector("{{ get_secret('own', 'tenant') }}"))
	for range 2 {
		for tenant, own := range map[string]string{"acme": "acme1.zendesk.test", "globex": "globex2.zendesk.test"} {
			check(t, sendTo(ofTenant(tenant), c, "https://"+own+"/x"))
			for _, one := range hosts() {
				if name, credential, _ := strings.Cut(one, " "); name != own || credential != "" && credential != "Bearer of-"+own {
					t.Errorf("tenant %s: the request is %s", tenant, one)
				}
			}
		}
	}
	for _, url := range []string{
		"https://acme1.zendesk.test:8443/x", "http://acme1.zendesk.test/x", "https://a.acme1.zendesk.test/x", "https://acme1.zendesk.test.evil/x",
		"https://zendesk.test/x", "https://-a.zendesk.test/x", "https://xn--a.zendesk.test/x", "https://.zendesk.test/x",
		"https://*.zendesk.test/x",
	} {
		testworld.WantError(t, url, sendTo(ofTenant("acme"), c, url), "is not an origin of this connector")
	}
	for tenant, wrong := range map[string]string{"": "the request has no tenant", "nobody": "get_variable('zendesk', 'tenant'): there is no such variable", "../acme": "cannot be part of"} {
		err := sendTo(ofTenant(tenant), c, "https://acme1.zendesk.test/x")
		if testworld.WantError(t, tenant, err, wrong); !errors.As(err, new(*host.Error)) {
			t.Errorf("tenant %q: %v is no Error", tenant, err)
		}
	}
	if requests := hosts(); requests != nil {
		t.Errorf("%q were requests", requests)
	}
	if got := w.calls[0].Endpoint; got != "https://*.zendesk.test" { // metrics have no tenant's host
		t.Errorf("the endpoint is %s", got)
	}
}

// A redirect to the host of another tenant takes no credential along, although the list has it.
func TestTenantHostRedirects_threats_480(t *testing.T) {
	for _, follow := range []bool{false, true} {
		var requests []string
		w := newWorld(t, func(c *host.Config) {
			c.Base = answer(func(r *http.Request) (*http.Response, error) {
				requests = append(requests, r.URL.Host+r.URL.Path+" "+r.Header.Get("X-Key"))
				if to := r.URL.Query().Get("to"); to != "" {
					return respond(http.StatusFound, "", "Location", to)(r)
				}
				return status(http.StatusOK)(r)
			})
		})
		secret := w.canary("tenants/acme/own")
		client := &http.Client{Transport: w.open(host.ConnectorConfig{
			Origins: []string{"https://*.zendesk.test"}, Hosts: []string{"*.zendesk.test"}, CrossOriginRedirects: follow,
			Auth: []host.Auth{{Type: "api_key", Config: key("{{ get_secret('own', 'tenant') }}")}},
		}).Transport(nil)}
		for to, want := range map[string][]string{
			"/b": {"acme.zendesk.test/b " + secret}, "https://acme.zendesk.test/b": {"acme.zendesk.test/b " + secret},
			"https://evil.zendesk.test/b": {"evil.zendesk.test/b "}, "https://acme.zendesk.test:8443/b": {"acme.zendesk.test:8443/b "},
		} {
			requests = nil
			r := testworld.Must(http.NewRequestWithContext(ofTenant("acme"), http.MethodGet, "https://acme.zendesk.test/a?to="+to, nil))(t)
			response, err := client.Do(r)
			if err == nil {
				check(t, response.Body.Close())
			}
			if !follow && strings.HasSuffix(want[0], " ") {
				want = nil
			}
			if got := requests[1:]; !slices.Equal(got, want) || (err == nil) != (want != nil) {
				t.Errorf("followed %t to %s: the requests are %q, want %q; error %v", follow, to, got, want, err)
			}
		}
	}
}

// The host of a tenant sets the time of that tenant's signatures only (threats.md 99).
func TestTenantHostClocks_threats_99(t *testing.T) {
	about := challenged
	about.Fields = []abi.Field{{Name: "url", Kind: abi.KindURL}}
	offset := int64(0)
	w := newWorld(t, withoutBuiltIns, withGuest(&guest{about: about, authenticate: func(env contract.Env) (string, error) {
		offset = env.ClockOffset()
		return header("X-Offset", "x"), nil
	}}))
	c := w.open(host.ConnectorConfig{
		Origins: []string{"https://*.zendesk.test"}, Hosts: []string{"*.zendesk.test"}, Auth: host.Auths{{Type: "custom", Config: config{"url": tokenURL}}},
	})
	w.api.Answer(respond(http.StatusForbidden, "", "Date", start.Add(time.Hour).UTC().Format(http.TimeFormat)))
	check(t, sendTo(ofTenant("globex"), c, "https://globex.zendesk.test/x"))
	for tenant, want := range map[string]int64{"globex": 3600, "acme": 0} {
		w.api.Answer(status(http.StatusOK))
		if check(t, sendTo(ofTenant(tenant), c, "https://"+tenant+".zendesk.test/x")); offset != want {
			t.Errorf("the offset of tenant %s is %d, want %d", tenant, offset, want)
		}
	}
}

// No value of a tenant leads out of the listed hosts, in the API's URL and in that of the token endpoint (threats.md 481).
func TestTenantHostSpellings_threats_481(t *testing.T) {
	for _, spelling := range testworld.HostSpellings() {
		w, hosts := tenantWorld(t, func(c *host.Config) { c.Variables = map[string]string{"tenants/acme/zendesk": spelling} })
		c := tenantConnector("{{ get_secret('own', 'tenant') }}")
		err := sendTo(ofTenant("acme"), w.open(c), "https://"+spelling+".zendesk.test/x")
		c.Name, c.Origins = "literal", []string{"https://api.zendesk.test"}
		err = cmp.Or(err, sendTo(ofTenant("acme"), w.open(c), "https://api.zendesk.test/x"))
		harmless := spelling != "" && strings.Trim(spelling, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
		if (err == nil) != harmless {
			t.Errorf("the spelling %q: error %v", spelling, err)
		}
		for _, one := range hosts() {
			if name, _, _ := strings.Cut(one, " "); name != "api.zendesk.test" && name != spelling+".zendesk.test" || !harmless {
				t.Errorf("%q: %s was requests", spelling, one)
			}
		}
	}
}

// A tenant with a host below a listed domain would get a secret that all tenants share (threats.md 482).
func TestTenantHostSharedSecrets_threats_482(t *testing.T) {
	w, _ := tenantWorld(t, func(c *host.Config) { c.Identities = &issuers{hosts: map[string][]string{"login": {"login.test"}}} })
	const shared, path = "{{ get_secret('s') }}", "auth.config.client_secret"
	c := tenantConnector(shared)
	w.refuseConnector(c, path, "is the same for all tenants, and the tenant chooses the host")
	c.HostsShareSecrets = true
	w.open(c)
	w.refuseConnector(tenantConnector("literal"), path, "is the same for all tenants")
	c = tenantConnector("")
	c.Auth = host.Auths{{Type: "oauth_jwt_bearer", Config: config{"token_url": tokenURL, "client_auth": "none", "assertion": "{{ identity('pod', 'login') }}"}}}
	w.refuseConnector(c, "auth.config.assertion", "is the same for all tenants") // and so is the token that is issued for it
	c = tenantConnector("{{ get_secret('own', 'tenant') }}")
	c.Origins, c.Auth = []string{apiOrigin}, append(c.Auth, host.Auth{Type: "api_key", Config: key(shared)})
	w.open(c)
	c.Auth[0].Config["url_from"] = "json:/url" // the endpoint of the tenant chooses who gets what the other one adds
	w.refuseConnector(c, "auth[1].config.value", "the tenant chooses the host")
	c = host.ConnectorConfig{
		Origins: []string{"https://*.myshopify.com"}, Hosts: []string{"*.myshopify.com"}, Auth: []host.Auth{{Type: "api_key", Config: key(shared)}},
	}
	w.refuseConnector(c, "auth.config.value", "is the same for all tenants")
	for _, open := range []func(){
		func() { c.HostsShareSecrets = true },
		func() { c.HostsShareSecrets, c.Auth[0].Config = false, key("{{ get_secret('own', 'tenant') }}") },
		func() {
			c.Origins, c.Hosts = []string{"https://*.blob.core.windows.net"}, []string{"*.blob.core.windows.net"}
		},
	} {
		open()
		w.open(c)
	}
}

func TestTenantHostProblems(t *testing.T) {
	w, _ := tenantWorld(t)
	for name, c := range map[string]struct {
		origin, tokenURL, path, message string
		hosts                           []string
	}{
		"no list":           {"https://*.x.test", "", "origins[0]", "it needs hosts", nil},
		"no list for token": {"", "https://{{ tenant_id }}.x.test/token", "auth.config.token_url", "may stand only behind the host", nil},
		"a user's host":     {"", "https://{{ user.id }}.x.test/", "auth.config.token_url", "may stand only behind the host", []string{"*.x.test"}},
		"a tenant's secret": {"", "https://{{ get_secret('s', 'tenant') }}.x.test/", "auth.config.token_url", "may stand only behind the host", []string{"*.x.test"}},
		"a part of a label": {"", "https://a-{{ tenant_id }}.x.test", "auth.config.token_url", "may stand only behind the host", []string{"*.x.test"}},
		"a port":            {"", "https://a.x.test:{{ tenant_id }}/", "auth.config.token_url", "may stand only behind the host", []string{"*.x.test"}},
		"a path in origins": {"https://*.x.test/a", "", "origins[0]", "has more than scheme, host and port", []string{"*.x.test"}},
		"another domain":    {"https://*.y.test", "", "origins[0]", "leads to no host of hosts", []string{"*.x.test"}},
		"another endpoint":  {"https://*.x.test", "https://{{ tenant_id }}.y.test/", "auth.config.token_url", "leads to no host", []string{"*.x.test"}},
		"plain http":        {"http://*.x.test", "", "origins[0]", "is plain http", []string{"*.x.test"}},
		"a registry":        {"https://*.x.test", "", "hosts", "for sale", []string{"*.co.uk", "*.x.test"}},
		"another alphabet":  {"https://*.x.test", "", "hosts", "for sale", []string{"*.公司.cn", "*.x.test"}},
		"a registry's rule": {"https://*.x.test", "", "hosts", "for sale", []string{"*.foo.ck", "*.x.test"}},
		"a top domain":      {"https://*.x.test", "", "hosts", "only one label", []string{"*.com", "*.x.test"}},
		"two stars":         {"https://*.x.test", "", "hosts", "not the name of a host", []string{"*.x.test", "*.*.x.test"}},
		"a part of a name":  {"https://*.x.test", "", "hosts", "not the name of a host", []string{"*.x.test", "a*.x.test"}},
		"a URL":             {"https://*.x.test", "", "hosts", "not the name of a host", []string{"*.x.test", "https://a.x.test"}},
		"no effect":         {"", "", "hosts", "has no effect", []string{"*.x.test"}},
	} {
		auth := oauth("{{ get_secret('own', 'tenant') }}")
		auth["token_url"] = cmp.Or(c.tokenURL, tokenURL)
		t.Run(name, func(*testing.T) {
			w.refuseConnector(host.ConnectorConfig{
				Origins: []string{cmp.Or(c.origin, apiOrigin)}, Hosts: c.hosts, Auth: []host.Auth{{Type: "oauth_client_credentials", Config: auth}},
			}, c.path, c.message)
		})
	}
}
