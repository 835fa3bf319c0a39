package gateway_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// threats.md 132, specification.md "redirect URI of a connector": a consent ends in the browser and for the user that began it, and once.
func TestConsentOfOtherUser(t *testing.T) {
	w := newConsentWorld(t)
	mallory, ann := w.browser("mallory"), w.browser("ann")
	ann.begin("own") // she has a cookie of her own
	for name, c := range map[string]struct {
		browser *browser
		kind    string
	}{
		"a victim with a session and a consent of her own": {ann, "consent-other"},
		"a victim without a session":                       {w.browser(""), "consent-other"},
		"a victim with a session":                          {w.browser("bea"), "consent-other"},
	} {
		back := mallory.begin("c0de")
		if got := c.browser.send(http.MethodGet, back, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"); got.status != http.StatusForbidden || got.kind != c.kind {
			t.Errorf("%s got %+v", name, got)
		}
	}
	shared := mallory.begin("c0de")
	mallory.cookies["session"] = "bea" // another user, in the same browser
	if got := mallory.finish(shared); !strings.Contains(got.body, "by somebody else") {
		t.Errorf("another user in the same browser got %+v", got)
	}
	if w.consents.connected() != "" {
		t.Fatalf("%q is connected", w.consents.connected())
	}
	back := ann.begin("c0de")
	for i, want := range []string{"is connected", "already finished"} {
		if got := ann.finish(back); !strings.Contains(got.body, want) {
			t.Errorf("callback %d got %+v", i+1, got)
		}
	}
	for name, path := range map[string]string{
		"another connector's callback": strings.Replace(ann.begin("x"), "/crm?", "/weather?", 1),
		"another state":                strings.Replace(ann.begin("x"), "state-", "state-9", 1),
		"no state":                     "/connect/callback/crm?code=x",
		"nothing":                      "/connect/callback/crm",
	} {
		if got := ann.send(http.MethodGet, path); got.status < 400 || w.consents.connected() != "ann c0de" {
			t.Errorf("%s got %+v, and %q is connected", name, got, w.consents.connected())
		}
	}
}

// threats.md 132: a browser with two cookies of the name, as when another site of the domain has set one, is refused.
func TestConsentWithTwoBindings(t *testing.T) {
	w := newConsentWorld(t)
	mallory := w.browser("mallory")
	back := mallory.begin("c0de")
	own := "keywright-connect=" + mallory.cookies["keywright-connect"]
	for _, cookies := range []string{own + "; keywright-connect=" + strings.Repeat("A", 26), own + "x", ""} {
		if got := w.get(back, "Cookie", cookies); got.kind != "consent-other" || w.consents.connected() != "" {
			t.Errorf("with %s the browser got %+v", cookies, got)
		}
	}
	got := w.get("/connect/crm", "Cookie", "session=ann; "+own+"; "+own)
	if set := got.header.Get("Set-Cookie"); !strings.HasPrefix(set, "keywright-connect=") || strings.Contains(set, own) {
		t.Errorf("the browser got %+v", got)
	}
}

// The cookie goes to the gateway alone, is not for scripts, and comes with a link of another site.
func TestCookieOfAConsent(t *testing.T) {
	value := regexp.MustCompile(`=[A-Z2-7]{26}; `)
	for url, want := range map[string]string{
		"":                       "keywright-connect=#; Path=/connect; Max-Age=660; HttpOnly; SameSite=Lax",
		"http://localhost:8080":  "keywright-connect=#; Path=/connect; Max-Age=660; HttpOnly; SameSite=Lax",
		"https://gw.example.com": "__Host-keywright-connect=#; Path=/; Max-Age=660; HttpOnly; Secure; SameSite=Lax",
	} {
		w := newConsentWorld(t, func(o *options, _ *gateway.Definition) { o.Consent.URL = url })
		got := w.browser("ann").press(http.MethodGet, "/connect/crm")
		if set := value.ReplaceAllString(got.header.Get("Set-Cookie"), "=#; "); set != want {
			t.Errorf("for %s: the cookie is %s", url, set)
		}
		if own := cmp.Or(url, w.server.URL); w.consents.begun["state-1"].redirectURI != own+"/connect/callback/crm" {
			t.Errorf("for %s: %+v", url, w.consents.begun)
		}
	}
	w := newConsentWorld(t, func(o *options, _ *gateway.Definition) { o.Hosts = []string{"gw.example.com"} })
	r := w.request(http.MethodGet, "/connect/crm", "", "Cookie", "session=ann")
	r.Host = "gw.example.com"
	if got := w.do(r); got.status != http.StatusInternalServerError || got.kind != "no-consent-url" || !strings.Contains(w.log.String(), "gateway.consent.url is missing") {
		t.Errorf("without a URL, the browser got %+v", got)
	}
}

