package secretstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// loginPause is the least time between logins that follow a 403 or a refused login.
const loginPause = 10 * time.Second

// A login is a source of tokens: a function that returns one, or a request to a path of the server.
type login struct {
	// token returns an existing token, and may return another one later. It is nil if path is set.
	token func() (string, error)
	// path is the path of the login request, or "". body returns the body of the request.
	path string
	body func(context.Context) (any, error)
}

// A session is a token and its lifetime. It is immutable, and is replaced by another session.
type session struct {
	token string
	// life is the lifetime after the login. It is 0 if it is unlimited or unknown.
	life      time.Duration
	renewable bool
	openTime  time.Time
	// updated is the time at which the token was opened or renewed, or its renewal postponed.
	updated time.Time
	// renew is the time from which the token is renewed or replaced. Zero means never.
	renew time.Time
	// ends is the time at which the token expires. Zero means never.
	ends time.Time
	// readTime is the time at which the token file was last read.
	readTime time.Time
}

// newSession returns the session of a token that lives so many seconds. 0 means unlimited or unknown.
func newSession(token string, renewable bool, now time.Time, seconds int64) *session {
	const maxSeconds = 10 * 365 * 24 * 60 * 60 // so that arithmetic cannot overflow
	s := &session{token: token, renewable: renewable, openTime: now, updated: now, readTime: now}
	if seconds > 0 {
		s.life = time.Duration(min(seconds, maxSeconds)) * time.Second
		s.ends = now.Add(s.life)
		s.renew = now.Add(s.life / 3 * 2)
	}
	return s
}

// clockWentBack reports whether the clock was set back, so that the times of the session are wrong.
func (s *session) clockWentBack(now time.Time) bool { return now.Before(s.updated) }

func (s *session) due(now time.Time) bool {
	return s.clockWentBack(now) || !s.renew.IsZero() && !now.Before(s.renew)
}

func (s *session) isExpired(now time.Time) bool {
	return s.clockWentBack(now) || !s.ends.IsZero() && !now.Before(s.ends)
}

// usable returns a session whose token is valid as far as is known. It logs in or renews the token if necessary.
func (v *VaultStore) usable(ctx context.Context) (*session, error) {
	const fileInterval = time.Second // the least time between two reads of a token file
	stale := func(s *session) bool {
		now := v.clock()
		return s.due(now) || s.isExpired(now) || v.login.path == "" && now.Sub(s.readTime) >= fileInterval
	}
	if s := v.session.Load(); s != nil && !stale(s) {
		return s, nil
	}
	return v.replace(ctx, "", func(ctx context.Context, s *session) (*session, error) {
		switch {
		case s != nil && !stale(s):
			return s, nil
		case s == nil || s.isExpired(v.clock()):
			return v.open(ctx)
		case s.due(v.clock()):
			return v.renew(ctx, s)
		}
		return v.rereadToken(ctx, s)
	})
}

// replaceRefused returns a session that replaces s, whose token was refused, or one with the same token if there is no other.
// Callers share a call only if their tokens are the same. Otherwise a caller could get the token that the server refused it.
func (v *VaultStore) replaceRefused(ctx context.Context, s *session) (*session, error) {
	return v.replace(ctx, "refused "+s.token, func(ctx context.Context, current *session) (*session, error) {
		switch now := v.clock(); {
		case current.token != s.token:
			return current, nil
		case v.login.path == "":
			return v.rereadToken(ctx, current)
		case now.Sub(s.openTime) < loginPause && !s.clockWentBack(now):
			return current, nil
		}
		return v.open(ctx)
	})
}

// replace replaces the current session by the result of choose for it, one call after another, and returns it. Callers with the same
// key share a call. Its limit is shorter than their timeout, so that a login does not outlive the caller that started it, and
// callers cannot join one that is about to fail.
func (v *VaultStore) replace(ctx context.Context, key string, choose func(context.Context, *session) (*session, error)) (*session, error) {
	return v.opening.do(ctx, key, v.timeout/4*3, func(ctx context.Context) (*session, error) {
		if v.loginLock.Acquire(ctx, 1) != nil {
			return nil, context.Cause(ctx)
		}
		defer v.loginLock.Release(1)
		s, err := choose(ctx, v.session.Load())
		if err == nil {
			v.session.Store(s)
		}
		return s, err
	})
}

