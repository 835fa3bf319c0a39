package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// loginServer is the URL of the authorization server of fakeConsents.
const loginServer = "https://login.example.com/authorize"

// fakeConsents are the consents of a connector, as a host keeps them.
type fakeConsents struct {
	mu      sync.Mutex
	begun   map[string]begun // by state
	number  int
	granted map[string]string // the code with which a user has connected
	values  map[string][]byte
	ended   []error // contexts of callbacks when they ended
	err     error   // if not nil, all fail with it
	during  func()  // if not nil, called by Callback
}

type begun struct{ user, redirectURI, binding string }

func (f *fakeConsents) NeedsConsent() bool { return true }

func (f *fakeConsents) BeginConsent(ctx context.Context, r host.ConsentRequest) (string, error) {
	redirectURI, binding := r.RedirectURI, r.Binding
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return "", f.err
	}
	user, _ := host.UserFrom(ctx)
	f.number++
	state := "state-" + strconv.Itoa(f.number)
	f.begun[state] = begun{user.ID, redirectURI, binding}
	return loginServer + "?" + url.Values{"state": {state}, "redirect_uri": {redirectURI}}.Encode(), nil
}

func (f *fakeConsents) Callback(ctx context.Context, back host.AuthorizationResponse) (ended host.EndedConsent, err error) {
	if f.during != nil {
		f.during()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, ctx.Err())
	if f.err != nil {
		return ended, f.err
	}
	state := back.Response.Get("state")
	known, ok := f.begun[state]
	delete(f.begun, state)
	user, some := host.UserFrom(ctx)
	switch {
	case !ok:
		return ended, &host.ConsentError{Reason: host.ConsentUnknown, Text: "unknown"}
	case known.binding != back.Binding || known.redirectURI != back.RedirectURI || some && user.ID != known.user:
		return ended, &host.ConsentError{Reason: host.ConsentOther, Text: "other"}
	case back.Response.Get("error") != "":
		return ended, &host.ConsentError{Reason: host.ConsentDenied, Code: "access_denied", Text: "denied"}
	}
	f.granted[known.user] = back.Response.Get("code")
	return host.EndedConsent{Connector: "crm", User: &host.User{ID: known.user}}, nil
}

func (f *fakeConsents) Connection(ctx context.Context) (host.Connection, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	user, _ := host.UserFrom(ctx)
	if f.granted[user.ID] == "" {
		return host.Connection{Condition: host.ConditionNotConnected}, f.err
	}
	return host.Connection{Condition: host.ConditionConnected, Age: 3 * time.Hour}, f.err
}

func (f *fakeConsents) Disconnect(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	user, _ := host.UserFrom(ctx)
	delete(f.granted, user.ID)
	return f.err
}

func (f *fakeConsents) Hold(_ context.Context, name string, value []byte, _ time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.values[name] = value
	return f.err
}

func (f *fakeConsents) Peek(_ context.Context, name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.values[name], f.err
}

func (f *fakeConsents) Take(_ context.Context, name string) ([]byte, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	value, ok := f.values[name]
	delete(f.values, name)
	return value, ok, f.err
}

// connected returns the codes with which users have connected, as "user code".
func (f *fakeConsents) connected() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for user, code := range f.granted {
		all = append(all, user+" "+code)
	}
	return strings.Join(all, ", ")
}

func (f *fakeConsents) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// byCookie identifies users by the cookie session.
var byCookie = users(func(r *http.Request) (host.User, error) {
	cookie, err := r.Cookie("session")
	if err != nil {
		return host.User{}, identity.ErrUnauthenticated
	}
	return host.User{ID: cookie.Value, Email: cookie.Value + "@example.com"}, nil
})

// consentWorld is a gateway with a connector that needs consent, crm, and one that does not, weather.
type consentWorld struct {
	*world
	consents *fakeConsents
}