// threats.md 133: a page of another site cannot begin or end a connection, and is not shown what there is.
func TestConsentFromOtherSite(t *testing.T) {
	w := newConsentWorld(t)
	ann := w.browser("ann")
	ann.arrive(ann.begin("c0de"))
	for name, c := range map[string][]string{
		"an image":           {"GET", "/connect/crm", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
		"a frame":            {"GET", "/connect/crm", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
		"a script":           {"GET", "/connect/crm", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Origin", "https://evil.example"},
		"a script, to list":  {"GET", "/connect", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Origin", "https://evil.example"},
		"a frame, to list":   {"GET", "/connect", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
		"a frame, to end":    {"GET", "/connect/callback/crm?code=x&state=state-1", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
		"a script, to end":   {"GET", "/connect/callback/crm?code=x&state=state-1", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty"},
		"a form":             {"POST", "/connect/crm/disconnect", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Origin", "https://evil.example"},
		"a form of its site": {"POST", "/connect/crm/disconnect", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Origin", "https://evil.example.com"},
		"an old form":        {"POST", "/connect/crm/disconnect", "Origin", "null"},
		"a preflight":        {"OPTIONS", "/connect/crm", "Origin", "https://evil.example", "Access-Control-Request-Method", "DELETE"},
		"DELETE":             {"DELETE", "/connect/crm", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
	} {
		if got := ann.send(c[0], c[1], c[2:]...); got.status != http.StatusForbidden || got.kind != "cross-origin" || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s got %+v", name, got)
		}
	}
	if w.consents.number != 1 || w.consents.connected() != "ann c0de" {
		t.Errorf("%d consents have begun, and %q is connected", w.consents.number, w.consents.connected())
	}
	asked := ann.arrive("/connect/crm")
	if asked.status != http.StatusOK || w.consents.number != 1 || !strings.Contains(asked.body, "This app</bdi> asks to use your <bdi>CRM &lt;b&gt;</bdi> account") || !strings.Contains(asked.body, `href="/connect/crm"`) {
		t.Errorf("a link of another site shows %+v", asked)
	}
	if got := ann.send(http.MethodGet, "/connect/crm", "Accept", forPages, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"); got.status != http.StatusFound {
		t.Errorf("the link on it shows %+v", got)
	}
}

// threats.md 134, specification.md "after a consent": what comes with a callback shows in no page, header or log, and sends the browser nowhere.
func TestCallbackParameters(t *testing.T) {
	for name, to := range map[string]string{"no page": "", "a page": "https://app.example.com/settings"} {
		w := newConsentWorld(t, func(o *options, _ *gateway.Definition) { o.Consent.ReturnTo = to })
		ann := w.browser("ann")
		code := w.Word("the code")
		more := "&return_to=https://evil.example&redirect_uri=https://evil.example&iss=https://evil.example&error_description=" + w.Word("the description") + "<script>"
		good := ann.begin(code) + more
		if got := ann.arrive(good); got.status != http.StatusSeeOther || got.header.Get("Location") != cmp.Or(to, "/connect/crm/done") {
			t.Errorf("%s: the browser got %+v", name, got)
		}
		for _, err := range []error{
			&host.ConsentError{Reason: host.ConsentForged, Text: "the iss is wrong"}, &host.ConsentError{Reason: host.ConsentFailed, Code: "server_error", Text: "failed"},
			&host.Error{Stage: host.StageToken, Err: errors.New("refused")}, errors.New("the store is down"), &host.ConsentError{Reason: "new", Text: "text"},
		} {
			w.consents.fail(err)
			for _, path := range []string{ann.callback(), good, good + "&code=twice", good + strings.Repeat("x", 16<<10), "/connect/callback/crm?code=" + code + "%zz"} {
				if got := ann.finish(path); !strings.Contains(got.body, "This did not work") || strings.Contains(got.body+fmt.Sprint(got.header), "evil.example") {
					t.Errorf("%s, %v: the browser got %+v", name, err, got)
				}
			}
			w.consents.fail(nil)
		}
		if strings.Contains(w.log.String(), "evil.example") {
			t.Errorf("the log is %s", w.log.String())
		}
	}
}

func (b *browser) callback() string {
	return "/connect/callback/crm?state=none&code=x&return_to=https://evil.example"
}

// threats.md 134: no cache keeps an answer, no other site learns its URL, and none shows it in a frame or adds to it.
func TestHeadersOfConsentPages(t *testing.T) {
	w := newConsentWorld(t)
	ann := w.browser("ann")
	back := ann.begin("c0de")
	for name, got := range map[string]answer{
		"the list": ann.open("/connect"), "the question": ann.arrive("/connect/crm"), "the end": ann.finish(back), "a problem": ann.finish(back), "no session": w.browser("").open("/connect"), "the question before the end": ann.open("/connect/crm/disconnect"),
	} {
		h := got.header
		policy := h.Get("Content-Security-Policy")
		if h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("X-Frame-Options") != "DENY" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s has the headers %v", name, h)
		}
		if h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("X-Request-Id") == "" || h.Get("Server-Timing") == "" {
			t.Errorf("%s has the headers %v", name, h)
		}
		style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(got.body)
		if want := "default-src 'none'; style-src 'sha256-" + digestOf(style[1]) + "'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"; policy != want || strings.Contains(got.body, "<script") {
			t.Errorf("%s has the policy %s, and the style needs %s", name, policy, want)
		}
	}
	for name, got := range map[string]answer{"the redirect": ann.press("GET", "/connect/crm"), "the callback": ann.arrive(ann.begin("x")), "the JSON": ann.send(http.MethodGet, "/connect")} {
		if got.header.Get("Cache-Control") != "no-store" || got.header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s has the headers %v", name, got.header)
		}
	}
}

// threats.md 135, specification.md "who connects an account": without a user nobody can connect an account for all, and a user cannot fill the store.
func TestConsentWithoutAUser(t *testing.T) {
	anonymous := users(func(*http.Request) (host.User, error) { return host.User{Email: "ann@example.com"}, nil })
	for name, who := range map[string]gateway.Users{"no users": nil, "no id": anonymous, "no session": byCookie} {
		w := newConsentWorld(t, func(o *options, _ *gateway.Definition) { o.Users = who })
		for _, c := range [][]string{{"GET", "/connect"}, {"GET", "/connect/crm"}, {"DELETE", "/connect/crm"}, {"POST", "/connect/crm/disconnect"}} {
			if got := w.do(w.request(c[0], c[1], "")); got.status != http.StatusUnauthorized || got.kind != "unauthenticated" || w.consents.number > 0 {
				t.Errorf("%s: %v got %+v", name, c, got)
			}
		}
		if got := w.browser("").finish("/connect/callback/crm?state=state-1&code=x"); !strings.Contains(got.body, "This did not work") || len(w.consents.ended) > 0 {
			t.Errorf("%s: the callback got %+v", name, got)
		}
	}
	for err, want := range map[error]int{identity.ErrAmbiguous: http.StatusBadRequest, identity.ErrUnavailable: http.StatusServiceUnavailable} {
		w := newConsentWorld(t, func(o *options, _ *gateway.Definition) {
			o.Users = users(func(*http.Request) (host.User, error) { return host.User{}, err })
		})
		if got := w.get("/connect/callback/crm?state=state-1&code=x", "Cookie", "keywright-connect="+strings.Repeat("A", 26)); got.status != want || len(w.consents.ended) > 0 {
			t.Errorf("%v: the callback got %+v", err, got)
		}
	}
}

// threats.md 179: a consent that could not be recorded begins nothing, and one that ends is not taken back.
func TestUnrecordedConsent(t *testing.T) {
	var failure error
	w := newConsentWorld(t, func(o *options, _ *gateway.Definition) { o.Recordable = func() error { return failure } })
	ann := w.browser("ann")
	ann.arrive(ann.begin("c0de"))
	failure = errors.New("the disk is full")
	began := w.consents.number
	for path, method := range map[string]string{"/connect/crm": http.MethodGet, "/connect/crm/disconnect": http.MethodPost} {
		if got := ann.send(method, path, "Sec-Fetch-Site", "same-origin"); got.status != http.StatusServiceUnavailable || got.kind != "not-recorded" {
			t.Errorf("%s got %+v", path, got)
		}
	}
	if w.consents.number != began || w.consents.connected() != "ann c0de" {
		t.Errorf("%d consents more began, and %q is connected", w.consents.number-began, w.consents.connected())
	}
	failure = nil
	ann.send(http.MethodDelete, "/connect/crm")
	var uses []gateway.Use
	for _, e := range w.events {
		uses = append(uses, e.Use)
	}
	if want := []gateway.Use{gateway.UseConsent, gateway.UseCallback, "", "", gateway.UseDisconnect}; !slices.Equal(uses, want) {
		t.Errorf("the uses are %q, not %q", uses, want)
	}
}

// A browser that shows pages is redirected, and a program gets what it asks for.
func TestWhoGetsAPage(t *testing.T) {
	w := newConsentWorld(t)
	for _, c := range []struct {
		name, method, path, accept string
		status                     int
	}{
		{"a browser", "GET", "/connect/crm", "text/html", http.StatusFound},
		{"a browser that takes JSON too", "GET", "/connect/crm", "text/html, application/json", http.StatusFound},
		{"a program", "GET", "/connect/crm", "application/json", http.StatusOK},
		{"a program that does not say", "GET", "/connect/crm", "*/*", http.StatusFound},
		{"a browser's form", "POST", "/connect/crm/disconnect", "text/html", http.StatusSeeOther},
		{"a program's form", "POST", "/connect/crm/disconnect", "*/*", http.StatusNoContent},
		{"a browser's script", "DELETE", "/connect/crm", "text/html", http.StatusNoContent},
	} {
		if got := w.browser("ann").send(c.method, c.path, "Accept", c.accept, "Sec-Fetch-Site", "same-origin"); got.status != c.status {
			t.Errorf("%s got %+v", c.name, got)
		}
	}
	const back = `href="/connect"`
	if got := w.browser("").open("/connect/crm"); got.status != http.StatusUnauthorized || strings.Contains(got.body, back) {
		t.Errorf("without a user, who could not see that page either, the page is %+v", got)
	}
	if got := w.browser("ann").open("/connect/nope"); got.status != http.StatusNotFound || !strings.Contains(got.body, back) {
		t.Errorf("for an unknown connector, the page is %+v", got)
	}
}

// threats.md 135: a user begins so many consents at once, and others are not affected.
func TestManyConsentsOfAUser(t *testing.T) {
	w := newConsentWorld(t)
	ann := w.browser("ann")
	for i := range 30 {
		if got := ann.press("GET", "/connect/crm"); (got.status == http.StatusFound) != (i < 20) || (got.header.Get("Retry-After") == "3") != (i >= 20) {
			t.Fatalf("request %d got %+v", i+1, got)
		}
	}
	if got := w.browser("bea").press("GET", "/connect/crm"); got.status != http.StatusFound {
		t.Errorf("another user got %+v", got)
	}
}

// threats.md 135: callbacks at once are limited, because anybody can send them, and their places come back.
func TestManyCallbacks(t *testing.T) {
	const most = 64
	w := newConsentWorld(t)
	ann := w.browser("ann")
	back := ann.begin("c0de")
	arrived, release := make(chan struct{}), make(chan struct{})
	w.consents.during = func() {
		arrived <- struct{}{}
		<-release
	}
	send := func() int {
		r := httptest.NewRequest(http.MethodGet, w.server.URL+back, nil)
		r.AddCookie(&http.Cookie{Name: "keywright-connect", Value: ann.cookies["keywright-connect"]})
		return w.serve(r).Code
	}
	var all sync.WaitGroup
	for range most {
		all.Go(func() { send() })
		<-arrived
	}
	refused := make(chan int, 1)
	all.Go(func() { refused <- send() })
	select {
	case got := <-refused:
		if got != http.StatusServiceUnavailable {
			t.Errorf("one more callback got %d", got)
		}
	case <-arrived:
		t.Error("one more callback is under way")
	}
	close(release)
	all.Wait()
	w.consents.during = nil
	if got := send(); got == http.StatusServiceUnavailable {
		t.Errorf("a callback after them got %d", got)
	}
}

// Each path takes its methods. HEAD, which programs send to look at a link, begins and ends nothing.
func TestMethodsOfConsent(t *testing.T) {
	w := newConsentWorld(t)
	ann := w.browser("ann")
	back := ann.begin("c0de")
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"HEAD", "/connect", 200, ""},
		{"POST", "/connect", 405, "GET, HEAD"},
		{"HEAD", "/connect/crm", 405, "GET, DELETE"},
		{"POST", "/connect/crm", 405, "GET, DELETE"},
		{"HEAD", back, 405, "GET"},
		{"POST", back, 405, "GET"},
		{"PUT", "/connect/crm/disconnect", 405, "GET, POST"},
		{"HEAD", "/connect/crm/done", 303, ""},
		{"POST", "/connect/crm/done", 405, "GET, HEAD"},
		{"GET", "/connect/weather", 404, ""},
		{"GET", "/connect/nope", 404, ""},
		{"GET", "/connect/callback/nope?state=x", 404, ""},
		{"GET", "/connect/crm/more", 404, ""},
		{"GET", "/connect/crm%2Fdisconnect", 404, ""},
		{"GET", "/connecting", 404, ""},
	} {
		if got := ann.send(c.method, c.path, "Accept", "text/html"); got.status != c.status || got.header.Get("Allow") != c.allow {
			t.Errorf("%s %s got %+v", c.method, c.path, got)
		}
	}
	if got := ann.finish(back); !strings.Contains(got.body, "is connected") {
		t.Errorf("then the callback got %+v", got)
	}
}

// A callback that is not well formed ends no consent.
func TestMalformedCallbacks(t *testing.T) {
	w := newConsentWorld(t)
	ann := w.browser("ann")
	back := ann.begin("c0de")
	for name, more := range map[string]string{
		"two codes": "&code=other", "two states": "&state=state-1", "another parameter twice": "&a=1&a=2", "bad escape": "&a=%zz", "too long": "&a=" + strings.Repeat("x", 16<<10),
	} {
		if got := ann.send(http.MethodGet, back+more); got.status != http.StatusBadRequest || got.kind != "bad-request" || len(w.consents.ended) > 0 {
			t.Errorf("%s: the browser got %+v", name, got)
		}
	}
	if got := ann.finish(back); !strings.Contains(got.body, "is connected") {
		t.Errorf("then it got %+v", got)
	}
}

// Errors of the host have their status, and programs get a problem document.
func TestProblemsOfConsent(t *testing.T) {
	w := newConsentWorld(t)
	ann := w.browser("ann")
	ann.begin("c0de")
	for _, c := range []struct {
		method, path string
		err          error
		status       int
		kind         string
	}{
		{"GET", "/connect", errors.New("x"), 503, "connections-unavailable"},
		{"DELETE", "/connect/crm", errors.New("x"), 503, "connections-unavailable"},
		{"DELETE", "/connect/crm", fmt.Errorf("x: %w", host.ErrNotRevoked), 502, "not-revoked"},
		{"GET", "/connect/crm", &host.Error{Stage: host.StageToken, Err: fmt.Errorf("x: %w", state.ErrUnavailable)}, 503, "connections-unavailable"},
		{"GET", "/connect/callback/crm", fmt.Errorf("x: %w", state.ErrUnavailable), 503, "connections-unavailable"},
		{"GET", "/connect/crm", &host.Error{Stage: host.StageToken, Err: errors.New("x")}, 502, "consent-failed"},
		{"GET", "/connect/callback/crm", &host.ConsentError{Reason: host.ConsentDenied}, 403, "consent-denied"},
		{"GET", "/connect/callback/crm", &host.ConsentError{Reason: host.ConsentFailed}, 502, "consent-failed"},
		{"GET", "/connect/callback/crm", &host.ConsentError{Reason: host.ConsentForged}, 400, "consent-forged"},
		{"GET", "/connect/callback/crm", &host.ConsentError{Reason: host.ConsentUnknown}, 400, "consent-unknown"},
	} {
		w.consents.fail(c.err)
		if got := ann.send(c.method, c.path); got.status != c.status || got.kind != c.kind || (got.header.Get("Retry-After") != "") != (c.status == http.StatusServiceUnavailable) {
			t.Errorf("%s %s with %v got %+v", c.method, c.path, c.err, got)
		}
	}
}

func digestOf(text string) string {
	digest := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(digest[:])
}
