package login_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/operate/login"
)

// guard is a login, with a page behind it that shows that it was reached.
type guard struct {
	*testworld.Canaries
	t       *testing.T
	guarded http.Handler
	now     time.Time
	log     strings.Builder
	// file has the token of operators.
	file, token string
}

const inside = "inside"

func newGuard(t *testing.T, change ...func(*guard, *login.Config)) *guard {
	t.Helper()
	w := &guard{Canaries: testworld.NewCanaries(t), t: t, now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)}
	w.token = w.Word("the token of operators")
	w.file = w.write("operators", w.token+"\n")
	c := login.Config{TokenFile: w.file, Clock: func() time.Time { return w.now }, Logger: slog.New(slog.NewJSONHandler(&w.log, nil))}
	for _, change := range change {
		change(w, &c)
	}
	l := testworld.Must(login.New(c))(t)
	w.guarded = l.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, inside) }))
	t.Cleanup(func() { w.Out("the log", w.log.String()) })
	return w
}

func (w *guard) write(name, content string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), name)
	testworld.Check(w.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// A change changes a request.
type change func(*http.Request)

func bearer(token string) change {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func cookie(c *http.Cookie) change { return func(r *http.Request) { r.AddCookie(c) } }

func peer(address string) change { return func(r *http.Request) { r.RemoteAddr = address } }

func browser(r *http.Request) { r.Header.Set("Accept", "text/html,application/xhtml+xml") }

func overTLS(r *http.Request) { r.TLS = &tls.ConnectionState{} }

// answered is an answer whose body has been read.
type answered struct{ *http.Response }

func (w *guard) do(method, target, form string, changes ...change) answered {
	w.t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, target, strings.NewReader(form))
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, change := range changes {
		change(r)
	}
	recorded := httptest.NewRecorder()
	w.guarded.ServeHTTP(recorded, r)
	w.Out("the answer of "+target, recorded.Body.String())
	w.Out("the header of the answer of "+target, fmt.Sprint(recorded.Header()))
	return answered{recorded.Result()}
}

func (w *guard) logIn(changes ...change) *http.Cookie {
	w.t.Helper()
	answer := w.do(http.MethodPost, "/login", url.Values{"token": {w.token}, "to": {"/secrets?sort=name"}}.Encode(), changes...)
	if at := answer.Header.Get("Location"); answer.StatusCode != http.StatusSeeOther || at != "/secrets?sort=name" || len(answer.Cookies()) != 1 {
		w.t.Fatalf("the login is answered %d, goes to %q and has %d cookies", answer.StatusCode, at, len(answer.Cookies()))
	}
	return answer.Cookies()[0]
}

func (w *guard) gets(what string, want int, changes ...change) {
	w.t.Helper()
	if got := w.do(http.MethodGet, "/secrets", "", changes...).StatusCode; got != want {
		w.t.Errorf("%s: %d, want %d", what, got, want)
	}
}

// threats.md 156: who has no token gets nothing of the operators' listener.
func TestAllowedUsers(t *testing.T) {
	w := newGuard(t)
	w.gets("nobody", 401)
	w.gets("the token", 200, bearer(w.token))
	w.gets("the token, in a scheme in small letters", 200, func(r *http.Request) { r.Header.Set("Authorization", "bearer "+w.token) })
	w.gets("another token", 401, bearer(w.token+"x"))
	w.gets("no token", 401, bearer(""))
	w.gets("the token in another scheme", 401, func(r *http.Request) { r.Header.Set("Authorization", "Basic "+w.token) })
	w.gets("two tokens", 401, bearer(w.token), func(r *http.Request) { r.Header.Add("Authorization", "Bearer x") })
	w.gets("the token as a cookie", 401, cookie(&http.Cookie{Name: "keywright-operator", Value: w.token}))
	w.gets("an empty cookie", 401, cookie(&http.Cookie{Name: "keywright-operator"}))
	w.gets("a person", 303, browser)
	answer := w.do(http.MethodGet, "/debug/pprof/profile?seconds=1", "")
	if challenge := answer.Header.Get("WWW-Authenticate"); !strings.HasPrefix(challenge, "Bearer ") {
		t.Errorf("a program is answered %d with the challenge %q", answer.StatusCode, challenge)
	}
	answer = w.do(http.MethodGet, "/secrets?sort=name", "", browser)
	if at := answer.Header.Get("Location"); at != "/login?to=%2Fsecrets%3Fsort%3Dname" {
		t.Errorf("a person is sent to %s", at)
	}
	if answer := w.do(http.MethodPost, "/connectors/orders/test", "", browser); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a form of nobody is answered %d", answer.StatusCode)
	}
}

