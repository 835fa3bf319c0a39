package identity_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/identity"
)

// threats.md 43: a request with two tokens, or with one in the wrong place, is refused.
func TestWhereTheTokenStands(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	token := s.token(t, claims())
	const (
		realm   = `Bearer realm="keywright"`
		invalid = realm + `, error="invalid_token"`
		twice   = realm + `, error="invalid_request"`
	)
	for name, test := range map[string]struct {
		bearer    bool
		cookie    string
		headers   []string
		err       error // nil if the user is ann
		challenge string
	}{
		"Bearer":                               {bearer: true, headers: []string{"Authorization", "Bearer " + token}},
		"bearer, in lower case, with spaces":   {bearer: true, headers: []string{"Authorization", "bearer   " + token}},
		"a cookie":                             {cookie: "session", headers: []string{"Cookie", "a=b; session=" + token + "; c=d"}},
		"either, and it is the cookie":         {bearer: true, cookie: "session", headers: []string{"Cookie", "session=" + token}},
		"either, and it is Bearer":             {bearer: true, cookie: "session", headers: []string{"Authorization", "Bearer " + token, "Cookie", "a=b"}},
		"a cookie, and Basic for others":       {cookie: "session", headers: []string{"Cookie", "session=" + token, "Authorization", "Basic YTpi"}},
		"nothing":                              {bearer: true, err: identity.ErrUnauthenticated, challenge: realm},
		"nothing, and a cookie is wanted":      {cookie: "session", err: identity.ErrUnauthenticated},
		"Bearer, but a cookie is wanted":       {cookie: "session", headers: []string{"Authorization", "Bearer " + token}, err: identity.ErrUnauthenticated},
		"a cookie, but Bearer is wanted":       {bearer: true, headers: []string{"Cookie", "session=" + token}, err: identity.ErrUnauthenticated, challenge: realm},
		"a cookie of another name":             {cookie: "session", headers: []string{"Cookie", "Session=" + token + "; xsession=" + token}, err: identity.ErrUnauthenticated},
		"token twice: both places":             {bearer: true, cookie: "session", headers: []string{"Authorization", "Bearer " + token, "Cookie", "session=" + token}, err: identity.ErrAmbiguous, challenge: twice},
		"token twice: two Authorization":       {bearer: true, headers: []string{"Authorization", "Bearer " + token, "Authorization", "Bearer " + token}, err: identity.ErrAmbiguous, challenge: twice},
		"token twice: two cookies":             {cookie: "session", headers: []string{"Cookie", "session=" + token + "; session=" + token}, err: identity.ErrAmbiguous},
		"token twice: two Cookie lines":        {cookie: "session", headers: []string{"Cookie", "session=" + token, "Cookie", "session=x"}, err: identity.ErrAmbiguous},
		"token twice: one of them malformed":   {cookie: "session", headers: []string{"Cookie", "session=" + token + "; session =\"x"}, err: identity.ErrAmbiguous},
		"two tokens in one value":              {bearer: true, headers: []string{"Authorization", "Bearer " + token + ", Bearer " + token}, err: identity.ErrUnauthenticated, challenge: invalid},
		"Basic":                                {bearer: true, headers: []string{"Authorization", "Basic YTpi"}, err: identity.ErrUnauthenticated, challenge: invalid},
		"the token in another scheme":          {bearer: true, headers: []string{"Authorization", "DPoP " + token}, err: identity.ErrUnauthenticated, challenge: invalid},
		"Bearer without a token":               {bearer: true, headers: []string{"Authorization", "Bearer "}, err: identity.ErrUnauthenticated, challenge: invalid},
		"an empty Authorization and a cookie":  {bearer: true, cookie: "session", headers: []string{"Authorization", "", "Cookie", "session=" + token}, err: identity.ErrUnauthenticated, challenge: invalid},
		"an empty cookie":                      {cookie: "session", headers: []string{"Cookie", "session="}, err: identity.ErrUnauthenticated},
		"a quoted cookie":                      {cookie: "session", headers: []string{"Cookie", `session="` + token + `"`}, err: identity.ErrUnauthenticated},
		"a header like Authorization":          {bearer: true, headers: []string{"X-Authorization", "Bearer " + token}, err: identity.ErrUnauthenticated, challenge: realm},
		"headers that a proxy would have made": {bearer: true, headers: []string{"X-Forwarded-Email", "root@example.com", "X-Forwarded-User", "root"}, err: identity.ErrUnauthenticated, challenge: realm},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, s.jwk())
			c.JWT.Bearer, c.JWT.Cookie = test.bearer, test.cookie
			u, err := newSession(t, c, nil).User(request(test.headers...))
			if test.err == nil {
				accepted(t, ann)(u, err)
				return
			}
			refused(t, test.err, token)(u, err)
			var detail *identity.Error
			if errors.As(err, &detail) && detail.Challenge != test.challenge {
				t.Errorf("WWW-Authenticate: %q, want %q", detail.Challenge, test.challenge)
			}
		})
	}
	t.Run("in the query", func(t *testing.T) {
		r := request()
		r.URL.RawQuery = "access_token=" + token
		refused(t, identity.ErrUnauthenticated, token)(newSession(t, config(t, s.jwk()), nil).User(r))
	})
}

func TestSessionsDuringKeyOutage(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	down := newEndpoint(t)
	down.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	_, err := down.session(t).bearer(s.token(t, claims()))
	var detail *identity.Error
	if !errors.As(err, &detail) || !errors.Is(err, identity.ErrUnavailable) {
		t.Fatal(err)
	}
	if detail.Challenge != "" {
		t.Errorf("WWW-Authenticate is %q", detail.Challenge)
	}
}

func TestNoneLooksAtNothing(t *testing.T) {
	for _, mode := range []string{"", identity.ModeNone} {
		u, err := newSession(t, identity.Config{Mode: mode}, nil).User(request(
			"Authorization", "Bearer a.b.c", "Authorization", "Basic x", "Cookie", "session=x", "X-Forwarded-Email", "root@example.com", "X_Forwarded_Email", "x"))
		accepted(t, host.User{})(u, err)
	}
}
