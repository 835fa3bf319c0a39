package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// A nonce that the server does not know any more is replaced within the same request.
func TestStale(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		s := newServer(t, "SHA-256", "auth")
		serve(h, s)
		check(t, h, lion, hosttest.GET("https://api.test"), 2)
		check(t, h, lion, hosttest.GET("https://api.test"), 1)
		s.forget()
		check(t, h, lion, once("a body"), 2)
		check(t, h, lion, hosttest.GET("https://api.test"), 1)
		if p := s.seen[len(s.seen)-1]; p["nonce"] != "nonce/2+==" || p["nc"] != "00000002" {
			t.Errorf("p = %v", p)
		}
	})
}

// A server of RFC 2069 that forgets its nonces twice gets an answer with the newest one each time.
func TestStaleWithoutQop(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		s := newServer(t, "MD5", "")
		serve(h, s)
		check(t, h, lion, hosttest.GET("https://api.test"), 2)
		for range 3 {
			check(t, h, lion, hosttest.GET("https://api.test"), 1)
			s.forget()
			check(t, h, lion, hosttest.GET("https://api.test"), 2)
		}
	})
}

// A request that comes late, with a nonce that is over, is answered with the nonce that others have used meanwhile: stale=true says that the
// password is right, so that this is no refused answer.
func TestReplacedStaleNonce(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		s := newServer(t, "MD5", "")
		s.constant = "of the first minute"
		serve(h, s)
		check(t, h, lion, hosttest.GET("https://api.test"), 2)
		s.forget()
		s.constant = "of the second minute"
		late := true
		h.API(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/late" && late {
				late = false
				for _, attempts := range []int{2, 1, 1} {
					check(t, h, lion, hosttest.GET("https://api.test/other"), attempts)
				}
			}
			return s.answer(r)
		})
		check(t, h, lion, hosttest.GET("https://api.test/late"), 2)
	})
}

// An opaque that is empty comes back, RFC 7616 section 3.4. Some cameras refuse an answer without it.
func TestEmptyOpaque(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("lion", "the password of a lion")
		challenge := plugintest.Headed(hosttest.JSON(http.StatusUnauthorized, `{}`), "WWW-Authenticate", `Digest realm="zoo", nonce="n1", qop="auth", opaque=""`)
		h.API(challenge, hosttest.JSON(http.StatusOK, `{}`))
		got := h.Authenticate(lion, hosttest.GET("https://api.test"))
		if authorization := got.Header("Authorization"); got.Attempts != 2 || !strings.Contains(authorization, `, opaque=""`) {
			t.Errorf("%d attempts, the last with %s", got.Attempts, authorization)
		}
	})
}

// The number of requests with a nonce has eight digits in hex, RFC 7616 section 3.4.
func TestCount(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		s := newServer(t, "MD5", "auth")
		serve(h, s)
		check(t, h, lion, hosttest.GET("https://api.test"), 2)
		for range 0x102 {
			check(t, h, lion, hosttest.GET("https://api.test"), 1)
		}
		if nc := s.seen[len(s.seen)-1]["nc"]; nc != "00000103" {
			t.Errorf("the count of the last request is %s", nc)
		}
	})
}

// A nextnonce is used for the next request, and counted anew.
func TestNextNonce(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		s := newServer(t, "SHA-256-sess", "auth")
		s.next = true
		serve(h, s)
		check(t, h, lion, hosttest.GET("https://api.test"), 2)
		check(t, h, lion, hosttest.GET("https://api.test"), 1)
		check(t, h, lion, hosttest.GET("https://api.test"), 1)
		if p := s.seen[3]; p["nonce"] != "nonce/3+==" || p["nc"] != "00000001" {
			t.Errorf("p = %v", p)
		}
		s.forget()
		check(t, h, lion, hosttest.GET("https://api.test"), 2)
		check(t, h, lion, hosttest.GET("https://api.test"), 1)
		if p := s.seen[6]; p["nonce"] != "nonce/6+==" || p["nc"] != "00000001" {
			t.Errorf("p = %v", p)
		}
	})
}

// A challenge is kept for a day, for the same user and password (specification.md "how long a challenge is kept").
func TestChallengeLifetime(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		s := newServer(t, "SHA-256", "auth")
		serve(h, s)
		check(t, h, lion, hosttest.GET("https://api.test"), 2)
		h.Advance(24*time.Hour - time.Second)
		check(t, h, lion, hosttest.GET("https://api.test"), 1)
		h.Advance(time.Second)
		check(t, h, lion, hosttest.GET("https://api.test"), 2)
		s.password = "another password of a lion"
		h.Secret("lion", s.password)
		check(t, h, lion, hosttest.GET("https://api.test"), 2)
		personal := hosttest.Config{"username": "{{ user.username }}", "password": "{{ get_secret('lion') }}"}
		for _, s.user = range []string{"ann", "bob"} {
			h.As(host.User{Username: s.user})
			check(t, h, personal, hosttest.GET("https://api.test"), 2)
			check(t, h, personal, hosttest.GET("https://api.test"), 1)
		}
	})
}

