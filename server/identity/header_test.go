package identity_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/identity"
)

func headerConfig() identity.Config {
	return identity.Config{Mode: identity.ModeHeader, Header: &identity.Header{
		Proxies: []string{"10.1.2.0/24", "2001:db8::7"},
		ID:      "X-Forwarded-User", Email: "x-forwarded-email", LastName: "X-Last-Name",
	}}
}

// threats.md 44: headers from peers other than the proxies are ignored.
func TestHeadersCountOnlyFromTheProxies(t *testing.T) {
	headers := []string{"X-Forwarded-Email", "ann@example.com", "X-Forwarded-User", "u-1", "X-Last-Name", "Doe, Ann"}
	user := host.User{ID: "u-1", Email: "ann@example.com", LastName: "Doe, Ann"}
	for remote, want := range map[string]host.User{
		"10.1.2.3:55555":           user,
		"[::ffff:10.1.2.3]:55555":  user,
		"[2001:db8::7]:1":          user,
		"[2001:db8::7%eth0]:1":     user,
		"10.1.3.3:55555":           {},
		"127.0.0.1:55555":          {},
		"[::1]:55555":              {},
		"[2001:db8::8]:1":          {},
		"203.0.113.9:1":            {},
		"@":                        {},
		"":                         {},
		"10.1.2.3":                 {},
		"10.1.2.3.evil.test:55555": {},
	} {
		t.Run(remote, func(t *testing.T) {
			r := request(append(headers, "X-Forwarded-For", "10.1.2.3", "X-Real-Ip", "10.1.2.3", "Forwarded", "for=10.1.2.3")...)
			r.RemoteAddr = remote
			accepted(t, want)(newSession(t, headerConfig(), nil).User(r))
		})
	}
}

// threats.md 44: a request is refused if another program may find another user in its headers.
func TestAmbiguousHeaders(t *testing.T) {
	good := []string{"X-Forwarded-Email", "ann@example.com"}
	for name, test := range map[string]struct {
		headers []string
		raw     map[string][]string // names as given, not canonical
		err     error
	}{
		"one":                           {},
		"twice":                         {headers: []string{"X-Forwarded-Email", "root@example.com"}, err: identity.ErrAmbiguous},
		"twice, in another case":        {headers: []string{"x-forwarded-EMAIL", "root@example.com"}, err: identity.ErrAmbiguous},
		"twice, the same":               {headers: good, err: identity.ErrAmbiguous},
		"X_Forwarded_Email":             {headers: []string{"X_Forwarded_Email", "root@example.com"}, err: identity.ErrAmbiguous},
		"X-Forwarded_Email":             {headers: []string{"X-Forwarded_Email", "root@example.com"}, err: identity.ErrAmbiguous},
		"X.Forwarded.Email":             {headers: []string{"X.Forwarded.Email", "root@example.com"}, err: identity.ErrAmbiguous},
		"a name that is not canonical":  {raw: map[string][]string{"x-forwarded-email": {"root@example.com"}}, err: identity.ErrAmbiguous},
		"X_Forwarded_User, and no user": {headers: []string{"X_Forwarded_User", "root"}, err: identity.ErrAmbiguous},
		"joined by a comma":             {headers: []string{"X-Forwarded-User", "u-1, root"}, err: identity.ErrAmbiguous},
		"a header of another name":      {headers: []string{"X-Forwarded-Email-2", "root@example.com"}},
		"control characters":            {raw: map[string][]string{"X-Forwarded-User": {"u\x00"}}, err: identity.ErrUnauthenticated},
		"not UTF-8":                     {raw: map[string][]string{"X-Forwarded-User": {"u\xff"}}, err: identity.ErrUnauthenticated},
		"long":                          {headers: []string{"X-Forwarded-User", strings.Repeat("u", 1025)}, err: identity.ErrUnauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(append(test.headers, good...)...)
			r.RemoteAddr = "10.1.2.3:1"
			for key, values := range test.raw {
				r.Header[key] = values
			}
			outcome(t, host.User{Email: "ann@example.com"}, test.err, "root@example.com")(newSession(t, headerConfig(), nil).User(r))
		})
	}
}

func TestRequestsWithoutTheHeaders(t *testing.T) {
	c := headerConfig()
	r := request("X-Last-Name", "Doe")
	r.RemoteAddr = "10.1.2.3:1"
	accepted(t, host.User{LastName: "Doe"})(newSession(t, c, nil).User(r))

	c.Header.Required = true
	refused(t, identity.ErrUnauthenticated)(newSession(t, c, nil).User(r))
	spoofed := request("X-Forwarded-Email", "root@example.com")
	spoofed.RemoteAddr = "203.0.113.9:1"
	refused(t, identity.ErrUnauthenticated)(newSession(t, c, nil).User(spoofed))
}

// threats.md 44, over a real connection, because net/http changes header names.
func TestHeadersOverTheWire(t *testing.T) {
	c := headerConfig()
	c.Header.Proxies = []string{"127.0.0.1"}
	w := newSession(t, c, nil)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		u, err := w.User(r)
		if err != nil {
			http.Error(rw, "refused", http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(rw, u.Email)
	}))
	defer server.Close()
	for lines, want := range map[string]string{
		"X-Forwarded-Email: ann@example.com\r\n":                                            "ann@example.com",
		"x-forwarded-email: ann@example.com\r\n":                                            "ann@example.com",
		"X-FORWARDED-EMAIL: ann@example.com\r\nX-Forwarded-Email: root@example.com\r\n":     "refused",
		"X-Forwarded-Email: ann@example.com\r\nX_FORWARDED_EMAIL: root@example.com\r\n":     "refused",
		"X-Forwarded-Email : root@example.com\r\n":                                          "refused or nobody",
		"Connection: X-Forwarded-Email\r\nX-Forwarded-Email: ann@example.com\r\n":           "ann@example.com",
		"Transfer-Encoding: chunked\r\nTrailer: X-Forwarded-Email\r\nX-Last-Name: Ann\r\n":  "",
		"X-Forwarded-User: u-1\r\nX-Forwarded-Email: ann@example.com, root@example.com\r\n": "refused",
	} {
		conn := testworld.Must(net.Dial("tcp", server.Listener.Addr().String()))(t)
		text := "GET / HTTP/1.1\r\nHost: gateway.test\r\n" + lines + "\r\n"
		if strings.Contains(lines, "chunked") {
			text += "0\r\nX-Forwarded-Email: root@example.com\r\n\r\n"
		}
		_, _ = io.WriteString(conn, text)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%q: err = %v", lines, err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		conn.Close()
		got := strings.TrimSpace(string(body))
		switch {
		case want == "refused or nobody":
			if response.StatusCode != http.StatusBadRequest && got != "" {
				t.Errorf("%q: the user is %q", lines, got)
			}
		case got != want:
			t.Errorf("%q: %q, want %q", lines, got, want)
		}
	}
}

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
			outcome(t, ann, test.err, token)(u, err)
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

func TestNoneLooksAtNothing(t *testing.T) {
	for _, mode := range []string{"", identity.ModeNone} {
		u, err := newSession(t, identity.Config{Mode: mode}, nil).User(request(
			"Authorization", "Bearer a.b.c", "Authorization", "Basic x", "Cookie", "session=x", "X-Forwarded-Email", "root@example.com", "X_Forwarded_Email", "x"))
		accepted(t, host.User{})(u, err)
	}
}
