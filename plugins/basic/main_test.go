package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

var run = plugintest.Of(plugin{}, "basic.wasm")

func get() *http.Request { return hosttest.GET("https://api.test/v1?a=b") }

// The header is that of RFC 7617 sections 2 and 2.1, whose charset is UTF-8 (specification.md 3.21).
func TestVectors(t *testing.T) {
	for name, test := range map[string]struct {
		username, password string
		want               string
	}{
		"RFC 7617 section 2":        {"Aladdin", "open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
		"RFC 7617 section 2.1":      {"test", "123£", "Basic dGVzdDoxMjPCow=="},
		"user name with a slash":    {"ann@example.com/token", "a-token-0123", "Basic YW5uQGV4YW1wbGUuY29tL3Rva2VuOmEtdG9rZW4tMDEyMw=="},
		"colons in the password":    {"ann", "a:b:c:d:e:f", "Basic YW5uOmE6YjpjOmQ6ZTpm"},
		"no user name":              {"", "a-personal-token", "Basic OmEtcGVyc29uYWwtdG9rZW4="},
		"user name beyond ASCII":    {"ännchen", "pässwörter", "Basic w6RubmNoZW46cMOkc3N3w7ZydGVy"},
		"user name that is a space": {" ", "a-password", "Basic IDphLXBhc3N3b3Jk"},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("pw", test.password)
			c := hosttest.Config{"username": test.username, "password": "{{ get_secret('pw') }}"}
			if test.username == "" {
				delete(c, "username")
			}
			r := get()
			r.Header.Set("Authorization", "Bearer of-the-caller")
			got := h.Authenticate(c, r)
			user, password, ok := got.Request.BasicAuth()
			if got.Header("Authorization") != test.want || user != test.username || password != test.password || !ok {
				t.Errorf("Authorization: %s, of %q and %q", got.Header("Authorization"), user, password)
			}
			if len(got.Request.Header) != 1 || got.Request.URL.RawQuery != "a=b" {
				t.Errorf("%s with %v", got.Request.URL, got.Request.Header)
			}
		})
	}
}

// A key may be the user name, without a password, as some APIs have it (specification.md "one of the two is enough").
func TestAKeyAsUserName(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		secret := "sk_" + strings.ReplaceAll(h.Canary("random"), ":", "")
		h.Secret("key", secret)
		got := h.Authenticate(hosttest.Config{"username": "{{ get_secret('key') }}"}, get())
		if user, password, _ := got.Request.BasicAuth(); user != secret || password != "" {
			t.Errorf("%q and %q", user, password)
		}
	})
}

// A user name with a colon or a control character is refused: when the connector is loaded if it is a literal, and otherwise before the
// request is sent, also one in a secret (specification.md 3.21).
func TestInvalidUserNames(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("pw")
		h.Secret("user", "ann-a:part")
		config := func(username string) hosttest.Config {
			return hosttest.Config{"username": username, "password": "{{ get_secret('pw') }}"}
		}
		const text = "holds a colon, where a server ends the user name, or a control character: put what follows a colon into password"
		for _, username := range []string{"ann:part", ":", "a\nb", "a\x7f"} {
			plugintest.Problem(t, h, config(username), "username: "+text)
			h.As(host.User{Email: username})
			plugintest.Refuses(t, h, config("{{ user.email }}"), get(), host.StageConfig, "username "+text)
		}
		h.As(host.User{Email: "ann@example.com"})
		h.Authenticate(config("{{ user.email }}"), get())
		for _, username := range []string{"{{ get_secret('user') }}", "a{{ get_secret('user') }}"} {
			plugintest.Refuses(t, h, config(username), get(), host.StageConfig, "username "+text)
		}
	})
}

// A request without a credential is not sent (specification.md "one of the two is enough").
func TestNoCredential(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for text, c := range map[string]hosttest.Config{
			"neither username nor password": {},
			"holds no credential":           {"username": "ann"},
		} {
			plugintest.Refuses(t, h, c, get(), "", text)
		}
		h.Secret("pw", " ")
		err := h.AuthenticateError(hosttest.Config{"username": "ann", "password": "{{ get_secret('pw') }}"}, get())
		if err.Stage != host.StageTemplate {
			t.Errorf("a blank password: stage %s: %v", err.Stage, err)
		}
	})
}

// A 401 goes to the caller: the credential is the same the next time.
func TestARefusal(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("pw")
		h.API(hosttest.JSON(401, `{}`))
		plugintest.Answers(t, h, hosttest.Config{"username": "ann", "password": "{{ get_secret('pw') }}"}, get(), http.StatusUnauthorized, 1)
	})
}

// An explanation shows where user name and password come from, and no password.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("pw")
		e := h.Explain(hosttest.Config{"username": "ann", "password": "{{ get_secret('pw') }}"}, get())
		if len(e.Added.Headers) != 1 || e.Added.Headers[0].Value != "Basic base64(ann:{{ get_secret('pw') }})" {
			t.Errorf("added: %+v", e.Added)
		}
	})
}
