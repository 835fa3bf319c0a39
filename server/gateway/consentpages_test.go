package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// accounts are the accounts of users, in memory.
type accounts struct {
	mu  sync.Mutex
	all map[string]gateway.Account
	err error
}

func (a *accounts) Connected(_ context.Context, user host.User, connector string, account gateway.Account) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[user.ID+" "+connector] = account
	return a.err
}

func (a *accounts) Disconnected(_ context.Context, user host.User, connector string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, user.ID+" "+connector)
	return a.err
}

func (a *accounts) Account(_ context.Context, user host.User, connector string) (gateway.Account, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	account, ok := a.all[user.ID+" "+connector]
	return account, ok, a.err
}

const app = "https://app.example.com"

// acme changes a world to one whose pages say who asks.
func acme(o *options, _ *gateway.Definition) {
	o.Consent = gateway.Consent{
		Name: "Acme", SignIn: app + "/login?then={back}", SignOut: app + "/logout",
		Scopes: map[string]string{"orders.read": "read orders", "offline_access": "keep access"},
	}
}

// newAccountWorld returns a world of acme with the connector orders, whose API names the account.
func newAccountWorld(t *testing.T, name string, changes ...change) (*consentWorld, *accounts) {
	t.Helper()
	store := &accounts{all: map[string]gateway.Account{}}
	var setup gateway.Setup
	w := newConsentWorld(t, append([]change{acme, func(o *options, _ *gateway.Definition) { o.Connections = store }}, append(changes, func(o *options, _ *gateway.Definition) { setup = o.Setup })...)...)
	orders := w.connector(gateway.Definition{
		Name: "Orders", Permalink: "crm", URL: w.api.URL, Methods: []string{"POST"}, Auth: []host.Auth{{Type: "api_key", Config: map[string]any{"key": "X-Key", "value": "{{ get_secret('key') }}", "in": "header"}}},
		Response: gateway.Response{Filter: "false"}, // not for this
		Consent:  gateway.ConnectorConsent{Account: &gateway.AccountName{Path: "/me", Name: name}},
	})
	orders.FakeConsents(w.consents)
	setup.Connectors = []*gateway.Connector{orders}
	w.gateway.Use(setup)
	return w, store
}

// After a consent, the user sees which account is connected and since when. What cannot be found out keeps nobody from connecting.
func TestAccountOfAConsent(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for name, c := range map[string]struct {
		expression, body string
		status           int
		want             string
	}{
		"a member":        {"response.body.email", `{"email": "ada@orders.test"}`, 200, "ada@orders.test"},
		"a template":      {"{{ response.body.name }} ({{ user.id }})", `{"name": "Ada"}`, 200, "Ada (ann)"},
		"HTML":            {"response.body.email", `{"email": "<img src=x onerror=alert(1)>"}`, 200, "<img src=x onerror=alert(1)>"},
		"other direction": {"response.body.email", "{\"email\": \"ada\u202e\u2066tset\\n@\\u0000x\"}", 200, "adatset@x"},
		"long":            {"response.body.email", `{"email": "` + long + `"}`, 200, long[:200]},
		"too large":       {"response.body.email", `{"email": "ada", "x": "` + strings.Repeat("x", 2<<20) + `"}`, 200, ""},
		"missing":         {"response.body.email + ''", `{}`, 200, ""},
		"no JSON":         {"response.body.email", `<html>`, 200, ""},
		"refused":         {"response.body.email", `{"email": "ada@orders.test"}`, 403, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, store := newAccountWorld(t, c.expression)
			w.answer = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				rw.WriteHeader(c.status)
				_, _ = fmt.Fprint(rw, c.body)
			}
			ann := w.browser("ann")
			if got := ann.finish(ann.begin("c0de")); !strings.Contains(got.body, "is connected") {
				t.Fatalf("the page is %s", got.body)
			}
			if r := w.last(); r.Method != http.MethodGet || r.URL.Path != "/me" || r.Header.Get("X-Key") != secret {
				t.Errorf("the API got %+v", r)
			}
			if got := store.all["ann crm"]; got.Label != c.want || !got.Since.Equal(time.Unix(1_800_000_000, 0)) {
				t.Errorf("the account is %.300q", got)
			}
			if page := ann.open("/connect").body; strings.Contains(page, "<img src=x") || !strings.Contains(page, "since today") {
				t.Errorf("the list is %s", page)
			}
			if last := w.events[0]; last.Use != gateway.UseConsent || w.events[1].Use != gateway.UseRequest || w.events[1].User != "ann" || w.events[2].Use != gateway.UseCallback {
				t.Errorf("the events are %+v", w.events)
			}
			ann.send(http.MethodDelete, "/connect/crm")
			if len(store.all) > 0 {
				t.Errorf("after the end, there is %v", store.all)
			}
		})
	}
	w, store := newAccountWorld(t, "response.body.email")
	store.err = errors.New("the store is down")
	ann := w.browser("ann")
	delete(ann.cookies, "session")
	ann.cookies["session"] = "ann"
	if got := ann.finish(ann.begin("c0de")); !strings.Contains(got.body, "is connected") || ann.open("/connect").status != http.StatusOK {
		t.Errorf("without the store, the page is %s", got.body)
	}
}

