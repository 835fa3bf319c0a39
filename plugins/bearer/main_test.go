package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
)

func run(t *testing.T, test func(*testing.T, *hosttest.Harness)) {
	t.Helper()
	hosttest.Run(t, plugin{}, "bearer.wasm", test)
}

// config returns a configuration with a token. Pairs of name and value add fields.
func config(pairs ...any) hosttest.Config {
	c := hosttest.Config{"token": "{{ get_secret('crm') }}"}
	for i := 0; i < len(pairs); i += 2 {
		c[pairs[i].(string)] = pairs[i+1]
	}
	return c
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
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, h *hosttest.Harness) {
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
		for name, r := range map[string]*http.Request{"JSON": json, "GET": get()} {
			if err := h.AuthenticateError(config("in", "form"), r); err.Stage != host.StageMutation {
				t.Errorf("%s: stage %s: %v", name, err.Stage, err)
			}
		}
	})
}

// A prefix is one word. A literal one is checked when the connector is loaded, and another before the request is sent.
func TestInvalidPrefixes(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		for _, prefix := range []string{"Bearer ", "Token token=", "Bearer:", "a b", " ", "a\r\nb"} {
			problems := h.Problems(config("prefix", prefix))
			if len(problems) != 1 || problems[0].Path != "auth.config.prefix" || !strings.Contains(problems[0].Message, "api_key") {
				t.Errorf("%q: problems = %v", prefix, problems)
			}
			h.As(host.User{ID: prefix})
			if err := h.AuthenticateError(config("prefix", "{{ user.id }}"), get()); !strings.Contains(err.Error(), "prefix is not one word") {
				t.Errorf("%q: err = %v", prefix, err)
			}
		}
		for _, in := range []string{"query", "form"} {
			if problems := h.Problems(config("in", in, "prefix", "Token")); len(problems) != 1 || !strings.Contains(problems[0].Message, "unless in is header") {
				t.Errorf("in %s: %v", in, problems)
			}
			if problems := h.Problems(config("in", in)); problems != nil {
				t.Errorf("in %s: %v", in, problems)
			}
		}
	})
}

// A token is required, and no request without it is sent. A line break in it is an error.
func TestInvalidTokens(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("crm", "a-token\nX-Evil: 1")
		if err := h.AuthenticateError(config(), get()); err.Stage != host.StageMutation || !strings.Contains(err.Error(), "line break") {
			t.Errorf("stage %s: %v", err.Stage, err)
		}
		h.Secret("crm", " ")
		if err := h.AuthenticateError(config(), get()); err.Stage != host.StageTemplate {
			t.Errorf("stage %s: %v", err.Stage, err)
		}
		var paths []string
		for _, problem := range h.Problems(hosttest.Config{"in": "cookie", "key": "a"}) {
			paths = append(paths, problem.Path)
		}
		if got := strings.Join(paths, " "); got != "auth.config.token auth.config.in auth.config.key" {
			t.Errorf("problems at %s", got)
		}
	})
}

// A 401 goes to the caller: the token is the same the next time.
func TestARefusal(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		h.API(hosttest.JSON(401, `{}`))
		if got := h.Authenticate(config(), get()); got.Response.StatusCode != http.StatusUnauthorized || got.Attempts != 1 {
			t.Errorf("%d after %d attempts", got.Response.StatusCode, got.Attempts)
		}
	})
}
