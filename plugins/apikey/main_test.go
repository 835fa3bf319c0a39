package main

import (
	"io"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

var run = plugintest.Of(plugin{}, "apikey.wasm")

func config(key, in string) hosttest.Config {
	return hosttest.Config{"key": key, "value": "{{ get_secret('crm') }}", "in": in}
}

// The key replaces a header of the same name, in any case of letters
// (specification.md 3.3, specification.md "header present already" and "names that are allowed").
func TestHeader(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		const header = "x-api-key" // not the canonical form of net/http
		secret := h.Canary("crm")
		for _, name := range []string{"X-API-Key", "Accept", "Cookie", "Authorization"} {
			r := hosttest.GET("https://api.test/v1?a=b")
			r.Header = map[string][]string{"X-Api-Key": {"old", "older"}, header: {"oldest"}, "Accept": {"text/html"}}
			got := h.Authenticate(config(name, "header"), r)
			if values := got.Request.Header.Values(name); len(values) != 1 || values[0] != secret {
				t.Errorf("%s: values = %q", name, values)
			}
			if got.Request.URL.RawQuery != "a=b" {
				t.Errorf("%s: query %q", name, got.Request.URL.RawQuery)
			}
			for field := range got.Request.Header {
				if field == header && name == "X-API-Key" {
					t.Error("a header of the same name in another case is still there")
				}
			}
			if r.Header.Get("X-Api-Key") != "old" {
				t.Error("the caller's request was changed")
			}
		}
	})
}

// The key is appended to the query, and the URL is otherwise unchanged
// (specification.md 3.4, specification.md "query is appended").
func TestQuery(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("crm", "a b&c=d/ü+1")
		const credential = "my%20key=a%20b%26c%3Dd%2F%C3%BC%2B1"
		for target, want := range map[string]string{
			"https://api.test/v1":                          credential,
			"https://api.test/v1?":                         credential,
			"https://api.test/v1?a=b&a=%7e":                "a=b&a=%7e&" + credential,
			"https://api.test/v1?my+key=mine&my%20key;&=x": "my+key=mine&my%20key;&=x&" + credential,
			"https://api.test/v1?a;c=%zz&&{{now()}}":       "a;c=%zz&&{{now()}}&" + credential,
		} {
			got := h.Authenticate(config("my key", "query"), hosttest.GET(target))
			if got.Request.URL.RawQuery != want {
				t.Errorf("%s: got.Request.URL.RawQuery = %q", target, got.Request.URL.RawQuery)
			}
			if len(got.Request.Header) != 0 {
				t.Errorf("%s: headers %v", target, got.Request.Header)
			}
		}
	})
}

// The key replaces a placeholder in the path, percent-encoded except for the characters that a segment may have
// (specification.md 3.20).
func TestPath(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, test := range []struct{ secret, key, target, want string }{
			{"110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "{token}", "https://api.test/bot{token}/getMe?a={token}", "/bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/getMe"},
			{"T00000000/B00000000/XXXXXXXXXXXX", "{path}", "https://api.test/services/{path}", "/services/T00000000/B00000000/XXXXXXXXXXXX"},
			{"a b?c#d%e;ü", "TOKEN", "https://api.test/TOKEN/%2F/x", "/a%20b%3Fc%23d%25e%3B%C3%BC/%2F/x"},
		} {
			h.Secret("crm", test.secret)
			got := h.Authenticate(config(test.key, "path"), hosttest.GET(test.target))
			if got.Request.URL.EscapedPath() != test.want || len(got.Request.Header) != 0 || strings.Contains(got.Request.URL.RawQuery, test.secret) {
				t.Errorf("%s: %s with %v", test.target, got.Request.URL, got.Request.Header)
			}
		}
		for text, test := range map[string]struct{ secret, target string }{
			"leads elsewhere":  {"a-secret/../other", "https://api.test/{token}"},
			"holds no {token}": {"a-secret", "https://api.test/v1"},
		} {
			h.Secret("crm", test.secret)
			plugintest.Refuses(t, h, config("{token}", "path"), hosttest.GET(test.target), host.StageMutation, text)
		}
	})
}

// The key replaces a cookie of the same name, and other cookies stay (specification.md 3.20).
func TestCookie(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("crm", "a-session-0123")
		r := hosttest.GET("https://api.test/v1")
		r.Header.Set("Cookie", "a=b; sid=old; sid2=c")
		got := h.Authenticate(config("sid", "cookie"), r)
		if got.Header("Cookie") != "a=b; sid2=c; sid=a-session-0123" || len(got.Request.Header) != 1 {
			t.Errorf("headers: %v", got.Request.Header)
		}
		h.Secret("crm", "a-session;evil=1")
		plugintest.Refuses(t, h, config("sid", "cookie"), r, host.StageMutation, "")
	})
}

// The key is appended to a form (specification.md 3.20).
func TestForm(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("crm", "a b&c=d/ü+1")
		r := hosttest.POST("https://api.test/v1", "a=b&a=%7e")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		got := h.Authenticate(config("my key", "form"), r)
		body, err := io.ReadAll(got.Request.Body)
		if string(body) != "a=b&a=%7e&my+key=a+b%26c%3Dd%2F%C3%BC%2B1" || err != nil {
			t.Errorf("body: %s, %v", body, err)
		}
		plugintest.Refuses(t, h, config("key", "form"), hosttest.GET("https://api.test/v1"), host.StageMutation, "")
	})
}

