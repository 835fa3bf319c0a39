package login

import (
	"crypto/rand"
	"net/http"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// sessionTime is the time for which a login counts.
const sessionTime = 8 * time.Hour

// maxSessions is the maximum number of sessions. The one that began first, and so ends first, is dropped first.
const maxSessions = 1000

// sessions has the sessions of browsers in memory, so that they end with the process.
type sessions struct {
	clock func() time.Time
	// all has the sessions by the digest of the cookie, so that the cookie is not in memory.
	all *lru.Cache[digest, session]
}

// A session is the time until which a browser is logged in.
type session struct {
	end time.Time
	// token is the digest of the token of the login. The session ends when it is not that of the file any more.
	token digest
}

func newSessions(clock func() time.Time) *sessions {
	all, _ := lru.New[digest, session](maxSessions) // the only error is for sizes below one
	return &sessions{clock: clock, all: all}
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
