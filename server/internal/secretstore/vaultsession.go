package secretstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// loginPause is the least time between logins that a 403 or a refused login brings about.
	loginPause = 10 * time.Second
	// fileInterval is how often a token file is looked at, at most.
	fileInterval = time.Second
	// maxLife keeps arithmetic with what a server says from overflowing.
	maxLife = 10 * 365 * 24 * time.Hour
)

// login is how a token is had: it is there already, or comes from a request.
type login struct {
	token   func() (string, error)
	changes bool // the token may be another one later

	path string
	body func() (any, error)
}

// session is a token with what is known of its life. It does not change; another takes its place.
type session struct {
	token     string
	life      time.Duration // that the login gave; 0 when it does not end, or nothing is known
	renewable bool
	opened    time.Time
	updated   time.Time // when it was opened or renewed, or renewing was put off
	renew     time.Time // from when on it is to be renewed or replaced; zero for never
	ends      time.Time // zero for never
	looked    time.Time // when the token file was
}

// refusal is a login that the server did not accept.
type refusal struct {
	err error
	at  time.Time
}

// span returns how long a token lives, from what the server says.
func (s *session) span(now time.Time, seconds int64) time.Duration {
	s.updated, s.looked, s.renew, s.ends = now, now, time.Time{}, time.Time{}
	if seconds <= 0 {
		return 0
	}
	life := maxLife
	if seconds < int64(maxLife/time.Second) {
		life = time.Duration(seconds) * time.Second
	}
	s.ends = now.Add(life)
	s.renew = now.Add(life / 3 * 2)
	return life
}

// back reports whether the clock was set back, and nothing that was reckoned holds.
func (s *session) back(now time.Time) bool { return now.Before(s.updated) }

func (s *session) due(now time.Time) bool {
	return s.back(now) || !s.renew.IsZero() && !now.Before(s.renew)
}

func (s *session) ended(now time.Time) bool {
	return s.back(now) || !s.ends.IsZero() && !now.Before(s.ends)
}

func (s *session) fileDue(now time.Time) bool { return now.Sub(s.looked) >= fileInterval }