// What the definition says of the account is checked at load.
func TestWrongAccount(t *testing.T) {
	w := newWorld(t)
	for want, a := range map[string]gateway.AccountName{
		"consent.account.path": {Path: "me", Name: "response.body"}, "consent.account.name": {Path: "/me", Name: "response.body."},
	} {
		if _, got := w.problems(gateway.Definition{Name: "x", URL: w.api.URL, Consent: gateway.ConnectorConsent{Account: &a}}); got != want {
			t.Errorf("the problems are at %q, want %q", got, want)
		}
	}
}

// The question says who asks for what, where users sign in, and that this can be ended.
func TestQuestionBeforeAConsent(t *testing.T) {
	w := newConsentWorld(t, acme)
	question := w.browser("ann").open("/connect/crm")
	for _, want := range []string{
		"<bdi>Acme</bdi> asks to use your <bdi>CRM &lt;b&gt;</bdi> account", "never sees your password", "You can disconnect at any time", `<a class="button main" href="/connect/crm">Continue</a>`, `<a class="button" href="/connect">Not now</a>`,
	} {
		if !strings.Contains(question.body, want) {
			t.Errorf("the page has no %q: %s", want, question.body)
		}
	}
	if w.consents.number > 0 {
		t.Error("a consent has begun")
	}
}

// A browser without a session is sent to sign in, with the way back to the gateway's own origin, and not again and again. Programs get 401.
// threats.md 571
func TestSignInBeforeAConsent(t *testing.T) {
	w := newConsentWorld(t, acme)
	for path, back := range map[string]string{
		"/connect": "/connect", "/connect?back=https://evil.example&then=https://evil.example": "/connect", "/connect/crm?x=//evil.example": "/connect/crm", "/connect/crm/disconnect": "/connect/crm/disconnect",
	} {
		b := w.browser("")
		got := b.open(path)
		if want := app + "/login?then=" + url.QueryEscape(w.server.URL+back); got.status != http.StatusSeeOther || got.header.Get("Location") != want {
			t.Errorf("%s got %+v, want %s", path, got, want)
		}
		if got := b.open(path); got.status != http.StatusUnauthorized || !strings.Contains(got.body, "Please sign in") || !strings.Contains(got.body, `href="`+back+`">I have signed in`) {
			t.Errorf("%s got %+v the second time", path, got)
		}
	}
	if got := w.browser("").send(http.MethodGet, "/connect", "Accept", "application/json"); got.status != http.StatusUnauthorized || got.kind != "unauthenticated" {
		t.Errorf("a program got %+v", got)
	}
	if got := w.browser("").arrive("/connect/crm"); got.status != http.StatusOK || !strings.Contains(got.body, "asks to use") { // its session may be SameSite=Strict
		t.Errorf("from another site, the browser got %+v", got)
	}
	plain := newConsentWorld(t, func(o *options, _ *gateway.Definition) { o.Consent.ReturnTo = app + "/settings" })
	if got := plain.browser("").open("/connect"); got.status != http.StatusUnauthorized || !strings.Contains(got.body, "Sign in at <bdi>app.example.com</bdi>") {
		t.Errorf("without sign_in, the page is %+v", got)
	}
}

