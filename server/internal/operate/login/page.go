package login

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // for the page
	"encoding/base64"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// page is the content of the page for those who have not logged in. It has no script.
type page struct {
	Style template.CSS
	// Form reports whether the page asks for a token.
	Form bool
	// To is the path to which a login leads.
	To string
	// Problem says what is wrong. It is empty if nothing is.
	Problem string
	// Claim and Value are those of Config.
	Claim, Value string
}

//go:embed login.html
var loginHTML string

//go:embed login.css
var loginCSS string

var loginPage = template.Must(template.New("login").Parse(loginHTML))

// pagePolicy allows the style of the page, and its form. No page may show it in a frame.
var pagePolicy = func() string {
	digest := sha256.Sum256([]byte(loginCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

func (l *Login) show(w http.ResponseWriter, status int, p *page) {
	p.Style = template.CSS(loginCSS) //nolint:gosec // it is part of this program
	p.Form, p.Claim, p.Value = l.token != nil, l.config.Claim, l.config.Value
	var b bytes.Buffer
	if err := loginPage.Execute(&b, p); err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	(&refusal{status: status}).retry(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// ask shows the page with the form.
func (l *Login) ask(w http.ResponseWriter, r *http.Request) {
	p := &page{To: local(r.URL.Query().Get("to"))}
	status := http.StatusOK
	if l.token == nil {
		denial := l.byClaim(r)
		if denial == nil {
			http.Redirect(w, r, p.To, http.StatusSeeOther)
			return
		}
		p.Problem, status = denial.text, denial.status
	}
	l.show(w, status, p)
}

// enter begins a session, if the form has the token.
func (l *Login) enter(w http.ResponseWriter, r *http.Request) {
	const maxForm = 16 << 10 // limits the body of a login, in bytes
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read", http.StatusBadRequest)
		return
	}
	p := &page{To: local(r.PostForm.Get("to"))}
	text := strings.TrimSpace(r.PostForm.Get("token"))
	if l.token == nil {
		http.NotFound(w, r)
		return
	}
	expected, err := l.token.expected(r.Context())
	var status int
	switch right := l.guesses.begin(r.RemoteAddr); {
	case err != nil:
		status, p.Problem = http.StatusServiceUnavailable, "The token of operators cannot be read. The log says why."
	case right == nil:
		status, p.Problem = errTooMany.status, "There were too many wrong tokens from this address. Try again in a minute."
	case text == "":
		status, p.Problem = http.StatusBadRequest, "The token is missing."
	case !digestOf(text).equals(expected):
		l.wrong(r)
		status, p.Problem = http.StatusUnauthorized, "This is not the token of operators."
	default:
		right()
		http.SetCookie(w, l.sessions.begin(r, expected))
		l.config.Logger.LogAttrs(r.Context(), slog.LevelInfo, "an operator has logged in", slog.String("peer", r.RemoteAddr))
		http.Redirect(w, r, p.To, http.StatusSeeOther)
		return
	}
	l.show(w, status, p)
}

func (l *Login) leave(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, l.sessions.end(r))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// loginURL returns the URL of the login that leads back to a path.
func loginURL(to string) string {
	if to = local(to); to == "/" {
		return "/login"
	}
	return "/login?to=" + url.QueryEscape(to)
}

// local returns to if it is a path of this listener, and / otherwise. Browsers take some paths for the URL of another host.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, `\`) ||
		u.Path == "/login" || u.Path == "/logout" {
		return "/"
	}
	return to
}

// sessions has the sessions of browsers in memory, so that they end with the process.
type sessions struct {
	clock func() time.Time
	// all has the sessions by the digest of the cookie, so that the cookie is not in memory. The one that began first, and so ends first,
	// is dropped first.
	all *lru.Cache[digest, session]
}

// A session is the time until which a browser is logged in.
type session struct {
	end time.Time
	// token is the digest of the token of the login. The session ends when it is not that of the file any more.
	token digest
}

// cookieName returns the name of the cookie. With TLS, browsers make sure that no other host and no page without TLS has set it.
func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return "__Host-keywright-operator"
	}
	return "keywright-operator"
}

// cookie returns the cookie of a session. Pages of other sites make no browser send it, and no script reads it.
func cookie(r *http.Request, value string, maxAge time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: cookieName(r), Value: value, Path: "/", MaxAge: int(maxAge / time.Second), Secure: r.TLS != nil, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

// begin begins a session, and returns its cookie.
func (s *sessions) begin(r *http.Request, token digest) *http.Cookie {
	const sessionTime = 8 * time.Hour // for which a login counts
	value := rand.Text()
	s.all.Add(digestOf(value), session{end: s.clock().Add(sessionTime), token: token})
	return cookie(r, value, sessionTime)
}

// contains reports whether a request is of a session that was begun with a token.
func (s *sessions) contains(r *http.Request, token digest) bool {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return false
	}
	found, there := s.all.Peek(digestOf(c.Value)) // which leaves the order as it is
	return there && s.clock().Before(found.end) && found.token.equals(token)
}

// end ends the session of a request, and returns the cookie that takes the old one out of the browser.
func (s *sessions) end(r *http.Request) *http.Cookie {
	if c, err := r.Cookie(cookieName(r)); err == nil {
		s.all.Remove(digestOf(c.Value))
	}
	return cookie(r, "", -time.Second)
}
