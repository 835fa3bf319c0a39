package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

var run = plugintest.Of(plugin{}, "digest.wasm")

var lion = hosttest.Config{"username": "Mufasa", "password": "{{ get_secret('lion') }}"}

// serve makes a server the API, and its password the secret lion.
func serve(h *hosttest.Harness, s *server) {
	h.Secret("lion", s.password)
	h.API(s.answer)
}

// check sends a request and checks that the server lets it in at the given attempt.
func check(t *testing.T, h *hosttest.Harness, c hosttest.Config, r *http.Request, attempts int) *hosttest.Result {
	t.Helper()
	got := h.Authenticate(c, r)
	if got.Response.StatusCode != http.StatusOK || got.Attempts != attempts {
		t.Fatalf("status %d after %d attempts, not 200 after %d: %s", got.Response.StatusCode, got.Attempts, attempts, got.Header("Authorization"))
	}
	return got
}

// once returns a POST with a body that can be read only once.
func once(body string) *http.Request {
	r := hosttest.POST("https://api.test/things?a=%20b&c", body)
	r.GetBody = nil
	return r
}

// The first request goes out without a credential. The answer to the challenge goes with its repetition, and later requests
// have the nonce from the beginning, with the right count (specification.md 3.23).
func TestEveryAlgorithm(t *testing.T) {
	for _, algorithm := range []string{"SHA-256", "SHA-256-sess", "SHA-512-256", "SHA-512-256-sess", "MD5", "MD5-sess", ""} {
		for _, qop := range []string{"auth", "auth-int", "auth-int, auth", "auth,auth-int"} {
			run.Case(t, algorithm+" "+qop, func(t *testing.T, h *hosttest.Harness) {
				s := newServer(t, algorithm, qop)
				serve(h, s)
				check(t, h, lion, hosttest.GET("https://api.test"), 2)
				for _, r := range []*http.Request{
					hosttest.GET("https://api.test/?"), hosttest.POST("https://api.test/a%2Fb//c;d?e=\"f\"&g=%zz", "a body"),
					once("another body"), hosttest.GET("https://api.test/x#y"),
				} {
					check(t, h, lion, r, 1)
				}
				if s.seen[0] != nil || s.seen[1]["nc"] != "00000001" || s.seen[5]["nc"] != "00000005" || s.nonces != 1 {
					t.Errorf("the server has seen %v", s.seen)
				}
				if want := map[bool]string{true: "auth-int", false: "auth"}[qop == "auth-int"]; s.seen[5]["qop"] != want {
					t.Errorf("qop is %s", s.seen[5]["qop"])
				}
				if s.seen[4]["cnonce"] == s.seen[5]["cnonce"] {
					t.Error("two requests have the same cnonce")
				}
			})
		}
	}
}

