package browser

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/connectors/statestore"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// visible is a configuration whose users see who asks.
const visible = `gateway:
  origins: [SITE]
  user: {type: jwt, jwt: {cookie: session, bearer: true, jwks_file: sessions.json, issuer: ` + issuer + `, audiences: gateway}}
  consent:
    name: Acme
    logo: logo.svg
    sign_in: SITE/page?html=the+page+where+users+sign+in&back={back}
    scopes: {orders.read: read orders}
MORE
state: {type: sqlite, path: state.db, keys: "{{ get_secret('state-key') }}"}
connectors:
`

const consenting = `  - name: NAME
    permalink: PERMALINK
    url: PROVIDER/me
    consent: {account: {name: response.body.sub + '@orders.test'}}
    auth:
      type: oauth_authorization_code
      config: {authorization_url: PROVIDER/auth, token_url: PROVIDER/token, revocation_url: PROVIDER/token/revocation, issuer: PROVIDER, client_id: web, client_secret: "{{ get_secret('client-secret') }}", scope: openid, authorization_parameters: {prompt: login}}
`

const logo = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 32"><rect width="32" height="32" rx="8" fill="#1f5fbf"/><path d="M16 6 26 26H6z" fill="#fff"/><circle cx="60" cy="16" r="9" fill="#1f5fbf"/></svg>`

// accountsInMemory are the accounts that users have connected.
type accountsInMemory struct {
	mu  sync.Mutex
	all map[string]gateway.Account
}

func (a *accountsInMemory) Connected(_ context.Context, user host.User, connector string, account gateway.Account) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	account.Used = account.Since
	a.all[user.ID+" "+connector] = account
	return nil
}

func (a *accountsInMemory) Disconnected(_ context.Context, user host.User, connector string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, user.ID+" "+connector)
	return nil
}

func (a *accountsInMemory) Account(_ context.Context, user host.User, connector string) (gateway.Account, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	account, ok := a.all[user.ID+" "+connector]
	return account, ok, nil
}

// newPagesDeployment returns a gateway with two connectors, Orders and one with a long name. more has further members of consent, and files
// are beside the configuration.
func newPagesDeployment(t *testing.T, more string, files map[string]string) *consentDeployment {
	t.Helper()
	w := &consentDeployment{
		deployment: bareDeployment(t), provider: newProvider(t), stateKey: base64.StdEncoding.EncodeToString([]byte("0123456789abcdefghijklmnopqrstuv")),
	}
	w.Hide("the client secret", clientSecret)
	text := visible
	for permalink, name := range map[string]string{"orders": "Orders", "long": "Customer-Relationship-Management of Contoso"} {
		text += strings.NewReplacer("NAME", name, "PERMALINK", permalink).Replace(consenting)
	}
	w.file = w.write(strings.NewReplacer("PROVIDER", w.provider.issuer, "SITE", w.app, "MORE", more).Replace(text))
	for name, content := range files {
		name = filepath.Join(filepath.Dir(w.file), name)
		testworld.Check(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(content), 0o600)))
	}
	testworld.Check(t, os.WriteFile(filepath.Join(filepath.Dir(w.file), "logo.svg"), []byte(logo), 0o600))
	set := testworld.Must(connectors.Load(t.Context(), w.file, connectors.Options{OpenState: func(ctx context.Context, s *connectors.State, c *host.Config) (err error) {
		store, err := statestore.Open(ctx, s, statestore.Options{})
		if err == nil {
			c.State = store.State
			t.Cleanup(func() { _ = store.Close(context.Background()) })
		}
		return err
	}, Host: host.Config{
		Secrets: host.MapSecrets{"client-secret": clientSecret, "state-key": w.stateKey}, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true},
	}}))(t)
	t.Cleanup(func() { _ = set.Close(context.Background()) })
	users := testworld.Must(identity.New(t.Context(), set.Settings.User, identity.Options{}))(t)
	t.Cleanup(func() { _ = users.Close() })
	g := gateway.New(gateway.Config{Logger: w.log.Logger(), Connections: &accountsInMemory{all: map[string]gateway.Account{}}})
	server := httptest.NewServer(g.Handler())
	t.Cleanup(server.Close)
	consent := set.Settings.Consent
	w.gateway, consent.URL, consent.Links = server.URL, server.URL, true
	g.Use(gateway.Setup{Connectors: set.Connectors, Origins: set.Settings.Origins, Users: users, Consent: consent})
	w.link = g.ConnectLink
	w.provider.serveAll([]string{w.gateway + "/connect/callback/orders", w.gateway + "/connect/callback/long"})
	return w
}

