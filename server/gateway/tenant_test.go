package gateway_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// tenantUsers identifies users by the cookie session, tenant:user:role.
type tenantUsers struct{}

func (tenantUsers) User(r *http.Request) (host.User, error) {
	cookie, err := r.Cookie("session")
	if err != nil {
		return host.User{}, identity.ErrUnauthenticated
	}
	parts := strings.Split(cookie.Value, ":")
	return host.User{TenantID: parts[0], ID: parts[1]}, nil
}

func (tenantUsers) Claims(r *http.Request) (map[string]any, error) {
	cookie, err := r.Cookie("session")
	if err != nil {
		return nil, identity.ErrUnauthenticated
	}
	return map[string]any{"role": strings.Split(cookie.Value, ":")[2]}, nil
}

// fakeTenants notes what administrators do.
type fakeTenants struct {
	did     []string
	problem string
}

func (f *fakeTenants) Tenant(_ context.Context, admin host.User, _ string) (gateway.TenantView, error) {
	return gateway.TenantView{
		Connections: []gateway.TenantConnection{{ID: "c1", Connector: "CRM", User: "<b>bob", Condition: host.ConditionRefused}},
		Texts:       []gateway.TenantText{{Kind: "secret", Name: "crm-key", Connectors: []string{"CRM"}, Fingerprint: "3f9a1c", Author: admin.TenantID}},
	}, nil
}

func (f *fakeTenants) End(_ context.Context, admin host.User, id string) error {
	f.did = append(f.did, admin.TenantID+" ends "+id)
	return nil
}

func (f *fakeTenants) Give(_ context.Context, admin host.User, kind, name, text string) (string, error) {
	f.did = append(f.did, admin.TenantID+" gives "+kind+" "+name+" "+text)
	return f.problem, nil
}

// The administrator of a tenant sees and changes what is of that tenant, and nobody else does (threats.md 590).
func TestTenantAdministrators(t *testing.T) {
	tenants := &fakeTenants{}
	w := newConsentWorld(t, func(o *options, _ *gateway.Definition) {
		o.Users, o.Tenants, o.Consent.TenantAdmin = tenantUsers{}, tenants, "role=admin"
	})
	admin, user, stranger := w.browser("acme:ann:admin"), w.browser("acme:bob:user"), w.browser("")
	page := admin.open("/connect/tenant")
	for _, want := range []string{"acme: connections", "crm-key", "3f9a1c", "&lt;b&gt;bob", "Test and save", "No longer connected"} {
		if page.status != http.StatusOK || !strings.Contains(page.body, want) {
			t.Errorf("the page has no %q: %d\n%s", want, page.status, page.body)
		}
	}
	if body := admin.open("/connect").body; !strings.Contains(body, `href="/connect/tenant"`) {
		t.Error("the list of an administrator has no link")
	}
	if body := user.open("/connect").body; strings.Contains(body, `href="/connect/tenant"`) {
		t.Error("the list of another user has the link")
	}
	post := func(b *browser, form url.Values, site string) int {
		return b.form("/connect/tenant", form, site).status
	}
	give := url.Values{"do": {"give"}, "kind": {"secret"}, "name": {"crm-key"}, "text": {" k1\n"}}
	for what, got := range map[string][2]int{
		"a user":                  {user.open("/connect/tenant").status, http.StatusForbidden},
		"a user with a form":      {post(user, give, "same-origin"), http.StatusForbidden},
		"nobody":                  {stranger.open("/connect/tenant").status, http.StatusUnauthorized},
		"a page of another site":  {post(admin, give, "cross-site"), http.StatusForbidden},
		"the administrator gives": {post(admin, give, "same-origin"), http.StatusSeeOther},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", what, got[0], got[1])
		}
	}
	_ = post(admin, url.Values{"do": {"end"}, "id": {"c1"}}, "same-origin")
	_ = post(admin, url.Values{"do": {"remove"}, "kind": {"secret"}, "name": {"crm-key"}, "text": {""}}, "same-origin")
	if got, want := strings.Join(tenants.did, "; "), "acme gives secret crm-key k1; acme ends c1; acme gives secret crm-key "; got != want {
		t.Errorf("what was done: %s, want %s", got, want)
	}
	tenants.problem = "the API answers 401 <i>"
	if got := admin.form("/connect/tenant", give, "same-origin"); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, "the API answers 401 &lt;i&gt;") || strings.Contains(got.body, "k1") {
		t.Errorf("a key that does not work: %d %s", got.status, got.body)
	}
}

// form sends a form of a page.
func (b *browser) form(path string, form url.Values, site string) answer {
	b.w.t.Helper()
	r := b.w.request(http.MethodPost, path, form.Encode(), "Accept", forPages, "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Content-Type", "application/x-www-form-urlencoded")
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	return b.w.do(r)
}

// Without the claim in the configuration there is no such page, whatever a session says.
func TestNoTenantAdministrators(t *testing.T) {
	w := newConsentWorld(t, func(o *options, _ *gateway.Definition) { o.Users, o.Tenants = tenantUsers{}, &fakeTenants{} })
	if got := w.browser("acme:ann:admin").open("/connect/tenant").status; got != http.StatusNotFound {
		t.Errorf("the page is answered %d", got)
	}
}
