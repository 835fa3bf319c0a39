package login

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"
)

// sessionTime is the time for which a login counts.
const sessionTime = 8 * time.Hour

// maxSessions is the maximum number of sessions. The one that ends first is dropped first.
const maxSessions = 1000

// sessions has the sessions of browsers in memory, so that they end with the process.
type sessions struct {
	clock func() time.Time
	mu    sync.Mutex
	// all has the sessions by the digest of the cookie, so that the cookie is not in memory.
	all map[digest]session
}

// A session is the time until which a browser is logged in.
type session struct {
	end time.Time
	// token is the digest of the token of the login. The session ends when it is not that of the file any more.
	token digest
}

func newSessions(clock func() time.Time) *sessions {
	return &sessions{clock: clock, all: map[digest]session{}}
}

// cookieName returns the name of the cookie. With TLS, browsers make sure that no other host and no page without TLS has set it.
func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return "__Host-keywright-operator"
	}
	return "keywright-operator"
}

// cookie returns the cookie of a session. Pages of other sites make no browser send it, and no script reads it.
func cookie(r *http.Request, value string, most time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: cookieName(r), Value: value, Path: "/", MaxAge: int(most / time.Second), Secure: r.TLS != nil, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

// begin begins a session, and returns its cookie.
func (s *sessions) begin(r *http.Request, token digest) *http.Cookie {
	value := rand.Text()
	now := s.clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, old := range s.all {
		if !now.Before(old.end) || !old.token.equals(token) {
			delete(s.all, id)
		}
	}
	for len(s.all) >= maxSessions {
		s.dropFirst()
	}
	s.all[digestOf(value)] = session{end: now.Add(sessionTime), token: token}
	return cookie(r, value, sessionTime)
}

// dropFirst drops the session that ends first. The caller holds s.mu.
func (s *sessions) dropFirst() {
	var first digest
	var end time.Time
	for id, old := range s.all {
		if end.IsZero() || old.end.Before(end) {
			first, end = id, old.end
		}
	}
	delete(s.all, first)
}

// has reports whether a request is of a session that was begun with a token.
func (s *sessions) has(r *http.Request, token digest) bool {
	given, err := r.Cookie(cookieName(r))
	if err != nil {
		return false
	}
	s.mu.Lock()
	found, there := s.all[digestOf(given.Value)]
	s.mu.Unlock()
	return there && s.clock().Before(found.end) && found.token.equals(token)
}

// end ends the session of a request, and returns the cookie that takes the old one out of the browser.
func (s *sessions) end(r *http.Request) *http.Cookie {
	if given, err := r.Cookie(cookieName(r)); err == nil {
		s.mu.Lock()
		delete(s.all, digestOf(given.Value))
		s.mu.Unlock()
	}
	return cookie(r, "", -time.Second)
}