// language sets the languages that the user prefers.
func (b *tab) language(accept string) {
	b.t.Helper()
	testworld.Must(chromedp.Call(b.ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": accept}}))(b.t)
}

// look sets the width of the window, and the colours that the user prefers.
func (b *tab) look(width int64, scheme string) {
	b.t.Helper()
	params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	testworld.Must(chromedp.Call(b.ctx, emulation.SetEmulatedMedia, params))(b.t)
	testworld.Check(b.t, chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 800)))
}

// load opens a page of the gateway as if the user entered its address.
func (b *tab) load(path string) {
	b.t.Helper()
	testworld.Check(b.t, chromedp.Do(b.ctx, chromedp.Navigate(b.w.gateway+path)))
}

// press moves with the keyboard to what has the words, and presses Enter.
func (b *tab) press(words string) {
	b.t.Helper()
	var found []string
	for range 20 {
		testworld.Check(b.t, chromedp.Do(b.ctx, chromedp.KeyEvent("\t")))
		text := evaluate[string](b, `(document.activeElement.innerText ?? "").replaceAll(/\s+/g, " ").trim()`)
		if found = append(found, text); text == words {
			testworld.Must(chromedp.RunResponse(b.ctx, chromedp.KeyEvent("\r")))(b.t)
			return
		}
	}
	b.t.Fatalf("with the keyboard, nobody comes to %q of %q on the page %s", words, found, b.shown())
}

// answer signs in at the provider and answers, with the keyboard.
func (b *tab) answer(account, answer string) {
	b.t.Helper()
	testworld.Check(b.t, chromedp.Do(b.ctx, chromedp.KeyEvent("\t")))
	evaluate[bool](b, `document.activeElement.value = "", document.activeElement.tagName === "INPUT"`)
	testworld.Check(b.t, chromedp.Do(b.ctx, chromedp.KeyEvent(account)))
	b.press(answer)
}

// shows fails the test unless the page has the words, fits its window, and has no part of the answer of a server in its address or history.
func (b *tab) shows(words string) {
	b.t.Helper()
	if text := b.shown(); !strings.Contains(text, words) {
		b.t.Errorf("the page does not say %q: %s\n%s", words, text, b.w.log)
	}
	if wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		b.t.Errorf("the page with %q is %d pixels wider than its window", words, wide)
	}
	history := testworld.Must(chromedp.Run(b.ctx, chromedp.NavigationEntries()))(b.t)
	for _, entry := range history.Entries {
		if strings.HasPrefix(entry.URL, b.w.gateway) && strings.Contains(entry.URL, "?") {
			b.t.Errorf("the history has %s", entry.URL)
		}
	}
}