// The header is byte for byte this one, but for the cnonce and the response.
func TestHeader(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		s := newServer(t, "SHA-256", "auth")
		s.realm = `The "realm" of \`
		serve(h, s)
		got := check(t, h, lion, hosttest.GET("https://api.test/v1?q=1"), 2).Header("Authorization")
		for _, name := range []string{"cnonce", "response"} {
			got = strings.ReplaceAll(got, read(got)[name], "*")
		}
		const want = `Digest username="Mufasa", realm="The \"realm\" of \\", uri="/v1?q=1", algorithm=SHA-256, nonce="nonce/1+==", ` +
			`nc=00000001, cnonce="*", qop=auth, response="*", opaque="an opaque text"`
		if got != want {
			t.Errorf("%s, not\n%s", got, want)
		}
	})
}

// Servers of RFC 2069 offer no qop. They get neither nc nor, unless there is a session, a cnonce.
func TestServersWithoutQOP(t *testing.T) {
	for algorithm, want := range map[string]bool{"": false, "MD5": false, "MD5-sess": true} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			s := newServer(t, algorithm, "")
			s.opaque = ""
			serve(h, s)
			for _, attempts := range []int{2, 1} {
				p := read(check(t, h, lion, once("body"), attempts).Header("Authorization"))
				if _, hasCount := p["nc"]; hasCount || (p["cnonce"] != "") != want || p["qop"] != "" {
					t.Errorf("p = %v", p)
				}
			}
		})
	}
}

// An answer that the API refuses is not sent again in the same bytes, which would count as another failure. That is so for a nonce
// that the API repeats without qop. With qop, or with another nonce, the second answer differs (threats.md 251).
func TestRefusedAnswer(t *testing.T) {
	for _, tt := range []struct {
		algorithm, qop, nonce string
		attempts              int
	}{
		{"MD5", "", "always this", 1},
		{"MD5", "", "", 2},
		{"MD5-sess", "", "always this", 2},
		{"MD5", "auth", "always this", 2},
	} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			s := newServer(t, tt.algorithm, tt.qop)
			s.constant = tt.nonce
			serve(h, s)
			s.password = "changed at the API"
			plugintest.Answers(t, h, lion, hosttest.GET("https://api.test"), http.StatusUnauthorized, 2)
			got := h.Authenticate(lion, once("a body"))
			if got.Response.StatusCode != http.StatusUnauthorized || got.Attempts != tt.attempts {
				t.Errorf("%+v: status %d after %d attempts", tt, got.Response.StatusCode, got.Attempts)
			}
			answers := map[string]bool{}
			for _, p := range s.seen {
				if p != nil && p["uri"] == s.seen[len(s.seen)-1]["uri"] {
					answers[p["response"]] = true
				}
			}
			if want := len(s.seen) - 2; len(s.seen) == 2+tt.attempts && len(answers) < want {
				t.Errorf("%+v: %d different answers, not %d: %v", tt, len(answers), want, s.seen)
			}
		})
	}
}

// The first answer to a challenge is not repeated either, if no answer was sent when the challenge came, because the store of secrets had
// a failure (threats.md 251).
func TestRefusedFirstAnswer(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		s := newServer(t, "MD5", "")
		s.constant = "always this"
		serve(h, s)
		h.API(func(r *http.Request) (*http.Response, error) {
			h.Secret("lion", "")
			return s.answer(r)
		}, s.answer)
		if _, err := h.Try(lion, hosttest.GET("https://api.test")); err == nil {
			t.Fatal("a request without a password is no error")
		}
		h.Secret("lion", s.password)
		s.password = "changed at the API"
		if got := h.Authenticate(lion, hosttest.GET("https://api.test")); got.Response.StatusCode != http.StatusUnauthorized || got.Attempts != 1 || len(s.seen) != 2 {
			t.Errorf("status %d after %d attempts: %v", got.Response.StatusCode, got.Attempts, s.seen)
		}
	})
}

// A request whose first attempt had no answer, because the nonce was not known yet, gets its answer, also if other requests have
// used the nonce meanwhile.
func TestFirstAnswer(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		s := newServer(t, "MD5", "")
		s.constant = "always this"
		serve(h, s)
		rest := 3
		h.API(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/slow" && r.Header.Get("Authorization") == "" {
				for range rest {
					h.Authenticate(lion, hosttest.GET("https://api.test/other"))
				}
			}
			return s.answer(r)
		})
		check(t, h, lion, hosttest.GET("https://api.test/slow"), 2)
	})
}

// User names go in the quoted parameter, hashed if the server wants that, and in username* if they need it and the server
// knows UTF-8.
func TestUserNames(t *testing.T) {
	for _, test := range []struct{ user, more, parameter, want string }{
		{"Mufasa", "", "username", "Mufasa"},
		{`a "lion" \`, ", charset=UTF-8", "username", `a "lion" \`},
		{"Jäsøn Doe", ", charset=UTF-8", "username*", "UTF-8''J%C3%A4s%C3%B8n%20Doe"},
		{"Jäsøn Doe", `, charset="utf-8", userhash=false`, "username*", "UTF-8''J%C3%A4s%C3%B8n%20Doe"},
		{"Jäsøn Doe", "", "username", "Jäsøn Doe"},
		{"Jäsøn Doe", ", charset=UTF-8, userhash=true", "username", hashOf("MD5")("Jäsøn Doe:savannah")},
	} {
		run.Case(t, test.user+test.more, func(t *testing.T, h *hosttest.Harness) {
			s := newServer(t, "MD5", "auth")
			s.user, s.more = test.user, test.more
			serve(h, s)
			c := hosttest.Config{"username": test.user, "password": "{{ get_secret('lion') }}"}
			p := read(check(t, h, c, hosttest.GET("https://api.test"), 2).Header("Authorization"))
			if p[test.parameter] != test.want {
				t.Errorf("p = %v", p)
			}
		})
	}
}

// The user name may be a secret too.
func TestSecretUserNames(t *testing.T) {
	for _, more := range []string{"", ", charset=UTF-8", ", charset=UTF-8, userhash=true"} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			s := newServer(t, "SHA-512-256", "auth")
			s.user, s.more = h.Canary("user")+`"`, more
			serve(h, s)
			c := hosttest.Config{"username": `{{ get_secret('user') }}"`, "password": "{{ get_secret('lion') }}"}
			check(t, h, c, hosttest.GET("https://api.test"), 2)
		})
	}
}

// An API that wants no credential gets none.
func TestOpenAPI(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("lion")
		got := h.Authenticate(lion, once("a body"))
		body, _ := io.ReadAll(got.Request.Body)
		if got.Attempts != 1 || got.Header("Authorization") != "" || string(body) != "a body" {
			t.Errorf("%d attempts, %v, %s", got.Attempts, got.Request.Header, body)
		}
	})
}

// A body that is too large to be kept is refused before anything is sent.
func TestOversizedBody(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("lion")
		h.Limits(host.Limits{BodyBytes: 9})
		plugintest.Refuses(t, h, lion, once("ten bytes."), host.StageBody, "")
	})
}

// Fields that are missing or unknown are refused at load.
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for want, c := range map[string]hosttest.Config{
			"":                  lion,
			"username password": {},
			"password":          {"username": "u", "password": " "},
			"realm":             {"username": "u", "password": "a password", "realm": "r"},
		} {
			plugintest.Problems(t, h, c, want)
		}
	})
}

// An explanation shows the header for a challenge, and the password as its template.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("lion")
		e := h.Explain(lion, hosttest.GET("https://api.test/v1"))
		if len(e.Added.Headers) != 1 || !strings.HasPrefix(e.Added.Headers[0].Value, `Digest username="Mufasa", realm=`) ||
			!strings.Contains(e.Added.Headers[0].Value, "get_secret('lion')") {
			t.Errorf("added: %+v", e.Added)
		}
	})
}