// usable returns a session whose token is good as far as one can know.
func (v *vault) usable(ctx context.Context) (*session, error) {
	if s := v.held(); s != nil && !v.stale(s) {
		return s, nil
	}
	return v.opening.do(ctx, "", v.loginTime(), func(ctx context.Context) (*session, error) {
		leave, err := v.enter(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
		s := v.held()
		switch {
		case s != nil && !v.stale(s):
			return s, nil
		case s == nil || s.ended(v.clock()):
			return v.open(ctx)
		case s.due(v.clock()):
			return v.prolong(ctx, s)
		}
		return v.lookAgain(ctx, s)
	})
}

// loginTime is less than what the callers have, so that none is left behind by those who began it, to be joined by others
// when it is about to fail.
func (v *vault) loginTime() time.Duration { return v.timeout / 4 * 3 }

func (v *vault) stale(s *session) bool {
	now := v.clock()
	return s.due(now) || s.ended(now) || v.login.changes && s.fileDue(now)
}

// instead returns a session in the place of one whose token was refused, or the same one when there is no other. Callers
// share a flight only when their tokens are the same: or else one could get the very token that was refused to it.
func (v *vault) instead(ctx context.Context, s *session) (*session, error) {
	return v.opening.do(ctx, "instead of "+s.token, v.loginTime(), func(ctx context.Context) (*session, error) {
		leave, err := v.enter(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
		if now := v.held(); now != nil && now.token != s.token {
			return now, nil
		}
		if v.login.changes {
			return v.lookAgain(ctx, s)
		}
		if v.login.path == "" || v.clock().Sub(s.opened) < loginPause && !s.back(v.clock()) {
			return s, nil
		}
		return v.open(ctx)
	})
}

// enter waits for the turn to replace the session.
func (v *vault) enter(ctx context.Context) (leave func(), err error) {
	select {
	case v.turn <- struct{}{}:
		return func() { <-v.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (v *vault) held() *session {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.session
}

func (v *vault) hold(s *session) *session {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.session = s
	return s
}

// lookAgain takes the token of the file when it is another one. A file that cannot be read leaves the token as it is:
// the server knows when that ends.
func (v *vault) lookAgain(ctx context.Context, s *session) (*session, error) {
	if token, err := v.login.token(); err == nil && token != s.token {
		return v.lookup(ctx, token)
	}
	same := *s
	same.looked = v.clock()
	return v.hold(&same), nil
}

// prolong renews a token, or replaces it when that cannot be or gives little. A token that is still good stays when
// neither is possible now.
func (v *vault) prolong(ctx context.Context, s *session) (*session, error) {
	if s.renewable {
		renewed, err := v.renewed(ctx, s)
		if err == nil && (v.login.path == "" || renewed.ends.IsZero() || renewed.ends.Sub(renewed.updated) >= s.life/2) {
			return v.hold(renewed), nil
		}
		if err == nil {
			s = renewed
		}
	}
	if v.login.path != "" {
		if opened, err := v.open(ctx); err == nil {
			return opened, nil
		}
	}
	later := *s
	now := v.clock()
	later.updated, later.renew = now, now.Add(min(30*time.Second, max(time.Second, s.ends.Sub(now)/4)))
	return v.hold(&later), nil
}

// open gets a token.
func (v *vault) open(ctx context.Context) (*session, error) {
	if v.login.path == "" {
		token, err := v.login.token()
		if err != nil {
			return nil, err
		}
		return v.lookup(ctx, token)
	}
	if since := v.clock().Sub(v.refused.at); v.refused.err != nil && since >= 0 && since < loginPause {
		return nil, v.refused.err
	}
	v.refused = refusal{}
	body, err := v.login.body()
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
			v.refused = refusal{err, now}
		}
		return nil, err
	}
	s, err := r.session(now)
	if err != nil {
		return nil, fmt.Errorf("vault at %s: %w", v.login.path, err)
	}
	s.opened = now
	return v.hold(s), nil
}

// lookup asks what a token is good for. A token may be forbidden to ask; then nothing is known, and it is used as it is.
func (v *vault) lookup(ctx context.Context, token string) (*session, error) {
	now := v.clock()
	r, err := v.send(ctx, http.MethodGet, "auth/token/lookup-self", token, nil)
	if err != nil {
		return nil, err
	}
	s := &session{token: token, opened: now}
	if r.status == http.StatusForbidden {
		s.span(now, 0)
		return v.hold(s), nil
	}
	if r.status != http.StatusOK {
		return nil, fmt.Errorf("vault cannot look up the token: %w", r.unexpected())
	}
	var document struct {
		Data struct {
			TTL       int64 `json:"ttl"` // seconds
			Renewable bool  `json:"renewable"`
		} `json:"data"`
	}
	if err := decode(r.body, &document); err != nil {
		return nil, fmt.Errorf("vault at auth/token/lookup-self: %w", err)
	}
	s.renewable = document.Data.Renewable
	s.life = s.span(now, document.Data.TTL)
	if !s.renewable {
		s.renew = time.Time{} // there is nothing else to be done before it ends
	}
	return v.hold(s), nil
}

// renewed returns the session with the time that renewing its token has brought.
func (v *vault) renewed(ctx context.Context, s *session) (*session, error) {
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
	renewed.life, renewed.opened = s.life, s.opened
	return renewed, nil
}

// session reads the answer to a login or a renewal.
func (r *reply) session(now time.Time) (*session, error) {
	var document struct {
		Auth *struct {
			Token     string `json:"client_token"`
			Duration  int64  `json:"lease_duration"` // seconds
			Renewable bool   `json:"renewable"`
		} `json:"auth"`
	}
	if err := decode(r.body, &document); err != nil {
		return nil, err
	}
	if document.Auth == nil || !isToken(document.Auth.Token) || len(document.Auth.Token) > maxToken {
		return nil, errNoToken
	}
	s := &session{token: document.Auth.Token, renewable: document.Auth.Renewable}
	s.life = s.span(now, document.Auth.Duration)
	return s, nil
}