// axe fails the test if axe-core finds something in the page, also in the dark, or with text of twice the size, with which the page still fits.
func (b *tab) axe() {
	b.t.Helper()
	script := testworld.Must(os.ReadFile("../console/node_modules/axe-core/axe.min.js"))(b.t)
	for _, scheme := range []string{"dark", "light"} {
		b.look(360, scheme)
		for _, size := range []string{"200%", ""} {
			evaluate[bool](b, `document.documentElement.style.fontSize = "`+size+`", true`)
			evaluate[bool](b, string(script)+"\n;true")
			found := evaluate[[]string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => v.id + ": " + v.help + " " + v.nodes.map(n => n.html + n.failureSummary)))`)
			wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth")
			if len(found) > 0 || wide > 0 {
				b.t.Errorf("%s, text %s: axe finds %q, and the page is %d pixels too wide: %s", scheme, size, found, wide, b.shown())
			}
		}
	}
}

// tasks has the words that people read at these pages, in each language.
var tasks = map[string]map[string]string{
	"en": {
		"ask": "Acme asks to use your Orders account Acme may then: see which account you use You sign in at localhost:", "continue": "Continue", "not now": "Not now", "connected": "Orders is connected Acme can now use your Orders account.",
		"list": "Your connections", "row": "✓ Connected ada@orders.test", "other row": "✓ Connected bob@orders.test", "change": "Change account Orders", "disconnect": "Disconnect Orders", "end": "Disconnect Orders? Acme cannot use your Orders account from then on.",
		"keep": "Stay connected Orders", "ended": "Disconnected Acme cannot use your Orders account any more.", "refused": "Orders is not connected Nothing has changed.", "unchanged": "Nothing has changed Orders stays connected as it was.", "connect": "Connect Orders", "over": "already finished",
		"retry": "Try again", "other": "in the same browser",
	},
	"de": {
		"ask": "Acme möchte Ihr Konto bei Orders nutzen Acme darf dann: sehen, welches Konto Sie verwenden Sie melden sich bei localhost:", "continue": "Weiter", "not now": "Jetzt nicht", "connected": "Orders ist verbunden Acme kann jetzt Ihr Konto bei Orders nutzen.",
		"list": "Ihre Verbindungen", "row": "✓ Verbunden ada@orders.test", "other row": "✓ Verbunden bob@orders.test", "change": "Konto wechseln Orders", "disconnect": "Trennen Orders", "end": "Verbindung zu Orders trennen? Acme kann Ihr Konto bei Orders danach nicht mehr nutzen.",
		"keep": "Verbunden lassen Orders", "ended": "Getrennt Acme kann Ihr Konto bei Orders nicht mehr nutzen.", "refused": "Orders ist nicht verbunden Es hat sich nichts geändert.", "unchanged": "Es hat sich nichts geändert Orders bleibt verbunden wie bisher.", "connect": "Verbinden Orders", "over": "schon abgeschlossen",
		"retry": "Erneut versuchen", "other": "im selben Browser",
	},
}

// With the keyboard alone and a window of 360 pixels, a user refuses, connects, comes back, connects another account, and ends it, in both
// languages. All pages are free of barriers.
// threats.md 133, threats.md 134
func TestTasksOfUsers(t *testing.T) {
	for language, words := range tasks {
		t.Run(language, func(t *testing.T) {
			w := newPagesDeployment(t, "", nil)
			b := open(w.deployment)
			b.language(language)
			b.look(360, "light")
			b.signIn(ann)
			b.load("/connect/orders")
			b.shows(words["ask"])
			b.axe()
			b.press(words["not now"])
			b.shows(words["list"])
			b.press(words["connect"])
			b.answer("ada", "Refuse")
			b.shows(words["refused"])
			b.axe()
			b.press(words["retry"])
			b.answer("ada", "Allow")
			b.shows(words["connected"])
			b.axe()
			b.press(words["list"])
			b.shows(words["row"])
			b.axe()
			b.press(words["change"])
			b.answer("bob", "Refuse")
			b.shows(words["unchanged"])
			b.press(words["list"])
			b.press(words["change"])
			b.answer("bob", "Allow")
			b.shows(words["connected"])
			b.press(words["list"])
			b.shows(words["other row"])
			b.press(words["disconnect"])
			b.shows(words["end"])
			b.axe()
			b.press(words["keep"])
			b.shows(words["other row"])
			b.press(words["disconnect"])
			b.press(words["disconnect"])
			b.shows(words["ended"])
			b.axe()
		})
	}
}

// F5, the button back, a second tab and another browser show the right words. Nobody loses a connection by them.
// threats.md 132, threats.md 572
func TestReloadBackAndTabs(t *testing.T) {
	w := newPagesDeployment(t, "", nil)
	b, words := open(w.deployment), tasks["en"]
	b.language("en")
	b.look(360, "light")
	b.load("/connect")
	if address := evaluate[string](b, "location.href"); !strings.HasPrefix(address, w.app+"/page") || !strings.Contains(b.shown(), "where users sign in") {
		t.Fatalf("without a session, the browser is at %s", address)
	}
	if back := evaluate[string](b, `new URLSearchParams(location.search).get("back")`); back != w.gateway+"/connect" {
		t.Errorf("the way back is %s", back)
	}
	b.load("/connect")
	b.shows("Please sign in")
	b.axe()
	b.signIn(ann)
	b.load("/connect/orders")
	b.press(words["continue"])
	first := evaluate[string](b, "location.href")
	b.load("/connect/long")
	b.press(words["continue"])
	b.answer("ada", "Allow") // the second tab comes back first
	b.shows("Customer-Relationship-Management of Contoso is connected")
	testworld.Check(t, chromedp.Do(b.ctx, chromedp.Navigate(first)))
	b.answer("ada", "Allow")
	for range 2 {
		b.shows(words["connected"])
		testworld.Must(chromedp.RunResponse(b.ctx, chromedp.Evaluate[chromedp.Void]("location.reload()")))(t)
	}
	b.load("/connect/long/done")
	b.shows("Customer-Relationship-Management of Contoso is connected")
	b.load("/connect")
	evaluate[bool](b, "history.back(), true")
	for address := ""; address != "complete/connect/long/done"; { // the time of the browser ends this
		address, _ = chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.readyState + location.pathname"))
		if b.ctx.Err() != nil {
			t.Fatalf("after the button back, the browser is at %s", address)
		}
	}
	b.shows("Customer-Relationship-Management of Contoso is connected")
	b.load("/connect")
	b.shows(words["row"])

	ann := w.agent(ann)
	start := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, w.gateway+"/connect/orders", http.NoBody))(t)
	start.AddCookie(&http.Cookie{Name: "session", Value: ann.session})
	response := testworld.Must(ann.client.Do(start))(t)
	_ = response.Body.Close()
	back := ann.answer(response.Header.Get("Location"), "eve", "allow")
	testworld.Check(t, chromedp.Do(b.ctx, chromedp.Navigate(back.String()))) // the other browser gets the address
	b.shows(words["other"])
	b.axe()
	b.load("/connect")
	b.shows(words["row"])
}

// Texts that are two fifths longer break no page in a window of 360 pixels, also from right to left.
func TestLongTexts(t *testing.T) {
	var english map[string]string
	testworld.Check(t, json.Unmarshal(testworld.Must(os.ReadFile("../../gateway/internal/connectpage/words/en.json"))(t), &english))
	longer := map[string]string{}
	for key, text := range english {
		longer[key] = text + strings.Repeat("ẅ", len(text)*2/5)
	}
	longer["dir"] = "rtl"
	w := newPagesDeployment(t, "    languages: languages", map[string]string{"languages/ar.json": string(testworld.Must(json.Marshal(longer))(t))})
	b := open(w.deployment)
	b.language("ar")
	b.look(360, "light")
	b.load("/connect")
	b.load("/connect")
	b.shows("Please sign inẅẅẅẅẅ")
	b.signIn(ann)
	for path, words := range map[string]string{
		"/connect": "Your connectionsẅẅẅẅẅẅ", "/connect/long": "asks to use your Customer-Relationship-Management of Contoso accountẅẅ", "/connect/long/disconnect": "Disconnect Customer-Relationship-Management of Contoso?ẅẅ", "/connect/callback/long?code=x": "This did not workẅẅẅẅẅẅ",
	} {
		b.load(path)
		if strings.Contains(path, "?") {
			b.load("/connect/long/done")
		}
		b.shows(words)
		b.axe()
	}
}

// A user without a session connects an account by a link, for whom the page names, and once.
// threats.md 578
func TestConnectLinkInABrowser(t *testing.T) {
	w := newPagesDeployment(t, "", nil)
	b := open(w.deployment)
	b.language("en")
	b.look(360, "light")
	request := gateway.LinkRequest{User: host.User{ID: ann, Email: ann}, Connectors: []string{"orders", "long"}, Back: w.app + "/page?html=thank+you"}
	link := testworld.Must(w.link(t.Context(), request))(t)
	path := strings.TrimPrefix(link, w.gateway)
	b.load(path)
	b.shows("Connect an account for ann@example.com? Acme will use the account only for ann@example.com. If you are not ann@example.com, close this page")
	b.axe()
	b.press("Yes, connect Orders for ann@example.com")
	b.answer("ada", "Allow")
	if text := b.shown(); !strings.Contains(text, "thank you") {
		t.Errorf("then the browser shows %s\n%s", text, w.log)
	}
	b.load(path)
	b.shows("This link is not valid any more")
	b.signIn(bea)
	b.load(strings.TrimPrefix(testworld.Must(w.link(t.Context(), request))(t), w.gateway))
	b.shows("This link is for somebody else")
	b.signIn(ann)
	b.load("/connect")
	b.shows(tasks["en"]["row"])
}

// The element lists in a page of another origin, in the language of that page, connects in a window of its own, and lists again when that is closed.
// threats.md 577
func TestElementInAPage(t *testing.T) {
	w := newPagesDeployment(t, "", nil)
	b := open(w.deployment)
	b.signIn(ann)
	b.visit(strings.Replace(w.app, "localhost", "127.0.0.1", 1), `<p>`) // the page of an origin that is not allowed
	const element = `<script src="GATEWAY/connect/element.js"></script><section lang="de"><keywright-connections></keywright-connections></section>`
	text := `document.querySelector("keywright-connections").shadowRoot?.querySelector("ul")?.innerText ?? ""`
	failed := evaluate[string](b, `new Promise(done => { const s = document.createElement("script"); s.src = "`+w.gateway+`/connect/element.js"; s.onload = () => {
		const e = document.createElement("keywright-connections"); e.addEventListener("error", () => done("error")); e.addEventListener("load", () => done("load")); document.body.append(e) }; document.head.append(s) })`)
	if failed != "error" {
		t.Errorf("in the page of another origin, there is %s", failed)
	}
	b.visit(w.app, strings.ReplaceAll(element, "GATEWAY", w.gateway))
	wait := `new Promise(done => { const e = document.querySelector("keywright-connections"), look = () => (` + text + `).includes(WORDS) ? done(true) : requestAnimationFrame(look); look() })`
	evaluate[bool](b, strings.Replace(wait, "WORDS", `"Nicht verbunden"`, 1))
	a := w.agent(ann) // the user connects in the window
	r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, w.gateway+"/connect/orders", http.NoBody))(t)
	r.AddCookie(&http.Cookie{Name: "session", Value: a.session})
	evaluate[bool](b, `window.open = () => window.opened = {closed: false}, [...document.querySelector("keywright-connections").shadowRoot.querySelectorAll("button")].find(b => b.ariaLabel === "Verbinden Orders").click(), true`)
	response := testworld.Must(a.client.Do(r))(t)
	_ = response.Body.Close()
	a.get(a.answer(response.Header.Get("Location"), "ada", "allow").String())
	evaluate[bool](b, `window.opened.closed = true`)
	evaluate[bool](b, strings.Replace(wait, "WORDS", `"ada@orders.test"`, 1))
}