// A user who refuses at the server reads that nothing has changed. It is no failure, and the page is right for one who is connected already.
func TestRefusalByTheUser(t *testing.T) {
	w := newConsentWorld(t, acme)
	ann := w.browser("ann")
	refuse := func() answer { return ann.finish(strings.Replace(ann.begin("x"), "code=x", "error=access_denied", 1)) }
	if got := refuse(); got.status != http.StatusOK || !strings.Contains(got.body, "<bdi>CRM &lt;b&gt;</bdi> is not connected</h1>") || !strings.Contains(got.body, "Nothing has changed.") {
		t.Errorf("the page is %+v", got)
	}
	ann.finish(ann.begin("c0de"))
	if got := refuse(); !strings.Contains(got.body, "<h1>Nothing has changed</h1>") || !strings.Contains(got.body, "stays connected") || w.consents.connected() != "ann c0de" {
		t.Errorf("of another account, the page is %+v", got)
	}
	for _, e := range w.events {
		if e.Problem != "" || e.Status >= 400 {
			t.Errorf("the event is %+v", e)
		}
	}
	if strings.Contains(w.log.String(), "request failed") {
		t.Errorf("the log has %s", w.log.String())
	}
}

// The page after a consent says what is so: also after F5, in another tab, in another browser, with a cookie of another site, and later.
// threats.md 572
func TestPageAfterAConsent(t *testing.T) {
	w := newConsentWorld(t, acme)
	ann := w.browser("ann")
	ann.finish(ann.begin("c0de"))
	for range 2 {
		if got := ann.open("/connect/crm/done"); !strings.Contains(got.body, "is connected") {
			t.Errorf("F5 shows %s", got.body)
		}
	}
	for name, c := range map[string]struct{ cookie, shows string }{
		"later":             {"", "is connected"},
		"another tab":       {"weather.denied." + strings.Repeat("0", 32), "is connected"},
		"two cookies":       {"crm.denied." + strings.Repeat("0", 32) + "; keywright-done=x", "is connected"},
		"no words of ours":  {"crm.list." + strings.Repeat("0", 32), "Something went wrong"},
		"markup":            {"crm.<b>." + strings.Repeat("0", 32), "is connected"},
		"of what is no end": {"crm.disconnected." + strings.Repeat("0", 32), ""},
	} {
		got := w.get("/connect/crm/done", "Cookie", "session=ann; keywright-done="+c.cookie, "Accept", forPages)
		if (c.shows == "") != (got.header.Get("Location") == "/connect") || !strings.Contains(got.body, c.shows) {
			t.Errorf("%s: the browser got %+v", name, got)
		}
	}
	for name, session := range map[string]string{"another user": "bea", "no session": ""} {
		if got := w.browser(session).open("/connect/crm/done"); got.header.Get("Location") != "/connect" {
			t.Errorf("%s got %+v", name, got)
		}
	}
	delete(ann.cookies, "session") // as after another site, with SameSite=Strict
	ann.cookies["keywright-done"] = "crm.connected." + strings.Repeat("0", 32)
	if got := ann.open("/connect/crm/done"); !strings.Contains(got.body, "is connected") {
		t.Errorf("without the session, the page is %s", got.body)
	}
}

