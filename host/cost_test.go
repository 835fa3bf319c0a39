package host_test

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

// The cost of a check grows no faster than the configuration, and a configuration that is too large has one problem
// (threats.md 55).
func TestCostOfAConfiguration(t *testing.T) {
	h, err := host.New(t.Context(), host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	claims := func(n int, value func(i int) any) map[string]any {
		all := map[string]any{}
		for i := range n {
			all[fmt.Sprintf("claim%d", i)] = value(i)
		}
		return map[string]any{"private_key": "{{ get_secret('k') }}", "claims": all}
	}
	tests := map[string]func(n int) map[string]any{
		"secrets": func(n int) map[string]any {
			return claims(n/10, func(i int) any { return fmt.Sprintf("{{ get_secret('s%d') }}", i) })
		},
		"variables in one text": func(n int) map[string]any {
			return claims(n/250/20, func(i int) any {
				return strings.Repeat(fmt.Sprintf("{{ get_variable('v%d') }}", i), 250)
			})
		},
		"expressions": func(n int) map[string]any {
			return claims(1+n/20_000, func(int) any { return strings.Repeat("{{1}}", 256) })
		},
		"unknown fields": func(n int) map[string]any {
			all := map[string]any{}
			for i := range n {
				all[fmt.Sprintf("clams%d", i)] = "x"
			}
			return all
		},
		"bad expressions": func(n int) map[string]any {
			return claims(n/10, func(int) any { return "{{ nope( }}" })
		},
		"a long name around many": func(n int) map[string]any {
			return claims(1, func(int) any {
				return map[string]any{strings.Repeat("x", 20*n): make([]any, n)}
			})
		},
	}
	for name, config := range tests {
		t.Run(name, func(t *testing.T) {
			cost := func(n int) uint64 {
				c := host.ConnectorConfig{Name: "x", Origins: []string{"https://api.example.com"}, Auth: host.Auth{Type: "jwt", Config: config(n)}}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := h.NewConnector(t.Context(), c)
				runtime.ReadMemStats(&after)
				var wrong *host.ConfigError
				if err != nil && (!errors.As(err, &wrong) || len(wrong.Problems) > 100) {
					t.Fatalf("%d problems: %.200v", len(wrong.Problems), err)
				}
				return after.TotalAlloc - before.TotalAlloc
			}
			half, whole := cost(20_000), cost(40_000)
			if whole > 3*half+2<<20 || whole > 200<<20 {
				t.Errorf("40,000 cost %d bytes, 20,000 %d", whole, half)
			}
		})
	}
}

// A configuration that is too large is refused with one problem, which has the limits (threats.md 55).
func TestOversizedConfiguration(t *testing.T) {
	h, err := host.New(t.Context(), host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	const limit = "is too large: it may have 50000 values, 4 MiB of text, and 512 KiB of texts with expressions"
	connect := func(config map[string]any) error {
		_, err := h.NewConnector(t.Context(), host.ConnectorConfig{Name: "x", Origins: []string{"https://api.example.com"}, Auth: host.Auth{Type: "jwt", Config: config}})
		return err
	}
	for more, large := range []bool{false, true} { // names count too
		err := connect(map[string]any{"private_key": strings.Repeat("x", 4<<20-len("private_key")+more)})
		if err == nil || strings.Contains(err.Error(), limit) != large {
			t.Errorf("with %d bytes too many: %.300v", more, err)
		}
	}
	for more, large := range []bool{false, true} { // config, private_key, claims, a, and the elements of a
		err := connect(map[string]any{"private_key": "k", "claims": map[string]any{"a": make([]any, 50_000-4+more)}})
		if got := err != nil && strings.Contains(err.Error(), limit); got != large {
			t.Errorf("with %d values too many: %.300v", more, err)
		}
	}
	endless := map[string]any{}
	endless["a"], endless["b"] = endless, endless
	for name, claims := range map[string]any{
		"values":          map[string]any{"a": make([]any, 50_001)},
		"text":            map[string]any{"a": strings.Repeat("x", 5<<20)},
		"a name":          map[string]any{strings.Repeat("x", 5<<20): "a"},
		"expressions":     map[string]any{"a": strings.Repeat("{{1}}", 120_000)},
		"a map in itself": endless,
	} {
		err := connect(map[string]any{"private_key": "k", "claims": claims})
		if err == nil || err.Error() != "connectors.x.auth.config: "+limit {
			t.Errorf("%s: err = %.300v", name, err)
		}
	}
}

// threats.md 119: a form that has a member for each of its bytes costs no more than its bytes, whatever the names of the credential.
func TestCostOfAFormOfManyMembers(t *testing.T) {
	w := newWorld(t)
	w.canary("s")
	c := w.connect("api_key", config{"key": "a[b]", "value": "{{ get_secret('s') }}", "in": "form"})
	post := func(members int) (objects uint64) {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, apiURL, strings.NewReader(strings.Repeat("&", members)))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w.send(c, r)
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	post(1)
	if few, many := post(1), post(100_000); many > few+10_000 {
		t.Errorf("100,000 members cost %d objects, and one costs %d", many, few)
	}
}