func newConsentWorld(t *testing.T, changes ...change) *consentWorld {
	t.Helper()
	var setup gateway.Setup
	w := &consentWorld{consents: &fakeConsents{begun: map[string]begun{}, granted: map[string]string{}, values: map[string][]byte{}}}
	w.world = newWorld(t, append([]change{func(o *options, _ *gateway.Definition) {
		o.Users = byCookie
		o.Clock = func() time.Time { return time.Unix(1_800_000_000, 0) }
	}}, append(changes, func(o *options, _ *gateway.Definition) { setup = o.Setup })...)...)
	crm := w.connector(gateway.Definition{Name: "CRM <b>", Permalink: "crm", URL: w.api.URL, Auth: []host.Auth{{Type: "none"}}})
	crm.FakeConsents(w.consents)
	setup.Connectors = []*gateway.Connector{crm, w.connector(gateway.Definition{Name: "Weather", Permalink: "weather", URL: w.api.URL, Auth: []host.Auth{{Type: "none"}}})}
	w.gateway.Use(setup)
	return w
}

// browser is a browser with cookies. It shows pages, and follows no redirects.
type browser struct {
	w       *consentWorld
	cookies map[string]string
}

func (w *consentWorld) browser(session string) *browser {
	b := &browser{w: w, cookies: map[string]string{}}
	if session != "" {
		b.cookies["session"] = session
	}
	return b
}

const forPages = "text/html,application/xhtml+xml,*/*;q=0.8"

// send sends a request with the browser's cookies, and keeps those of the answer.
func (b *browser) send(method, path string, headers ...string) answer {
	b.w.t.Helper()
	r := b.w.request(method, path, "", headers...)
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	got := b.w.do(r)
	for _, c := range (&http.Response{Header: got.header}).Cookies() {
		b.cookies[c.Name] = c.Value
	}
	return got
}