// threats.md 157: the session of a browser ends, and its cookie is of no use elsewhere.
func TestSession(t *testing.T) {
	w := newGuard(t)
	session := w.logIn()
	if !session.HttpOnly || session.SameSite != http.SameSiteStrictMode || session.Path != "/" || session.Domain != "" || session.MaxAge != 8*60*60 || session.Secure {
		t.Errorf("the cookie is %+v", session)
	}
	if session.Value == w.token || len(session.Value) < 26 {
		t.Errorf("the cookie's value is %q", session.Value)
	}
	if secure := w.logIn(overTLS); !secure.Secure || secure.Name != "__Host-keywright-operator" {
		t.Errorf("with TLS, the cookie is %+v", secure)
	} else {
		w.gets("the session of a connection with TLS", 200, overTLS, cookie(secure))
	}
	w.gets("the session", 200, cookie(session))
	w.now = w.now.Add(8*time.Hour - time.Second)
	w.gets("the session at its end", 200, cookie(session))
	w.now = w.now.Add(time.Second)
	w.gets("the session after its end", 401, cookie(session))

	session = w.logIn()
	answer := w.do(http.MethodPost, "/logout", "", cookie(session))
	if gone := answer.Cookies(); len(gone) != 1 || gone[0].MaxAge >= 0 || gone[0].Name != session.Name {
		t.Errorf("the logout sets %v", gone)
	}
	w.gets("the session after the logout", 401, cookie(session))
	session = w.logIn()
	answer = w.do(http.MethodPost, "/logout", "", cookie(session), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	if answer.StatusCode != http.StatusForbidden || len(answer.Cookies()) > 0 {
		t.Errorf("a page of another site logs an operator out: %d", answer.StatusCode)
	}
	w.gets("the session after the logout of another site", 200, cookie(session))

	session = w.logIn()
	before := w.token
	w.token = w.Word("the next token")
	testworld.Check(t, os.WriteFile(w.file, []byte(w.token), 0o600))
	w.gets("the session after a change of the token", 401, cookie(session))
	w.gets("the token before", 401, bearer(before))
	w.gets("the new token", 200, bearer(w.token))
}

// threats.md 157: sessions take no memory without end.
func TestManySessions(t *testing.T) {
	w := newGuard(t)
	first := w.logIn()
	for range 999 {
		w.now = w.now.Add(time.Second)
		w.logIn()
	}
	w.gets("the first session", 200, cookie(first))
	last := w.logIn()
	w.gets("the first session, after too many", 401, cookie(first))
	w.gets("the last session", 200, cookie(last))
}

// threats.md 156: who tries tokens is stopped, and operators are not.
func TestGuesses(t *testing.T) {
	w := newGuard(t)
	session := w.logIn(peer("192.0.2.7:1111"))
	for range 20 {
		w.gets("a guess", 401, peer("192.0.2.7:2222"), bearer("guess"))
	}
	w.gets("one guess too many", 429, peer("192.0.2.7:3333"), bearer("guess"))
	w.gets("the right one among them", 429, peer("192.0.2.7:3333"), bearer(w.token))
	if answer := w.do(http.MethodPost, "/login", "token="+w.token, peer("192.0.2.7:3333")); answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" {
		t.Errorf("the form is answered %d", answer.StatusCode)
	}
	w.gets("a session from there", 200, peer("192.0.2.7:3333"), cookie(session))
	w.gets("another address", 200, peer("192.0.2.8:3333"), bearer(w.token))
	w.now = w.now.Add(6 * time.Second)
	w.gets("a guess after a while", 401, peer("192.0.2.7:3333"), bearer("guess"))
	w.gets("the next one", 429, peer("192.0.2.7:3333"), bearer("guess"))
	w.now = w.now.Add(6 * time.Second)
	for range 100 {
		w.gets("the right one", 200, peer("192.0.2.7:3333"), bearer(w.token))
	}

	for i := range 20 { // of one network
		w.do(http.MethodPost, "/login", "token=guess", peer(fmt.Sprintf("[2001:db8::%x]:1", i)))
	}
	w.gets("a neighbour of the guesses", 429, peer("[2001:db8::ffff]:1"), bearer(w.token))
	w.gets("another network", 200, peer("[2001:db8:0:1::1]:1"), bearer(w.token))
	if lines := strings.Count(w.log.String(), "a wrong token"); lines != 41 {
		t.Errorf("the log has %d wrong tokens, want 41", lines)
	}
}