// A failed consent shows its words and the id of the request that failed. For operators, it has failed with the status of the problem.
func TestPageAfterAFailedConsent(t *testing.T) {
	w := newConsentWorld(t, acme)
	ann := w.browser("ann")
	back := ann.begin("c0de")
	w.consents.fail(&host.ConsentError{Reason: host.ConsentFailed, Text: "failed"})
	got := ann.finish(back)
	failed := w.events[len(w.events)-2]
	if got.status != http.StatusOK || !strings.Contains(got.body, "could not be reached") || !strings.Contains(got.body, "Request <bdi>"+failed.ID) {
		t.Errorf("the page is %+v", got)
	}
	if failed.Problem != "consent-failed" || failed.Status != http.StatusBadGateway || !strings.Contains(w.log.String(), failed.ID) {
		t.Errorf("the event is %+v", failed)
	}
}

// A person is asked before a connection ends, and learns if the server may still accept it.
func TestQuestionBeforeTheEnd(t *testing.T) {
	w := newConsentWorld(t, acme)
	ann := w.browser("ann")
	ann.finish(ann.begin("c0de"))
	question := ann.open("/connect/crm/disconnect")
	if !strings.Contains(question.body, "<bdi>Acme</bdi> cannot use your <bdi>CRM &lt;b&gt;</bdi> account from then on.") || !strings.Contains(question.body, `<form method="post" action="/connect/crm/disconnect">`) || w.consents.connected() == "" {
		t.Errorf("the question is %s", question.body)
	}
	w.consents.fail(host.ErrNotRevoked)
	if got := ann.press(http.MethodPost, "/connect/crm/disconnect"); got.status != http.StatusSeeOther {
		t.Errorf("the browser got %+v", got)
	}
	w.consents.fail(nil)
	if got := ann.press(http.MethodGet, "/connect/crm/done"); !strings.Contains(got.body, "<h1>Disconnected</h1>") || !strings.Contains(got.body, "Remove it there, too.") {
		t.Errorf("the page is %s", got.body)
	}
}

// Each user reads the pages in the own language. Words of scopes come from the language, from the file, or are the scopes themselves.
func TestLanguagesOfPages(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"ar.json": `{"dir": "rtl", "list.title": "اتصالاتك"}`, "de.json": `{"scope.orders.read": "Bestellungen lesen"}`} {
		testworld.Check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	w := newConsentWorld(t, acme, func(o *options, _ *gateway.Definition) { o.Consent.Languages = dir })
	for accept, want := range map[string]string{
		"": `<html lang="en" dir="ltr">`, "de-AT,de;q=0.9,en;q=0.5": `<html lang="de" dir="ltr">`, "fr": `<html lang="en" dir="ltr">`, "ar-EG": `<html lang="ar" dir="rtl">`,
		"tlh, ;;;,": `<html lang="en" dir="ltr">`, strings.Repeat("de,", 4000): `<html lang="de" dir="ltr">`,
	} {
		got := w.browser("ann").send(http.MethodGet, "/connect", "Accept", forPages, "Accept-Language", accept)
		if !strings.Contains(got.body, want) {
			t.Errorf("for %.20q the page is %s", accept, got.body)
		}
	}
	if got := w.browser("ann").send(http.MethodGet, "/connect", "Accept", forPages, "Accept-Language", "ar"); !strings.Contains(got.body, "اتصالاتك") || !strings.Contains(got.body, "Signed in as") {
		t.Errorf("what a language does not have is not in English: %s", got.body)
	}
}