// Of several offers, the first that the type knows is answered, whatever else is offered
// (specification.md "which challenge is answered").
func TestOffers(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		s := newServer(t, "MD5", "auth")
		s.offers = []string{
			`Basic realm="x, Digest y", Bearer`, `Digest realm="x", nonce="x", algorithm=SHA-1024, qop="auth"`,
			`Digest realm="x", nonce="x", algorithm=SHA-256, qop="token", Digest realm="x", nonce="x", charset=latin1`,
		}
		serve(h, s)
		check(t, h, lion, hosttest.GET("https://api.test"), 2)
	})
}

// If the API refuses the password, its answer goes to the caller (specification.md "which challenge is answered").
func TestWrongPassword(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		s := newServer(t, "SHA-256", "auth")
		h.API(s.answer)
		h.Secret("lion", "the password of a hyena")
		for range 2 {
			plugintest.Answers(t, h, lion, hosttest.GET("https://api.test"), http.StatusUnauthorized, 2)
		}
	})
}

// A 401 without a challenge of Digest goes to the caller, with one warning. It does not end the use of the nonce.
func TestNoChallenge(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		s := newServer(t, "SHA-256", "auth")
		serve(h, s)
		refuse := plugintest.Headed(hosttest.JSON(401, `{"error":"not yours"}`), "WWW-Authenticate", `Basic realm="x"`)
		h.API(refuse, s.answer, s.answer, refuse, s.answer)
		for _, want := range []struct{ status, attempts int }{{401, 1}, {200, 2}, {401, 1}, {200, 1}} {
			got := h.Authenticate(lion, once("body"))
			body, _ := io.ReadAll(got.Response.Body)
			if got.Response.StatusCode != want.status || got.Attempts != want.attempts || want.status == 401 && string(body) != `{"error":"not yours"}` {
				t.Errorf("status %d after %d attempts, not %v: %s", got.Response.StatusCode, got.Attempts, want, body)
			}
		}
		plugintest.Warns(t, h, "without a challenge of HTTP Digest")
	})
}

// The headers are those of RFC 7616 section 3.9.1, for both algorithms, and of section 3.9.2. The userhash and the response
// of the latter are wrong in the RFC; these are those of erratum 4897.
func TestExamplesOfTheRFC(t *testing.T) {
	const lions = `Digest realm="http-auth@example.org", qop="auth, auth-int", nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", ` +
		`opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS", algorithm=`
	const lion = `Digest username="Mufasa", realm="http-auth@example.org", uri="/dir/index.html", algorithm=`
	const cnonce = `, nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", nc=00000001, cnonce="f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", qop=auth, response=`
	const opaque = `, opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"`
	for _, test := range []struct{ name, user, password, url, challenge, cnonce, want string }{
		{
			"3.9.1 with MD5", "Mufasa", "Circle of Life", "http://www.example.org/dir/index.html", lions + "MD5",
			"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
			lion + "MD5" + cnonce + `"8ca523f5e9506fed4657c9700eebdbec"` + opaque,
		},
		{
			"3.9.1 with SHA-256", "Mufasa", "Circle of Life", "http://www.example.org/dir/index.html", lions + "SHA-256",
			"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
			lion + "SHA-256" + cnonce + `"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"` + opaque,
		},
		{
			"3.9.2", "Jäsøn Doe", "Secret, or not?", "http://api.example.org/doe.json",
			`Digest realm="api@example.org", qop="auth", algorithm=SHA-512-256, nonce="5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK", ` +
				`opaque="HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDnsOS", charset=UTF-8, userhash=true`,
			"NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v",
			`Digest username="793263caabb707a56211940d90411ea4a575adeccb7e360aeb624ed06ece9b0b", realm="api@example.org", ` +
				`uri="/doe.json", algorithm=SHA-512-256, nonce="5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK", nc=00000001, ` +
				`cnonce="NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v", qop=auth, ` +
				`response="3798d4131c277846293534c3edc11bd8a5e4cdcbff78b05db9d95eeb1cec68a5", ` +
				`opaque="HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDnsOS", userhash=true`,
		},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.AllowHTTP()
			h.Secret("password", test.password)
			h.Random(test.cnonce)
			h.API(plugintest.Headed(hosttest.JSON(401, "{}"), "WWW-Authenticate", test.challenge), hosttest.JSON(200, "{}"))
			c := hosttest.Config{"username": test.user, "password": "{{ get_secret('password') }}"}
			plugintest.Sends(t, h, c, hosttest.GET(test.url), test.want)
		})
	}
}