// A token for the metrics is good for these alone (threats.md 158).
func TestTokenForMetrics(t *testing.T) {
	token := ""
	w := newGuard(t, func(w *guard, c *login.Config) {
		token = w.Word("the token for the metrics")
		c.MetricsTokenFile = w.write("metrics", token)
	})
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/metrics", 200},
		{http.MethodPost, "/metrics", 401},
		{http.MethodGet, "/debug/pprof/heap", 401},
		{http.MethodPost, "/connectors/orders/test", 401},
		{http.MethodGet, "/", 401},
	} {
		if got := w.do(c.method, c.path, "", bearer(token)).StatusCode; got != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, got, c.want)
		}
	}
	if answer := w.do(http.MethodPost, "/login", "token="+token); answer.StatusCode != http.StatusUnauthorized || len(answer.Cookies()) > 0 {
		t.Errorf("a login with it is answered %d", answer.StatusCode)
	}
}

// threats.md 156: a session of a user counts if it has the claim of operators.
func TestClaim(t *testing.T) {
	sessions := map[string]map[string]any{
		"operator": {"role": "operator"}, "one of several": {"role": []any{"user", "operator"}}, "user": {"role": "user"},
		"a name with the word": {"role": "operator user"}, "none": {},
	}
	claims := func(r *http.Request) (map[string]any, error) {
		given, err := r.Cookie("session")
		if err != nil {
			return nil, &identity.Error{}
		}
		if given.Value == "down" {
			return nil, fmt.Errorf("%w: no keys", identity.ErrUnavailable)
		}
		name, _ := url.QueryUnescape(given.Value)
		return sessions[name], nil
	}
	of := func(name string) change { return cookie(&http.Cookie{Name: "session", Value: url.QueryEscape(name)}) }
	by := func(c *login.Config) { c.Claim, c.Value, c.Claims = "role", "operator", claims }
	alone := newGuard(t, func(_ *guard, c *login.Config) {
		by(c)
		c.TokenFile = ""
	})
	both := newGuard(t, func(_ *guard, c *login.Config) { by(c) })
	for name, want := range map[string]int{"operator": 200, "one of several": 200, "user": 403, "a name with the word": 403, "none": 403, "down": 503} {
		alone.gets(name, want, of(name))
		both.gets(name, want, of(name))
	}
	alone.gets("no session", 401)
	alone.gets("a person who is a user", 403, browser, of("user"))
	both.gets("a person who is a user, and may have the token", 303, browser, of("user"))
	both.gets("the token", 200, bearer(both.token))
	for i, who := range []string{"user", "down"} { // threats.md 156: somebody else's session makes a guess no better
		from := peer(fmt.Sprintf("192.0.2.%d:1111", i))
		for range 20 {
			both.gets("a guess", map[string]int{"user": 403, "down": 503}[who], of(who), from, bearer("guess"))
		}
		both.gets("one guess too many", 429, of(who), from, bearer("guess"))
		both.gets("an operator's session from there", 200, of("operator"), from, bearer("guess"))
	}
	if lines := strings.Count(both.log.String(), "a wrong token"); lines != 40 {
		t.Errorf("the log has %d wrong tokens, want 40", lines)
	}
	if answer := alone.do(http.MethodPost, "/login", "token=x"); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a login without tokens is answered %d", answer.StatusCode)
	}
	if answer := alone.do(http.MethodGet, "/login", "", of("operator")); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("an operator is asked to log in: %d", answer.StatusCode)
	}
	if answer := alone.do(http.MethodGet, "/login", "", browser); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the page without a form is answered %d", answer.StatusCode)
	}
}