// open opens a page as if the user entered its address.
func (b *browser) open(path string) answer {
	b.w.t.Helper()
	return b.send(http.MethodGet, path, "Accept", forPages, "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
}

// arrive opens a page to which another site has sent the browser.
func (b *browser) arrive(path string) answer {
	b.w.t.Helper()
	return b.send(http.MethodGet, path, "Accept", forPages, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
}

// press follows a link or sends a form of a page of the gateway.
func (b *browser) press(method, path string) answer {
	b.w.t.Helper()
	return b.send(method, path, "Accept", forPages, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
}

// finish comes back from the authorization server, and opens the page to which the gateway sends the browser.
func (b *browser) finish(path string) answer {
	b.w.t.Helper()
	got := b.arrive(path)
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/connect/crm/done" || got.body != "" {
		b.w.t.Errorf("the callback got %+v", got)
	}
	return b.arrive("/connect/crm/done")
}

// begin begins a consent, and returns the path and query of its callback with a code.
func (b *browser) begin(code string) string {
	b.w.t.Helper()
	got := b.press(http.MethodGet, "/connect/crm")
	to, err := url.Parse(got.header.Get("Location"))
	if err != nil || got.status != http.StatusFound || !strings.HasPrefix(to.String(), loginServer) {
		b.w.t.Fatalf("the browser got %+v", got)
	}
	back := testworld.Must(url.Parse(to.Query().Get("redirect_uri")))(b.w.t)
	return back.Path + "?" + url.Values{"state": {to.Query().Get("state")}, "code": {code}}.Encode()
}

// A user connects an account, sees it among the connections, and disconnects it.
func TestConsent(t *testing.T) {
	w := newConsentWorld(t)
	ann := w.browser("ann")
	if got := ann.open("/connect"); got.status != http.StatusOK || !strings.Contains(got.body, "Not connected") || !strings.Contains(got.body, "ann@example.com") || strings.Contains(got.body, "Weather") {
		t.Errorf("before, the page is %+v", got)
	}
	if got := ann.finish(ann.begin("c0de")); got.status != http.StatusOK || !strings.Contains(got.body, "<bdi>CRM &lt;b&gt;</bdi> is connected") || w.consents.connected() != "ann c0de" {
		t.Errorf("the browser got %+v, and %q is connected", got, w.consents.connected())
	}
	if got := ann.open("/connect"); !strings.Contains(got.body, "✓</span> Connected</span>") {
		t.Errorf("then the page is %s", got.body)
	}
	if got := ann.send(http.MethodGet, "/connect/"); got.body != `{"connections":[{"connector":"crm","name":"CRM \u003cb\u003e","condition":"connected","age_seconds":10800,"state":"Connected"}],`+
		`"words":{"change":"Change account","connect":"Connect","disconnect":"Disconnect"}}` {
		t.Errorf("the JSON is %s", got.body)
	}
	if got := w.browser("bea").open("/connect"); !strings.Contains(got.body, "Not connected") {
		t.Errorf("another user sees %s", got.body)
	}
	if got := ann.press(http.MethodGet, "/connect/crm/disconnect"); !strings.Contains(got.body, "Disconnect <bdi>CRM &lt;b&gt;</bdi>?") || w.consents.connected() == "" {
		t.Errorf("before disconnecting, the browser got %+v, and %q is connected", got, w.consents.connected())
	}
	if got := ann.send(http.MethodPost, "/connect/crm/disconnect", "Accept", forPages, "Origin", "null", "Sec-Fetch-Site", "same-origin"); got.status != http.StatusSeeOther || got.header.Get("Location") != "/connect/crm/done" || w.consents.connected() != "" {
		t.Errorf("disconnecting, the browser got %+v, and %q is connected", got, w.consents.connected())
	}
	if got := ann.press(http.MethodGet, "/connect/crm/done"); !strings.Contains(got.body, "<h1>Disconnected</h1>") {
		t.Errorf("after disconnecting, the browser got %+v", got)
	}
	ann.arrive(ann.begin("2"))
	if got := ann.send(http.MethodDelete, "/connect/crm"); got.status != http.StatusNoContent || w.consents.connected() != "" {
		t.Errorf("disconnecting, the program got %+v, and %q is connected", got, w.consents.connected())
	}
}

// A program that runs in the browser gets the URL as JSON, with the cookie.
func TestConsentForAPage(t *testing.T) {
	const app = "https://app.example.com"
	w := newConsentWorld(t, func(o *options, _ *gateway.Definition) { o.Origins = []string{app} })
	ann := w.browser("ann")
	got := ann.send(http.MethodGet, "/connect/crm", "Accept", "application/json", "Origin", app, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty")
	if got.status != http.StatusOK || !strings.HasPrefix(got.body, `{"url":"`+loginServer) || ann.cookies["keywright-connect"] == "" {
		t.Errorf("the page got %+v", got)
	}
	if got.header.Get("Access-Control-Allow-Origin") != app || got.header.Get("Access-Control-Allow-Credentials") != "true" {
		t.Errorf("the page cannot read the answer: %v", got.header)
	}
	pre := ann.send(http.MethodOptions, "/connect/crm", "Origin", app, "Access-Control-Request-Method", "DELETE")
	if pre.status != http.StatusNoContent || pre.header.Get("Access-Control-Allow-Methods") != "DELETE" {
		t.Errorf("the preflight got %+v", pre)
	}
	if got := ann.send(http.MethodDelete, "/connect/crm", "Origin", app, "Sec-Fetch-Site", "same-site"); got.status != http.StatusNoContent {
		t.Errorf("disconnecting, the page got %+v", got)
	}
}

// Two tabs of a browser may be under way at once, and each counts.
func TestConsentInSeveralTabs(t *testing.T) {
	w := newConsentWorld(t)
	ann := w.browser("ann")
	one, two := ann.begin("1"), ann.begin("2")
	for code, back := range map[string]string{"1": one, "2": two} {
		if got := ann.finish(back); !strings.Contains(got.body, "is connected") || w.consents.connected() != "ann "+code {
			t.Errorf("tab %s got %+v, and %q is connected", code, got, w.consents.connected())
		}
	}
}

// A session whose cookie browsers do not send from other sites (SameSite=Strict) is missing in the callback.
func TestConsentWithoutTheSessionInTheCallback(t *testing.T) {
	w := newConsentWorld(t)
	ann := w.browser("ann")
	back := ann.begin("c0de")
	delete(ann.cookies, "session")
	if got := ann.finish(back); !strings.Contains(got.body, "is connected") || w.consents.connected() != "ann c0de" {
		t.Errorf("the browser got %+v, and %q is connected", got, w.consents.connected())
	}
}

// A token request under way does not end with the browser, because a code works once.
func TestConsentOfClosedBrowser(t *testing.T) {
	w := newConsentWorld(t)
	ann := w.browser("ann")
	r := w.request(http.MethodGet, ann.begin("c0de"), "")
	r.AddCookie(&http.Cookie{Name: "keywright-connect", Value: ann.cookies["keywright-connect"]})
	ctx, leave := context.WithCancel(t.Context())
	arrived, left, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w.consents.during = func() {
		close(arrived)
		<-left
	}
	handler := w.gateway.Handler()
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer close(done)
		context.AfterFunc(r.Context(), func() { close(left) }) // the server has noticed
		handler.ServeHTTP(rw, r)
	})
	go func() {
		<-arrived
		leave()
	}()
	if _, err := http.DefaultClient.Do(r.WithContext(ctx)); !errors.Is(err, context.Canceled) { //nolint:bodyclose // there is no response
		t.Fatal(err)
	}
	<-done
	if w.consents.connected() != "ann c0de" || w.consents.ended[0] != nil {
		t.Errorf("%q is connected, and the context of the token request ended with %v", w.consents.connected(), w.consents.ended)
	}
}

// newGrantWorld returns a consentWorld whose requests fail with the error of a grant.
func newGrantWorld(t *testing.T, grant func() *host.GrantError) *consentWorld {
	t.Helper()
	return newConsentWorld(t, func(o *options, _ *gateway.Definition) {
		o.Base = testworld.Answer(func(*http.Request) (*http.Response, error) {
			return nil, &host.Error{Stage: host.StageToken, Err: grant()}
		})
	})
}

// A request that needs the account of a user who has not connected one says where that is done.
func TestRequestsWithoutAConnection(t *testing.T) {
	var user string
	w := newGrantWorld(t, func() *host.GrantError { return &host.GrantError{User: user, Condition: host.ConditionNotConnected} })
	for who, c := range map[string]struct {
		path, kind string
		status     int
	}{
		"ann": {"/connectors/crm", "not-connected", http.StatusForbidden},
		"bea": {"/connectors/weather", "authentication-failed", http.StatusBadGateway}, // she cannot connect to it
		"":    {"/connectors/crm", "authentication-failed", http.StatusBadGateway},     // it is the operator's
	} {
		user = who
		got := w.get(c.path, "Cookie", "session=ann")
		if got.status != c.status || got.kind != c.kind || strings.Contains(got.body, "at /connect/crm") != (who == "ann") {
			t.Errorf("%s got %+v", who, got)
		}
	}
}

// While nobody knows what became of a grant, callers learn when to come back. The gateway's log has no line for each of them.
func TestRequestsWithAnUncertainGrant(t *testing.T) {
	var user string
	w := newGrantWorld(t, func() *host.GrantError {
		return &host.GrantError{User: user, Condition: host.ConditionUncertain, RetryAfter: 1100 * time.Millisecond}
	})
	for _, user = range []string{"ann", ""} {
		got := w.get("/connectors/crm", "Cookie", "session=ann")
		if got.status != http.StatusServiceUnavailable || got.kind != "grant-uncertain" || got.header.Get("Retry-After") != "2" {
			t.Errorf("of %q a caller got %+v", user, got)
		}
	}
	if log := w.log.String(); strings.Contains(log, "grant-uncertain") {
		t.Errorf("the log has %s", log)
	}
}

// The log names the user of a grant that is lost, since an operator must know whose it is. It does not name users who have not
// connected an account yet.
func TestWhomTheLogNames(t *testing.T) {
	var condition host.Condition
	w := newGrantWorld(t, func() *host.GrantError { return &host.GrantError{User: "u-4711", Condition: condition} })
	for of, named := range map[host.Condition]bool{host.ConditionNotConnected: false, host.ConditionLost: true, host.ConditionRefused: true} {
		condition = of
		before := len(w.log.String())
		w.get("/connectors/crm", "Cookie", "session=u-4711")
		line := w.log.String()[before:]
		if !strings.Contains(line, `"problem":"not-connected"`) || strings.Contains(line, "u-4711") != named {
			t.Errorf("%s: the log has %s", of, line)
		}
	}
}
