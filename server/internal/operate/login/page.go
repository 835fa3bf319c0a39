package login

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // for the page
	"encoding/base64"
	"encoding/hex"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/statedb"
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

// hasForm reports whether operators may log in with a token.
func (l *Login) hasForm() bool { return l.config.TokenFile != "" || l.config.TokensDir != "" }

func (l *Login) show(w http.ResponseWriter, status int, p *page) {
	p.Style = template.CSS(loginCSS) //nolint:gosec // it is part of this program
	p.Form, p.Claim, p.Value = l.hasForm(), l.config.Claim, l.config.Value
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
	if !l.hasForm() {
		_, denial := l.byClaim(r)
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
	if !l.hasForm() {
		http.NotFound(w, r)
		return
	}
	token := digestOf(text)
	operator, err := (*Operator)(nil), error(nil)
	var status int
	right := l.guesses.begin(r.RemoteAddr)
	if right != nil && text != "" {
		operator, err = l.operator(r.Context(), token)
	}
	switch {
	case err != nil && operator == nil:
		status, p.Problem = http.StatusServiceUnavailable, "The token of operators cannot be read. The log says why."
	case right == nil:
		status, p.Problem = errTooMany.status, "There were too many wrong tokens from this address. Try again in a minute."
	case text == "":
		status, p.Problem = http.StatusBadRequest, "The token is missing."
	case operator == nil:
		l.wrong(r)
		status, p.Problem = http.StatusUnauthorized, "This is not the token of operators."
	default:
		right()
		http.SetCookie(w, l.sessions.begin(r, token))
		l.config.Acted(r, operator.Name, "login", true)
		l.config.Logger.LogAttrs(r.Context(), slog.LevelInfo, "an operator has logged in", slog.String("operator", operator.Name), slog.String("peer", r.RemoteAddr))
		http.Redirect(w, r, p.To, http.StatusSeeOther)
		return
	}
	l.show(w, status, p)
}

func (l *Login) leave(w http.ResponseWriter, r *http.Request) {
	if first, there := l.sessions.find(r); there {
		if operator, _ := l.operator(r.Context(), first); operator != nil {
			l.config.Acted(r, operator.Name, "logout", true)
		}
	}
	old, err := l.sessions.end(r)
	if err != nil { // the browser keeps the cookie, so that it can end the session later
		l.show(w, http.StatusServiceUnavailable, &page{Problem: "The session cannot be ended now, because the store of state does not answer. Load this page again in a moment."})
		return
	}
	http.SetCookie(w, old)
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

const sessionTime = 8 * time.Hour

// A sharedSession is a session of all nodes. Its end is under the seal, too: who can write to the store makes none longer.
type sharedSession struct {
	// ID and Token are the digests of the cookie and of the token of the login.
	ID, Token string
	End       time.Time
}

var sharedSessions = &records.Table[sharedSession]{
	Kind: statedb.KindSession, Lifetime: sessionTime, Key: func(s sharedSession) []string { return []string{s.ID} },
}

// sessions has the sessions of browsers in memory, so that they end with the process, and in shared, if there is that.
type sessions struct {
	clock  func() time.Time
	shared *records.Store
	// all has the sessions by the digest of the cookie, so that the cookie is not in memory. The one that began first, and so ends first,
	// is dropped first.
	all *lru.Cache[digest, session]
}

// A session is the time until which a browser is logged in.
type session struct {
	end time.Time
	// token is the digest of the token of the login. The session ends when nobody has the token any more.
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
	value := rand.Text()
	id := digestOf(value)
	end := s.clock().Add(sessionTime)
	s.all.Add(id, session{end: end, token: token})
	if s.shared != nil {
		_ = sharedSessions.Put(r.Context(), s.shared, sharedSession{id.text(), token.text(), end}) // without it, it is a session of this process
	}
	return cookie(r, value, sessionTime)
}

// find returns the token with which the session of a request began, and reports whether it has one. A session that ended at another node has
// ended here. While the store does not answer, those of this process go on.
func (s *sessions) find(r *http.Request) (token digest, there bool) {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return digest{}, false
	}
	id := digestOf(c.Value)
	if s.shared != nil {
		found, ok, err := sharedSessions.Get(r.Context(), s.shared, id.text())
		if sum, bad := hex.DecodeString(found.Value.Token); err == nil && bad == nil {
			return digest(append(sum, make([]byte, sha256.Size)...)[:sha256.Size]), ok && s.clock().Before(found.Value.End)
		}
	}
	found, there := s.all.Peek(id) // which leaves the order as it is
	return found.token, there && s.clock().Before(found.end)
}

// end ends the session of a request at all nodes, and returns the cookie that takes the old one out of the browser.
func (s *sessions) end(r *http.Request) (removal *http.Cookie, err error) {
	if c, missing := r.Cookie(cookieName(r)); missing == nil {
		id := digestOf(c.Value)
		s.all.Remove(id)
		if s.shared != nil {
			err = sharedSessions.Delete(r.Context(), s.shared, id.text())
		}
	}
	return cookie(r, "", -time.Second), err
}

func (d digest) text() string { return hex.EncodeToString(d[:]) }