// threats.md 573: a logo that could run something is refused, and one that is served runs and loads nothing.
func TestLogo(t *testing.T) {
	dir := t.TempDir()
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 8 8">%s</svg>`
	check := func(text string) []host.Problem {
		t.Helper()
		name := filepath.Join(dir, "logo")
		testworld.Check(t, os.WriteFile(name, []byte(text), 0o600))
		c := gateway.Consent{Logo: name}
		return c.Check(false)
	}
	for _, harmless := range []string{
		`<rect width="8" height="8" fill="#000"/>`, `<defs><linearGradient id="a"/></defs><style>.a{fill:url(#a)}</style><rect class="a" fill="url('#a')"/><use href="#a" xlink:href="#a"/>`, `<!-- a logo --><title>Acme on air</title>`,
	} {
		if got := check(fmt.Sprintf(svg, harmless)); got != nil {
			t.Errorf("%s is refused: %v", harmless, got)
		}
	}
	for _, hostile := range []string{
		`<script>alert(1)</script>`, `<x:script xmlns:x="http://www.w3.org/2000/svg">alert(1)</x:script>`, `<rect onload="alert(1)"/>`, "<rect\nonload = 'x'/>", `<rect/onload="x"/>`, `<image href="https://evil.example/x.png"/>`,
		`<use xlink:href='https://evil.example/#a'/>`, `<a href="javascript:alert(1)"/>`, `<a href="&#106;avascript:alert(1)"/>`, `<foreignObject/>`, `<style>@import "x";</style>`, `<style>a{fill:url(https://evil.example)}</style>`,
		`<style>a{fill:url( "https://evil.example")}</style>`, `<style>a{fill:u\72l(x)}</style>`, `<set attributeName="href" to="x"/>`, `<animate attributeName="href"/>`, `<iframe/>`, `<rect`, `<?xml-stylesheet href="x"?>`,
	} {
		if got := check(fmt.Sprintf(svg, hostile)); len(got) != 1 || got[0].Path != "logo" {
			t.Errorf("%s is taken: %v", hostile, got)
		}
	}
	for _, wrong := range []string{"", "GIF89a", "<html/>", "<!DOCTYPE svg [<!ENTITY x 'y'>]><svg/>", "\xff\xfe<\x00s\x00v\x00g\x00/\x00>\x00", `<?xml version="1.0" encoding="utf-16"?><svg/>`, "<svg/>" + strings.Repeat(" ", 64<<10)} {
		if got := check(wrong); len(got) != 1 || got[0].Path != "logo" {
			t.Errorf("%.40q is taken: %v", wrong, got)
		}
	}
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "good.svg"), fmt.Appendf(nil, svg, ""), 0o600))
	w := newConsentWorld(t, acme, func(o *options, _ *gateway.Definition) { o.Consent.Logo = filepath.Join(dir, "good.svg") })
	got := w.get("/connect/logo")
	if h := got.header; got.status != http.StatusOK || h.Get("Content-Type") != "image/svg+xml" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Security-Policy") != "default-src 'none'; style-src 'unsafe-inline'; sandbox" {
		t.Errorf("the logo is %+v", got)
	}
	if page := w.browser("ann").open("/connect").body; !strings.Contains(page, `<img src="/connect/logo" alt="Acme">`) {
		t.Errorf("the page is %s", page)
	}
	if got := newConsentWorld(t).get("/connect/logo"); got.status != http.StatusNotFound {
		t.Errorf("without a logo, it is %+v", got)
	}
}

// Names that others choose are texts in the page, whatever is in them.
// threats.md 574
func TestHostileNames(t *testing.T) {
	const hostile = "<script>alert(1)</script>\u202eevil\x00"
	w := newConsentWorld(t, acme, func(o *options, _ *gateway.Definition) {
		o.Consent.Name = hostile
		o.Users = users(func(*http.Request) (host.User, error) {
			return host.User{ID: "1", Email: hostile + strings.Repeat("x", 10_000)}, nil
		})
	})
	for _, path := range []string{"/connect", "/connect/crm", "/connect/crm/disconnect", "/connect/nope"} {
		got := w.browser("1").open(path)
		if strings.Contains(got.body, "<script") || len(got.body) > 20_000 {
			t.Errorf("%s: the page is %.2000s", path, got.body)
		}
	}
	list := w.browser("1").open("/connect").body
	if _, user, _ := strings.Cut(list, "Signed in"); user == "" || strings.Contains(user[:400], "\u202e") {
		t.Errorf("the user is %q", user[:400])
	}
}

