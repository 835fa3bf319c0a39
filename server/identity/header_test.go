package identity_test

import (
	"bufio"
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
			u, err := newSession(t, headerConfig(), nil).User(r)
			if test.err == nil {
				accepted(t, host.User{Email: "ann@example.com"})(u, err)
				return
			}
			refused(t, test.err, "root@example.com")(u, err)
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