// Literal names that no cookie or placeholder can have are refused at load.
func TestNamesOfCookiesAndPlaceholders(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		for in, names := range map[string][]string{"cookie": {"a b", "a=b", "a;b", "é"}, "path": {"a/b", "{a}?", "#a", "%7Ba%7D"}} {
			for _, name := range names {
				plugintest.Problems(t, h, config(name, in), "key")
			}
		}
		for in, name := range map[string]string{"cookie": "Host", "path": "{any thing}", "form": "a b", "query": "a/b"} {
			plugintest.Problems(t, h, config(name, in), "")
		}
	})
}

// Any field may contain get_secret, also key and in (specification.md "secrets anywhere").
func TestEveryFieldMayBeATemplate(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("name", "X-Secret-Name")
		h.Secret("in", "header")
		h.Secret("crm", "the value itself")
		h.As(host.User{Email: "ann@example.com"})
		got := h.Authenticate(hosttest.Config{
			"key": "{{ get_secret('name') }}", "in": "{{ get_secret('in') }}", "value": "{{ user.email }}:{{ get_secret('crm') }}",
		}, hosttest.GET("https://api.test"))
		if got.Header("X-Secret-Name") != "ann@example.com:the value itself" {
			t.Errorf("headers: %v", got.Request.Header)
		}
	})
}

// Literal names of forbidden headers are refused at load, others when the request is made
// (specification.md "names that are refused", threats.md 26).
func TestInvalidHeaderNames(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		for _, name := range []string{
			// The names are in unusual case because the module's data has the usual forms, and the search for leaked secrets
			// would find them there.
			"Host", "content-LENGTH", "Transfer-ENCODING", "ConnECTION", "TE", "Trailer", "Upgrade", "Keep-ALIVE",
			"Proxy-AUTHORIZATION", "proxy-anything", "X Key", "X-Key:", "X-Kéy", "X-Key\r\nX-Other", "",
		} {
			problems := h.Problems(config(name, "header"))
			if len(problems) == 0 || problems[0].Path != "auth.config.key" {
				t.Errorf("%q as a literal: %v", name, problems)
			}
			h.Secret("name", name)
			_, err := h.Try(config("{{ get_secret('name') }}", "header"), hosttest.GET("https://api.test"))
			if err == nil {
				t.Errorf("%q from a template was sent", name)
			}
		}
		plugintest.Problems(t, h, config("Host", "query"), "")
	})
}

// A request with a bad value fails before anything is sent
// (specification.md "required field renders to empty", "CR, LF, NUL in header" and "secret not found", specification.md 3.5,
// threats.md 26, 35a).
func TestRefusedRequests(t *testing.T) {
	header := config("X-Key", "header")
	for _, test := range []struct {
		name   string
		secret string
		config hosttest.Config
		stage  host.Stage
		text   string
	}{
		{"empty secret", "", header, host.StageTemplate, "empty"},
		{"blank secret", " \t", header, host.StageTemplate, "empty"},
		{"line break", "good\r\nX-Evil: 1", header, host.StageMutation, "X-Key"},
		{"NUL", "good\x00bytes", header, host.StageMutation, "X-Key"},
		{
			"missing secret", "good bytes",
			hosttest.Config{"key": "X-Key", "value": "{{ get_secret('other') }}", "in": "header"},
			host.StageTemplate, `secret "other"`,
		},
		{
			"no user", "good bytes",
			hosttest.Config{"key": "X-Key", "value": "{{ user.email }}", "in": "header"},
			host.StageTemplate, "value",
		},
		{
			"in is none of these", "cookie!!",
			hosttest.Config{"key": "X-Key", "value": "v", "in": "{{ get_secret('crm') }}"},
			host.StageConfig, "in is none of header, query, path, cookie, form",
		},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("crm", test.secret)
			plugintest.Refuses(t, h, test.config, hosttest.GET("https://api.test"), test.stage, test.text)
		})
	}
}

// The text of a secret is not rendered as a template (specification.md "rendered once", threats.md 17).
func TestTemplateLikeSecret(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("crm", "{{ get_secret('other') }}")
		h.Secret("other", "what must stay where it is")
		got := h.Authenticate(config("X-Key", "header"), hosttest.GET("https://api.test"))
		if got.Header("X-Key") != "{{ get_secret('other') }}" {
			t.Errorf("X-Key: %s", got.Header("X-Key"))
		}
	})
}

// All problems are reported at once, each with its path (specification.md "every problem at once"). The field in has five values
// (specification.md 3.5).
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		plugintest.Problems(t, h, hosttest.Config{"key": 5, "in": "Header", "extra": true}, "key value in extra")
	})
}

// The alias apikey works as api_key does, and causes one warning for a connector
// (specification.md 1.4, specification.md "type apikey").
func TestAlias(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		secret := h.Canary("crm")
		h.Type("apikey")
		for range 3 {
			got := h.Authenticate(config("X-Key", "header"), hosttest.GET("https://api.test"))
			if got.Header("X-Key") != secret {
				t.Errorf("X-Key: %s", got.Header("X-Key"))
			}
		}
		if w := h.Warnings(); len(w) != 1 || !strings.Contains(w[0], "deprecated") || !strings.Contains(w[0], "api_key") {
			t.Errorf("warnings: %q", w)
		}
	})
}

// An explanation shows the source of the header's value, and not the value.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		e := h.Explain(config("X-Key", "header"), hosttest.GET("https://api.test"))
		if len(e.Added.Headers) != 1 || e.Added.Headers[0].Value != "{{ get_secret('crm') }}" {
			t.Errorf("added: %+v", e.Added)
		}
	})
}
