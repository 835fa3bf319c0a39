package host_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// composedAt returns the text that a guest composes for a request to a URL of an origin.
func composedAt(t *testing.T, origin, url, template string) string {
	t.Helper()
	got := ""
	w := newWorld(t, withoutBuiltIns, withGuest(misusing(composing(&got, template, ""))), func(c *host.Config) { c.Egress.AllowHTTP = true })
	for _, name := range []string{"s", "k", "text"} {
		w.canary(name)
	}
	c, err := w.host.NewConnector(t.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{origin}, Auth: host.Auth{Type: "custom", Config: misused}})
	if err != nil {
		t.Fatal(err)
	}
	w.send(c, request(t, url))
	return got
}

// A port is that of the request, or the default of its scheme.
func TestPortsOfComposedTexts(t *testing.T) {
	for _, c := range []struct{ origin, want string }{
		{"https://api.test:8443", "api.test:8443 api.test 8443 api.test:8443"},
		{"https://[::1]:8443", "[::1]:8443 [::1] 8443 [::1]:8443"},
		{"https://[::1]", "[::1] [::1] 443 [::1]"},
		{"http://api.test", "api.test api.test 80 api.test"},
		{"http://api.test:80", "api.test:80 api.test 80 api.test"},
		{"http://api.test:443", "api.test:443 api.test 443 api.test:443"},
	} {
		if got := composedAt(t, c.origin, c.origin+"/v1", "{host} {hostname} {port} {authority}"); got != c.want {
			t.Errorf("%s is %q, want %q", c.origin, got, c.want)
		}
	}
}

// The times of a text are those of one moment, and its nonces are one nonce of 16 random bytes.
func TestTimesAndNoncesOfText(t *testing.T) {
	const want = "1700000000 1700000000000 2023-11-14T22:13:20Z 20231114T221320Z"
	if got := composed(t, "{timestamp} {timestamp_ms} {iso8601} {time:%Y%m%dT%H%M%SZ}", "", nil); got != want {
		t.Errorf("the times are %q, want %q", got, want)
	}
	nonce := regexp.MustCompile(`^\S+$`)
	first, second, _ := strings.Cut(composed(t, "{nonce|hex} {nonce|hex}", "", nil), " ")
	if first != second || !nonce.MatchString(first) {
		t.Errorf("the nonces are %q and %q", first, second)
	}
	if other := composed(t, "{nonce|hex}", "", nil); other == first || len(other) != len(first) {
		t.Errorf("another call has the nonce %q after %q", other, first)
	}
}

// A query that is added to none begins with a name. A length that is not known is none.
func TestMissingRequestPartTexts(t *testing.T) {
	const added = `{"query":[{"name":"q","value":"1"},{"name":"r","value":"2"}]}`
	unknown := func(_ *world, r *http.Request) {
		r.URL.RawQuery, r.Body, r.ContentLength = "", io.NopCloser(strings.NewReader("body")), -1
	}
	for _, c := range []struct{ template, with, want string }{
		{"{query}", added, "q=1&r=2"},
		{"[{query}]", "", "[]"},
		{"[{content_length}] [{header:content-length}]", "", "[] []"},
		{"{header_names:content-length;host}", "", "host"},
	} {
		if got := composed(t, c.template, c.with, unknown); got != c.want {
			t.Errorf("%s is %q, want %q", c.template, got, c.want)
		}
	}
	if got := composed(t, "{content_length|required}", "", nil); got != "4" {
		t.Errorf("a length that is known is %q", got)
	}
	for _, template := range []string{"{content_length|required}", "{header:content-length|required}", "{query|required}"} {
		refuseComposed(t, template, "", "which is to be signed", unknown)
	}
}

// refuseComposed composes a template for a request, which must fail.
func refuseComposed(t *testing.T, template, with, words string, prepare func(w *world, r *http.Request)) {
	t.Helper()
	ignored := ""
	w := misusedWorld(t, composing(&ignored, template, with))
	r := get(t.Context())
	if prepare != nil {
		prepare(w, r)
	}
	w.refuse(w.connect("custom", misused), r, host.StagePlugin, words)
}

// A template that is the value of a field has the name of the field in its error.
func TestErrorOfATemplateOfAField(t *testing.T) {
	w := misusedWorld(t, func(env contract.Env) (string, error) { return env.Compose(value(env, "text"), nil), nil })
	w.refuse(w.connect("custom", with(misused, "text", "{verb}")), get(t.Context()), host.StagePlugin, "text has {verb}, but there is no such placeholder")
}

// threats.md 271: each part of what compose reads counts: compositions, the headers of the caller and their values.
func TestPartsOfTheBoundOfCompose_threats_271(t *testing.T) {
	const bound = "compose reads more than 2097152 bytes"
	headers := func(n int) string {
		return `{"headers":[` + strings.TrimSuffix(strings.Repeat(`{"name":"v","value":""},`, n), ",") + `]}`
	}
	long := `{"headers":[{"name":"v","value":"` + strings.Repeat("v", 50<<10) + `"}]}`
	callers := func(_ *world, r *http.Request) {
		for i := range 1500 {
			r.Header.Set(fmt.Sprint("X-", i), "")
		}
	}
	longValue := func(_ *world, r *http.Request) { r.Header.Set("X-Long", strings.Repeat("v", 200<<10)) }
	lists := strings.Repeat("{headers:a}{headers:b}", 40)
	refuseComposed(t, strings.Repeat("{header:a}", 2000), "", bound, callers)
	refuseComposed(t, "{headers:a}", headers(2000), bound, callers)
	refuseComposed(t, lists, "", bound, longValue)
	refuseComposed(t, lists, long, bound, nil)
	refuseAll(t, []misuse{{"compositions", func(env contract.Env) (string, error) {
		for range 80 {
			env.Compose("a", []byte(long))
		}
		return "{}", nil
	}, host.StagePlugin, bound}})
	for more := range 2 {
		w := misusedWorld(t, func(env contract.Env) (string, error) {
			for range 64 {
				env.Compose(strings.Repeat("a", 32<<10), nil)
			}
			env.Compose(strings.Repeat("a", more), nil)
			return header("X-Key", value(env, "to_header")), nil
		})
		if c := w.connect("custom", misused); more == 0 {
			w.get(c)
		} else {
			w.refuse(c, get(t.Context()), host.StagePlugin, bound)
		}
	}
}

// What a text has already does not count again, nor does a list of headers that is there again.
func TestComposeReadsOnce(t *testing.T) {
	text := strings.Repeat("a", 50<<10)
	if got := composed(t, text+strings.Repeat("{method}", 100), "", nil); got != text+strings.Repeat("PATCH", 100) {
		t.Errorf("the text has %d bytes", len(got))
	}
	list := "x-b;" + strings.Repeat("none;", 3000)
	for range 8 {
		text += "{headers:" + list + "}{header_names:" + list + "}"
	}
	if got := composed(t, text[50<<10:], "", nil); strings.Count(got, "x-b:1 2,3,4x-b") != 8 {
		t.Errorf("the lists are %q", got)
	}
}