// The element takes data as text, and asks no more than the list. Pages of other origins may load it.
// threats.md 577
func TestElement(t *testing.T) {
	w := newConsentWorld(t)
	got := w.get("/connect/element.js", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script")
	if h := got.header; got.status != http.StatusOK || h.Get("Content-Type") != "text/javascript; charset=utf-8" || h.Get("Cross-Origin-Resource-Policy") != "cross-origin" || len(got.body) > 4<<10 {
		t.Errorf("the element is %+v", got)
	}
	for _, never := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "postMessage", "iframe", "eval"} {
		if strings.Contains(got.body, never) {
			t.Errorf("the element uses %s", never)
		}
	}
}

// The configuration of the pages is checked at load.
func TestCheckOfPages(t *testing.T) {
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "fr.json"), []byte(`{"list.title": 1}`), 0o600))
	testworld.Check(t, os.MkdirAll(filepath.Join(dir, "none"), 0o700))
	testworld.Check(t, os.MkdirAll(filepath.Join(dir, "good"), 0o700))
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "good", "fr.json"), []byte(`{"list.title": "Vos connexions"}`), 0o600))
	for name, c := range map[string]struct {
		consent gateway.Consent
		want    string
	}{
		"all right":         {gateway.Consent{SignIn: app + "/login?then={back}&x=1", SignOut: app, Languages: filepath.Join(dir, "good")}, ""},
		"nobody comes back": {gateway.Consent{SignIn: app + "/login"}, "sign_in"},
		"back in the path":  {gateway.Consent{SignIn: app + "/{back}?x=1"}, "sign_in"},
		"back as the host":  {gateway.Consent{SignIn: "https://{back}"}, "sign_in"},
		"plain http":        {gateway.Consent{SignIn: "http://app.example.com/login?then={back}"}, "sign_in"},
		"a script":          {gateway.Consent{SignOut: "javascript:alert(1)"}, "sign_out"},
		"no text":           {gateway.Consent{Languages: dir}, "languages"},
		"no file":           {gateway.Consent{Languages: filepath.Join(dir, "none")}, "languages"},
		"no logo":           {gateway.Consent{Logo: filepath.Join(dir, "logo.png")}, "logo"},
	} {
		if got := pathsOf(c.consent.Check(false)); got != c.want {
			t.Errorf("%s: the problems are at %q", name, got)
		}
		if read, notices := c.consent.Read(); name == "all right" && (len(read) != 1 || len(notices) < 50 || !slices.Contains(notices, `fr.json has no "list.none": users get it in English`)) {
			t.Errorf("%v are read, and there are the notices %v", read, notices)
		}
	}
}

// Programs get the account of a connection, and words for their buttons, as JSON.
func TestListOfAccounts(t *testing.T) {
	w, store := newAccountWorld(t, "response.body.email")
	store.all["ann crm"] = gateway.Account{Label: "ada@orders.test", Scopes: []string{"orders.read", "x.y"}, Since: time.Unix(1_790_000_000, 0), Used: time.Unix(1_799_950_000, 0)}
	w.consents.granted["ann"] = "x"
	var got struct {
		Connections []struct{ Account, State, Since string }
		Words       map[string]string
	}
	answer := w.browser("ann").send(http.MethodGet, "/connect", "Accept", "application/json", "Accept-Language", "de")
	testworld.Check(t, json.Unmarshal([]byte(answer.body), &got))
	if c := got.Connections[0]; c.Account != "ada@orders.test" || c.State != "Verbunden" || c.Since == "" || got.Words["disconnect"] != "Trennen" {
		t.Errorf("the answer is %s", answer.body)
	}
	page := w.browser("ann").send(http.MethodGet, "/connect", "Accept", forPages).body
	for _, want := range []string{"<bdi>ada@orders.test</bdi>", "<bdi>read orders</bdi>, <bdi>x.y</bdi>", "since 21 September 2026 · last used yesterday", `href="https://app.example.com/logout">Sign out`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q: %s", want, page)
		}
	}
}
