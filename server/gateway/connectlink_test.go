package gateway_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

const linkOrigin = "https://gw.example.com"

// linked changes a world to one with links.
func linked(o *options, d *gateway.Definition) {
	acme(o, d)
	o.Consent.Links, o.Consent.URL, o.Consent.ReturnTo, o.Origins = true, linkOrigin, app+"/settings", []string{"https://other.example.com"}
}

// link returns the path of a link for ann.
func (w *consentWorld) link(back string) string {
	w.t.Helper()
	to := testworld.Must(w.gateway.ConnectLink(w.t.Context(), gateway.LinkRequest{User: host.User{ID: "ann", Email: "ann@example.com"}, Connectors: []string{"crm"}, Back: back}))(w.t)
	path, ok := strings.CutPrefix(to, linkOrigin)
	if !ok || !strings.HasPrefix(path, "/connect/link/") {
		w.t.Fatalf("the link is %s", to)
	}
	return path
}

// A user without a session connects with a link, once, in one browser. Looking at it begins nothing.
// threats.md 578
func TestConnectLink(t *testing.T) {
	w := newConsentWorld(t, linked)
	path := w.link("https://other.example.com/done?x=1")
	for range 2 { // a program that looks at links, and the user
		got := w.browser("").arrive(path)
		if got.status != http.StatusOK || strings.Count(got.body, "<bdi>ann@example.com</bdi>") < 3 || !strings.Contains(got.body, `href="`+path+`/crm"`) || !strings.Contains(got.body, "Acme") {
			t.Fatalf("the page is %+v", got)
		}
	}
	for name, got := range map[string]answer{
		"a link of another site": w.browser("").arrive(path + "/crm"), "an address": w.browser("").open(path + "/crm"), "another connector": w.browser("").press(http.MethodGet, path+"/weather"),
	} {
		if got.status != http.StatusOK || w.consents.number > 0 {
			t.Errorf("%s began a consent: %+v", name, got)
		}
	}
	b := w.browser("")
	got := b.press(http.MethodGet, path+"/crm")
	if got.status != http.StatusFound || !strings.HasPrefix(got.header.Get("Location"), loginServer) || w.consents.begun["state-1"].user != "ann" {
		t.Fatalf("the button got %+v", got)
	}
	for _, second := range []answer{b.arrive(path), b.press(http.MethodGet, path+"/crm"), w.browser("").arrive(path)} {
		if second.status != http.StatusNotFound || !strings.Contains(second.body, "not valid any more") {
			t.Errorf("the second time, the browser got %+v", second)
		}
	}
	if got := w.browser("").send(http.MethodGet, "/connect/callback/crm?state=state-1&code=x"); got.kind != "consent-other" {
		t.Errorf("another browser got %+v", got)
	}
	if got := b.arrive("/connect/callback/crm?state=state-1&code=c0de"); got.header.Get("Location") != "https://other.example.com/done?x=1" || w.consents.connected() != "ann c0de" {
		t.Errorf("the browser got %+v, and %q is connected", got, w.consents.connected())
	}
	b.cookies["session"] = "ann"
	if got := b.arrive(b.begin("2")); got.header.Get("Location") != app+"/settings" {
		t.Errorf("the next consent leads to %s", got.header.Get("Location"))
	}
}

// threats.md 578: a link does not serve somebody who is signed in as another, and shows nothing to programs.
func TestConnectLinkOfOther(t *testing.T) {
	w := newConsentWorld(t, linked)
	path := w.link("")
	for _, path := range []string{path, path + "/crm"} {
		if got := w.browser("bea").press(http.MethodGet, path); got.status != http.StatusForbidden || !strings.Contains(got.body, "for somebody else") || strings.Contains(got.body, "ann@") {
			t.Errorf("another user got %+v", got)
		}
		if got := w.browser("ann").send(http.MethodGet, path); got.status != http.StatusNotFound || w.consents.number > 0 {
			t.Errorf("a program got %+v", got)
		}
	}
	if got := w.browser("ann").press(http.MethodGet, path+"/crm"); got.status != http.StatusFound {
		t.Errorf("the user got %+v", got)
	}
	for _, path := range []string{"/connect/link/" + strings.Repeat("A", 26), "/connect/link/x", "/connect/link/"} {
		if got := w.browser("").open(path); got.status != http.StatusNotFound {
			t.Errorf("%s got %+v", path, got)
		}
	}
	tenant := testworld.Must(w.gateway.ConnectLink(t.Context(), gateway.LinkRequest{User: host.User{ID: "ann", TenantID: "2"}, Connectors: []string{"crm"}}))(t)
	if got := w.browser("ann").open(strings.TrimPrefix(tenant, linkOrigin)); got.status != http.StatusForbidden {
		t.Errorf("a user of another tenant got %+v", got)
	}
	w.consents.fail(errors.New("the store is down"))
	if got := w.browser("").open(w.linkPath()); got.status != http.StatusServiceUnavailable {
		t.Errorf("without the store, the browser got %+v", got)
	}
}

func (*consentWorld) linkPath() string { return "/connect/link/" + strings.Repeat("A", 26) }

// threats.md 579: a link is made for who may have one, and leads back to known origins only, whatever a cookie says.
func TestRefusedConnectLinks(t *testing.T) {
	ann := host.User{ID: "ann"}
	for name, c := range map[string]struct {
		change  change
		request gateway.LinkRequest
	}{
		"no links":             {acme, gateway.LinkRequest{User: ann, Connectors: []string{"crm"}}},
		"no user":              {linked, gateway.LinkRequest{User: host.User{Email: "ann@example.com"}, Connectors: []string{"crm"}}},
		"no connector":         {linked, gateway.LinkRequest{User: ann}},
		"no consent":           {linked, gateway.LinkRequest{User: ann, Connectors: []string{"crm", "weather"}}},
		"unknown":              {linked, gateway.LinkRequest{User: ann, Connectors: []string{"nope"}}},
		"back to another site": {linked, gateway.LinkRequest{User: ann, Connectors: []string{"crm"}, Back: "https://evil.example/"}},
		"a script":             {linked, gateway.LinkRequest{User: ann, Connectors: []string{"crm"}, Back: "javascript:alert(1)"}},
		"a path":               {linked, gateway.LinkRequest{User: ann, Connectors: []string{"crm"}, Back: "//evil.example"}},
		"a name before it":     {linked, gateway.LinkRequest{User: ann, Connectors: []string{"crm"}, Back: "https://app.example.com@evil.example/"}},
	} {
		if to, err := newConsentWorld(t, c.change).gateway.ConnectLink(t.Context(), c.request); err == nil || to != "" && !strings.HasSuffix(to, "/") && strings.Contains(to, "evil") {
			t.Errorf("%s: there is the link %s", name, to)
		}
	}
	w := newConsentWorld(t, linked)
	for _, back := range []string{"https%3A%2F%2Fevil.example", "%2F%2Fevil.example", "javascript%3Aalert(1)", "%zz"} {
		b := w.browser("ann")
		path := b.begin("c0de")
		b.cookies["__Host-keywright-back"] = back
		if got := b.arrive(path); got.header.Get("Location") != app+"/settings" {
			t.Errorf("with the cookie %s, the browser got %+v", back, got)
		}
	}
	if got := newConsentWorld(t).browser("").open("/connect/link/" + strings.Repeat("A", 26)); got.status != http.StatusNotFound {
		t.Errorf("without links, the browser got %+v", got)
	}
}
