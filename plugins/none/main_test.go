package main

import (
	"testing"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

var run = plugintest.Of(plugin{}, "none.wasm")

// The request is sent unchanged, with its own headers and query parameters only (specification.md 3.2).
func TestUnchangedRequest(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		const target = "https://api.test/v1/a%2fb?q=1&q=2&empty&x=%20+%7e;y"
		r := hosttest.GET(target)
		r.Header = map[string][]string{"Accept": {"text/plain"}, "X-Tag": {"one", "two"}, "Authorization": {"Basic bWU6aW1wb3J0YW50"}}
		got := h.Authenticate(nil, r).Request
		if got.URL.String() != target {
			t.Errorf("URL: %s", got.URL)
		}
		if len(got.Header) != 3 || got.Header.Get("Accept") != "text/plain" || len(got.Header["X-Tag"]) != 2 ||
			got.Header.Get("Authorization") != "Basic bWU6aW1wb3J0YW50" {
			t.Errorf("headers: %v", got.Header)
		}
		plugintest.Exchanges(t, h, 0)
	})
}

// The configuration may be absent, null or {}. Any field in it is an error (specification.md "config on none").
func TestConfig(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, config := range map[string]hosttest.Config{"absent or null": nil, "empty": {}} {
			plugintest.Problems(t, h, config, "")
		}
		problems := h.Problems(hosttest.Config{"value": "v", "key": "k"})
		if len(problems) != 2 || problems[0].Path != "auth.config.key" || problems[1].Path != "auth.config.value" {
			t.Errorf("problems: %v", problems)
		}
	})
}