// threats.md 159: a login leads to a page of the listener and nowhere else.
func TestLoginStaysHere(t *testing.T) {
	w := newGuard(t)
	for to, want := range map[string]string{
		"/secrets?x=1": "/secrets?x=1", "": "/", "https://evil.example/": "/", "//evil.example/": "/", `/\evil.example`: "/", "javascript:alert(1)": "/",
		"/\t/evil.example": "/", "evil": "/", "/login": "/", "/logout?x": "/",
	} {
		answer := w.do(http.MethodPost, "/login", url.Values{"token": {w.token}, "to": {to}}.Encode())
		if at := answer.Header.Get("Location"); at != want {
			t.Errorf("%q leads to %q, want %q", to, at, want)
		}
	}
	recorded := httptest.NewRecorder()
	w.guarded.ServeHTTP(recorded, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/login?to="+url.QueryEscape(`/"><script>alert(1)</script>`), nil))
	if page := recorded.Body.String(); strings.Contains(page, "<script") || !strings.Contains(page, "&lt;script") {
		t.Errorf("the page is %s", page)
	}
	if policy := recorded.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("the policy of the page is %q", policy)
	}
}

// threats.md 156: a file that cannot be read lets nobody in, and one that anybody could guess or read is refused.
func TestTokenFiles(t *testing.T) {
	w := newGuard(t)
	for name, c := range map[string]struct{ content, want string }{
		"empty":     {"", "has less than 16 bytes"},
		"short":     {"0123456789abcde\n", "has less than 16 bytes"},
		"long":      {strings.Repeat("x", 5000), "has more than 4096 bytes"},
		"two lines": {"0123456789abcdef\n0123456789abcdef\n", "has blanks"},
		"binary":    {"0123456789abcdef\x80", "has blanks"},
	} {
		_, err := login.New(login.Config{TokenFile: w.write(strings.ReplaceAll(name, " ", "-"), c.content)})
		if err == nil || !strings.Contains(err.Error(), c.want) || c.content != "" && strings.Contains(err.Error(), c.content) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	open, writable := w.write("open", "0123456789abcdef"), w.write("writable", "0123456789abcdef")
	testworld.Check(t, errors.Join(os.Chmod(open, 0o644), os.Chmod(writable, 0o602)))
	for name, c := range map[string]struct {
		config login.Config
		want   string
	}{
		"open to everybody": {login.Config{TokenFile: open}, "is open to everybody on this machine (its mode is 0644): chmod o= it"},
		"others may write":  {login.Config{TokenFile: writable}, "is open to everybody on this machine (its mode is 0602)"},
		"missing":           {login.Config{TokenFile: "/nowhere/token"}, "no such file"},
		"a directory":       {login.Config{TokenFile: t.TempDir()}, "is no regular file"},
		"none":              {login.Config{}, "nobody could log in"},
		"the same twice":    {login.Config{TokenFile: w.file, MetricsTokenFile: w.write("copy", w.token)}, "have the same token"},
	} {
		testworld.WantError(t, name, testworld.ErrorOf(login.New(c.config)), c.want)
	}

	session := w.logIn()
	testworld.Check(t, os.Remove(w.file))
	for range 3 {
		w.gets("the token of a file that is gone", 503, bearer(w.token))
		w.gets("a session of it", 503, cookie(session))
	}
	if lines := strings.Count(w.log.String(), "cannot be read"); lines != 1 {
		t.Errorf("the log says %d times that the file is gone", lines)
	}
	testworld.Check(t, os.WriteFile(w.file, []byte(w.token), 0o600))
	w.gets("the token of a file that is back", 200, bearer(w.token))
}
