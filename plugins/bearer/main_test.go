package main

import (
	"io"
	"net/http"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

var run = plugintest.Of(plugin{}, "bearer.wasm")

// config returns a configuration with a token. Pairs of name and value add fields.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{"token": "{{ get_secret('crm') }}"}, pairs...)
}

func get() *http.Request { return hosttest.GET("https://server.example.com/resource?x=y") }

// token is that of the examples in RFC 6750 section 2.
const token = "mF_9.B5f-4.1JqM"

// The header is that of RFC 6750 section 2.1, or has another prefix (specification.md 3.22).
func TestHeader(t *testing.T) {
	for name, test := range map[string]struct {
		config hosttest.Config
		want   string
	}{
		"RFC 6750 section 2.1": {config(), "Bearer " + token},
		"said so":              {config("in", "header", "prefix", "Bearer"), "Bearer " + token},
		"Token":                {config("prefix", "Token"), "Token " + token},
		"GenieKey":             {config("prefix", "GenieKey"), "GenieKey " + token},
		"no prefix":            {config("prefix", ""), token},
		"from a template":      {config("prefix", "{{ get_variable('scheme') }}"), "SSWS " + token},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("crm", token)
			h.Variable("scheme", "SSWS")
			r := get()
			r.Header.Set("Authorization", "Basic of-the-caller")
			got := h.Authenticate(test.config, r)
			if values := got.Request.Header["Authorization"]; len(values) != 1 || values[0] != test.want {
				t.Errorf("Authorization: %q", values)
			}
			if len(got.Request.Header) != 1 || got.Request.URL.RawQuery != "x=y" {
				t.Errorf("%s with %v", got.Request.URL, got.Request.Header)
			}
		})
	}
}

// The query is that of RFC 6750 section 2.3, and Cache-Control keeps the answer out of caches (specification.md 3.22).
func TestQuery(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("crm", token)
		got := h.Authenticate(config("in", "query"), get())
		if got.Request.URL.RawQuery != "x=y&access_token="+token || got.Header("Cache-Control") != "no-store" || len(got.Request.Header) != 1 {
			t.Errorf("%s with %v", got.Request.URL, got.Request.Header)
		}
	})
}

// The form is that of RFC 6750 section 2.2. A request whose body is no form is not sent (specification.md 3.22).
func TestForm(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("crm", token)
		const form = "application/x-www-form-urlencoded"
		for _, test := range []struct{ contentType, body, want string }{
			{form, "a=b&c=", "a=b&c=&access_token=" + token},
			{"", "", "access_token=" + token},
		} {
			r := hosttest.POST("https://server.example.com/resource", test.body)
			if test.contentType != "" {
				r.Header.Set("Content-Type", test.contentType)
			}
			got := h.Authenticate(config("in", "form"), r)
			body, err := io.ReadAll(got.Request.Body)
			if string(body) != test.want || err != nil || got.Header("Content-Type") != form || got.Header("Authorization") != "" {
				t.Errorf("body = %s, got.Request.Header = %v, err = %v", body, got.Request.Header, err)
			}
		}
		json := hosttest.POST("https://server.example.com/resource", "{}")
		json.Header.Set("Content-Type", "application/json")
		for _, r := range map[string]*http.Request{"JSON": json, "GET": get()} {
			plugintest.Refuses(t, h, config("in", "form"), r, host.StageMutation, "")
		}
	})
}

// A prefix is one word. A literal one is checked when the connector is loaded, and another before the request is sent.
func TestInvalidPrefixes(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		for _, prefix := range []string{"Bearer ", "Token token=", "Bearer:", "a b", " ", "a\r\nb"} {
			plugintest.Problem(t, h, config("prefix", prefix), "prefix: is not one word, such as Token: for another form of the header, use the type api_key")
			h.As(host.User{ID: prefix})
			plugintest.Refuses(t, h, config("prefix", "{{ user.id }}"), get(), "", "prefix is not one word")
		}
		for _, in := range []string{"query", "form"} {
			plugintest.Problem(t, h, config("in", in, "prefix", "Token"), "prefix: has no effect unless in is header")
			plugintest.Problems(t, h, config("in", in), "")
		}
	})
}

// A token is required, and no request without it is sent. A line break in it is an error.
func TestInvalidTokens(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("crm", "a-token\nX-Evil: 1")
		plugintest.Refuses(t, h, config(), get(), host.StageMutation, "line break")
		h.Secret("crm", " ")
		plugintest.Refuses(t, h, config(), get(), host.StageTemplate, "")
		plugintest.Problems(t, h, hosttest.Config{"in": "cookie", "key": "a"}, "token in key")
	})
}

// A 401 goes to the caller: the token is the same the next time.
func TestARefusal(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		h.API(hosttest.JSON(401, `{}`))
		plugintest.Answers(t, h, config(), get(), http.StatusUnauthorized, 1)
	})
}