// rereadToken returns a session for the token in the file if it has changed. If the file cannot be read, the token stays in use.
func (v *VaultStore) rereadToken(ctx context.Context, s *session) (*session, error) {
	if token, err := v.login.token(); err == nil && token != s.token {
		return v.lookup(ctx, token)
	}
	same := *s
	same.readTime = v.clock()
	return &same, nil
}

// renew renews the token of a session. If it cannot be renewed, or for less than half of its first lifetime, renew replaces
// it. If neither is possible now, the valid token stays in use and renewal is postponed.
func (v *VaultStore) renew(ctx context.Context, s *session) (*session, error) {
	if s.renewable {
		renewed, err := v.renewed(ctx, s)
		if err == nil && (v.login.path == "" || renewed.ends.IsZero() || renewed.ends.Sub(renewed.updated) >= s.life/2) {
			return renewed, nil
		}
		if err == nil {
			s = renewed
		}
	}
	if v.login.path != "" {
		if newSession, err := v.open(ctx); err == nil {
			return newSession, nil
		}
	}
	later := *s
	now := v.clock()
	later.updated, later.renew = now, now.Add(min(30*time.Second, max(time.Second, s.ends.Sub(now)/4)))
	return &later, nil
}

// open obtains a token, and returns its session. After a refused login it returns the same error for loginPause.
func (v *VaultStore) open(ctx context.Context) (*session, error) {
	if v.login.path == "" {
		token, err := v.login.token()
		if err != nil {
			return nil, err
		}
		return v.lookup(ctx, token)
	}
	if since := v.clock().Sub(v.refusalTime); v.refusal != nil && since >= 0 && since < loginPause {
		return nil, v.refusal
	}
	v.refusal = nil
	body, err := v.login.body(ctx)
	if err != nil {
		return nil, fmt.Errorf("vault cannot be logged in to: %w", err)
	}
	now := v.clock()
	r, err := v.send(ctx, http.MethodPost, v.login.path, "", body)
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusOK {
		err := fmt.Errorf("vault refuses the login at %s: %w", v.login.path, r.unexpected())
		if r.status >= 400 && r.status < 500 && r.status != http.StatusTooManyRequests {
			v.refusal, v.refusalTime = err, now
		}
		return nil, err
	}
	return r.session(now)
}

// lookup returns the session of a token, with the lifetime that the server says, if the policy allows that.
func (v *VaultStore) lookup(ctx context.Context, token string) (*session, error) {
	now := v.clock()
	r, err := v.send(ctx, http.MethodGet, "auth/token/lookup-self", token, nil)
	if err != nil {
		return nil, err
	}
	if r.status == http.StatusForbidden {
		return newSession(token, false, now, 0), nil
	}
	if r.status != http.StatusOK {
		return nil, fmt.Errorf("vault cannot look up the token: %w", r.unexpected())
	}
	var document struct {
		Data struct {
			// TTL is in seconds.
			TTL       int64 `json:"ttl"`
			Renewable bool  `json:"renewable"`
		} `json:"data"`
	}
	if err := r.decode(&document); err != nil {
		return nil, err
	}
	s := newSession(token, document.Data.Renewable, now, document.Data.TTL)
	if !s.renewable {
		s.renew = time.Time{} // it is used until it expires
	}
	return s, nil
}

func (v *VaultStore) renewed(ctx context.Context, s *session) (*session, error) {
	now := v.clock()
	r, err := v.send(ctx, http.MethodPost, "auth/token/renew-self", s.token, struct{}{})
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusOK {
		return nil, r.unexpected()
	}
	renewed, err := r.session(now)
	if err != nil {
		return nil, err
	}
	if renewed.token != s.token {
		return nil, errors.New("another token was renewed")
	}
	renewed.life, renewed.openTime = s.life, s.openTime
	return renewed, nil
}

// session returns the session in a response to a login or a renewal.
func (r *reply) session(now time.Time) (*session, error) {
	var document struct {
		Auth *struct {
			Token string `json:"client_token"`
			// Duration is in seconds.
			Duration  int64 `json:"lease_duration"`
			Renewable bool  `json:"renewable"`
		} `json:"auth"`
	}
	if err := r.decode(&document); err != nil {
		return nil, err
	}
	if document.Auth == nil || !isToken(document.Auth.Token) || len(document.Auth.Token) > maxToken {
		return nil, r.wrong("there is no token in the answer: a login that needs more than one step cannot be used")
	}
	return newSession(document.Auth.Token, document.Auth.Renewable, now, document.Auth.Duration), nil
}
