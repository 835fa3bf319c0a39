package host_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// composing returns a guest that composes a template and adds the text to got.
func composing(got *string, template, with string) func(contract.Env) (string, error) {
	return sendsKeyAfter(func(env contract.Env) {
		*got = regexp.MustCompile(contract.SealedPrefix+`[a-z0-9]{26}`).ReplaceAllString(env.Compose(template, []byte(with)), "sealed")
	})
}

// composed returns the text that a guest composes for a request.
func composed(t *testing.T, template, with string, prepare func(w *world, r *http.Request)) string {
	t.Helper()
	got := ""
	w := misusedWorld(t, composing(&got, template, with))
	r := must(http.NewRequestWithContext(t.Context(), http.MethodPatch, "https://api.test/a%2fb//./c/../%7E?b=2&a=1%20+&b=1&é", strings.NewReader("body")))(t)
	r.Header = http.Header{
		"X-B": {" 1 \t 2  ", "3"}, "x-b": {"4"}, "X-A-1": {"a"}, "X-A-2": {"b"}, "Sec-X": {"c"}, "X-Empty": {""},
		"Authorization": {"of the caller"}, "Cookie": {"a=b"}, "Proxy-Authorization": {"c"}, "Content-Length": {"77"}, "Host": {"other"},
	}
	if prepare != nil {
		prepare(w, r)
	}
	w.send(w.connect("custom", misused), r)
	return got
}

// A guest gets a text of the outgoing request, with the headers and the query that it is about to add.
func TestTextsOfARequest(t *testing.T) {
	const changes = `{"headers":[{"name":"x-b","value":" new "}],"query":[{"name":"q &","value":"/"}],"values":[{"name":"v","value":"{method}\\n"},{"name":"host","value":"mine"}]}`
	for _, c := range []struct{ template, with, want string }{
		{"", "", ""},
		{`a\n\t\r\\\{method}}`, "", "a\n\t\r\\{method}}"},
		{"{method} {scheme} {host} {hostname} {port} {authority}", "", "PATCH https api.test api.test 443 api.test"},
		{"{path}", "", "/a%2fb//./c/../%7E"},
		{"{path|path_normalized}", "", "/a%2fb/%7E"},
		{"{path|path_normalized|path_percent}", "", "/a%252fb/%257E"},
		{"{path|path_reencoded}", "", "/a/b//./c/../~"},
		{"{query}", "", "b=2&a=1%20+&b=1&é"},
		{"{query|query_sorted}", "", "%C3%A9=&a=1%20%20&b=1&b=2"},
		{"{query|query_sorted}", changes, "%C3%A9=&a=1%20%20&b=1&b=2&q%20%26=%2F"},
		{"{target}", changes, "/a%2fb//./c/../%7E?b=2&a=1%20+&b=1&é&q%20%26=%2F"},
		{"{url}", "", "https://api.test/a%2fb//./c/../%7E?b=2&a=1%20+&b=1&é"},
		{"{query_param:a} {query_param:%61|required}[{query_param:x}]", "", "1%20%20 1%20%20[]"},
		{"{query_names:A;z} {query_names:*} [{query_names:x}]", "", "a b;a;b;%C3%A9 []"},
		{"{content_length} {header:content-length} {header:HOST}", "", "4 4 api.test"},
		{"[{header:x-b}] [{header:X-Empty|required}] [{header:x-none}]", "", "[1 \t 2, 3, 4] [] []"},
		{"[{header:X-B}]", changes, "[new]"},
		{"{headers:x-*;!x-a-*}", "", "x-b:1 2,3,4\nx-empty:"},
		{"{header_names:*;!X-A-*}|{headers:!x-*;*;!sec-*;!content-length}", "", "content-length;host;sec-x;x-b;x-empty|host:api.test"},
		{"{headers:host;x-b;x-none}", changes, "host:api.test\nx-b:new"},
		{"{v} {host}", changes, `{method}\n mine`},
		{"{method|lower|upper|hex|hex_upper|base64|base64url|base32|percent|form|quoted}", "", ""},
		{"{body|sha256|hex}", "", "230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5"},
		{"{config:text} {config:url} [{config:algorithm}]", "", "plain sealed " + tokenURL + " [HS256]"},
	} {
		got := composed(t, c.template, c.with, nil)
		if formats := c.want == "" && c.template != ""; !formats && got != c.want || formats && (got == "" || strings.Contains(got, "PATCH")) {
			t.Errorf("%s is %q, want %q", c.template, got, c.want)
		}
	}
}

// threats.md 270: what the request input does not have, no text has either. A text from a secret is sealed before anything is
// made of it, so that neither a digest nor the order of parameters shows something of it.
func TestComposedTextsHoldNoCredential_threats_270(t *testing.T) {
	secret := func(w *world, r *http.Request) {
		s := w.secrets["s"]
		r.Header.Set("X-B", "a "+s+" b")
		delete(r.Header, "x-b")
		r.URL.RawQuery = "z=1&k=" + url.QueryEscape(s)
		r.URL.Path, r.URL.RawPath = "/"+s, "/"+url.PathEscape(s)
	}
	for template, want := range map[string]string{
		"{path} {query} {header:x-b}":               "/sealed z=1&k=sealed a sealed b",
		"{target}\n{url}":                           "/sealed?z=1&k=sealed\nhttps://api.test/sealed?z=1&k=sealed",
		"{headers:x-b}":                             "x-b:a sealed b",
		"{header:x-b|sha256|hex} {path|sha256|hex}": "sealed sealed",
		"{query|query_sorted}":                      "sealed",
		"{path|path_percent}":                       "sealed",
		"{query_param:k}":                           "sealed",
		"{headers:authorization;cookie;proxy-*}":    "",
	} {
		if got := composed(t, template, "", secret); got != want {
			t.Errorf("%s is %q, want %q", template, got, want)
		}
	}
	if got := composed(t, "{header_names:*}", "", nil); strings.Contains(got, "authorization") || strings.Contains(got, "cookie") {
		t.Errorf("the names %s", got)
	}
	compose := func(template string) func(contract.Env) (string, error) {
		ignored := ""
		return composing(&ignored, template, "")
	}
	refuseAll(t, []misuse{
		{"Authorization", compose("{header:AUTHORIZATION}"), host.StagePlugin, "which plugins do not see"},
		{"Cookie", compose("{header:cookie|sha256|hex}"), host.StagePlugin, "which plugins do not see"},
		{"Proxy-Authorization", compose("{header:Proxy-Authorization}"), host.StagePlugin, "which plugins do not see"},
		{"digest without the sink", compose("{config:to_header|sha256|hex}"), host.StagePlugin, "sinks"},
		{"the cache afterwards", func(env contract.Env) (string, error) {
			env.Compose("{method}", nil)
			env.CacheGet("a")
			return "", nil
		}, host.StagePlugin, "after the request was read"},
		{"a token request afterwards", func(env contract.Env) (string, error) {
			env.Compose("{query_param:a}", nil)
			return tokenRequest(env, tokenURL)
		}, host.StagePlugin, "after the request was read"},
	})
}

// Before a placeholder of the request, a call may use the cache: times and fields of the configuration are nothing of a request.
func TestTimesAndFieldsBeforeCache(t *testing.T) {
	w := misusedWorld(t, sendsKeyAfter(func(env contract.Env) {
		env.Compose("{timestamp} {nonce} {config:text}", nil)
		env.CacheGet("a")
	}))
	w.get(w.connect("custom", misused))
}

// threats.md 272: what a caller, a user or a configuration puts into a value, a header or a field is not read for placeholders.
func TestPlaceholdersInValues_threats_272(t *testing.T) {
	got := composed(t, "{header:X-A-1} {v} {config:text}", `{"values":[{"name":"v","value":"{header:X-A-2}\\"}]}`, func(_ *world, r *http.Request) {
		r.Header.Set("X-A-1", `{method}\{`)
	})
	if want := `{method}\{ {header:X-A-2}\ plain sealed`; got != want {
		t.Errorf("the text is %q, want %q", got, want)
	}
}

// A template that is wrong ends the call, and the error names the placeholder and, if it is the value of one, the field.
func TestWrongTemplates(t *testing.T) {
	ignored := ""
	for template, words := range map[string]string{
		"{verb}":              "the template of compose has {verb}, but there is no such placeholder",
		"{}":                  "has {}, but there is no such placeholder",
		"{method|rot13}":      "has {method|rot13}, but there is no format rot13",
		"{method|}":           "no format :",
		"{header:}":           "has {header:}, but there is no such placeholder",
		"{method":             "has a { without a }",
		`a\b`:                 `has a \ before`,
		`\`:                   `has a \ before`,
		"{header:x|required}": "the request has no {header:x}, which is to be signed",
		"{query_param:b}":     "has b more than once",
		"{config:none}":       `asked for "none"`,
	} {
		do := composing(&ignored, template, "")
		if template == "{query_param:b}" {
			do = composing(&ignored, template, `{"query":[{"name":"b","value":"1"},{"name":"b","value":"2"}]}`)
		}
		refuseAll(t, []misuse{{template, do, host.StagePlugin, words}})
	}
	refuseAll(t, []misuse{
		{"the template of a field", func(env contract.Env) (string, error) { return env.Compose(value(env, "url")+"{verb", nil), nil }, host.StagePlugin, "{ without"},
		{"a reference in a placeholder", func(env contract.Env) (string, error) {
			return env.Compose("{header:"+value(env, "to_header")+"}", nil), nil
		}, host.StagePlugin, "a placeholder of compose: a sealed value stands where only plain text may"},
		{"a composition that is no JSON", composing(&ignored, "", "{"), host.StagePlugin, "the composition of compose"},
		{"an unknown member", composing(&ignored, "", `{"cookies":[]}`), host.StagePlugin, "the composition of compose"},
	})
	w := misusedWorld(t, func(env contract.Env) (string, error) { return env.Compose(value(env, "text"), nil), nil })
	w.refuse(w.connect("custom", with(misused, "text", "{verb}")), get(t.Context()), host.StagePlugin, "text has {verb}, but there is no such placeholder")
}

// composedAt returns the text that a guest composes for a request to a URL of an origin.
func composedAt(t *testing.T, origin, url, template string) string {
	t.Helper()
	got := ""
	w := newWorld(t, withoutBuiltIns, withGuest(misusing(composing(&got, template, ""))), func(c *host.Config) { c.Egress.AllowHTTP = true })
	c := w.open(host.ConnectorConfig{Origins: []string{origin}, Auth: []host.Auth{{Type: "custom", Config: misused}}})
	w.send(c, request(t, url))
	return got
}

// A form that a plugin adds changes the length of the body, also if the same headers were listed before.
func TestListsBesideAForm(t *testing.T) {
	lists := ""
	w, c := misuser(t, func(env contract.Env) (string, error) {
		lists = env.Compose("{header_names:*}", nil) + " " + env.Compose("{header_names:*}", []byte(`{"form":[{"name":"a","value":"b"}]}`))
		return header("X-Key", value(env, "to_header")), nil
	})
	r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, apiURL, strings.NewReader("a=1")))(t)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w.send(c, r)
	if want := "content-length;content-type;host content-type;host"; lists != want {
		t.Errorf("%s, want %s", lists, want)
	}
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
	got := composed(t, "[{content_length}] [{header:content-length}]", `{"form":[{"name":"a","value":"b"}]}`, nil)
	if got != "[] []" {
		t.Errorf("the length of a body to which a form is added is %q, want none", got)
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

// threats.md 271: a call can make the host read no more than its bound, whatever templates, lists, formats and headers it has. What is
// looked for counts too, also if nothing is found.
func TestComposeBounds_threats_271(t *testing.T) {
	const bound = "compose reads more than 2097152 bytes"
	list := func(kind string, n int, value string) string {
		return `{"` + kind + `":[` + strings.TrimSuffix(strings.Repeat(`{"name":"v","value":"`+value+`"},`, n), ",") + `]}`
	}
	times := strings.Repeat
	short, long := list("headers", 2000, ""), list("headers", 1, times("v", 50<<10))
	text, lists := list("values", 1, times("%", 60<<10)), times("{headers:a}{headers:b}", 40)
	for name, c := range map[string]struct {
		template, with string
		calls          int
		prepare        func(r *http.Request)
	}{
		"formats":                {"{v" + times("|percent", 40) + "}", text, 1, nil},
		"placeholders":           {times("{v}", 40), text, 1, nil},
		"sorts":                  {times("{v|query_sorted}", 4), text, 1, nil},
		"values":                 {times("{method}", 2000), list("values", 2000, ""), 1, nil},
		"headers":                {times("{header:a}", 2000), short, 1, nil},
		"an empty list":          {"{headers:" + times(";", 2000) + "}", short, 25, nil},
		"long lists":             {times("{headers:"+times("a;", 20<<10)+"b}{headers:c}", 40), "", 1, nil},
		"a long header":          {lists, long, 1, nil},
		"calls":                  {times("a", 60<<10), "", 80, nil},
		"compositions":           {"a", long, 80, nil},
		"headers of the caller":  {times("{header:a}", 2000), "", 1, manyHeaders},
		"with others":            {"{headers:a}", short, 1, manyHeaders},
		"the caller's long text": {lists, "", 1, func(r *http.Request) { r.Header.Set("X-Long", times("v", 200<<10)) }},
	} {
		t.Run(name, func(t *testing.T) {
			w, connector := misuser(t, sendsKeyAfter(func(env contract.Env) {
				for range c.calls {
					env.Compose(c.template, []byte(c.with))
				}
			}))
			r := get(t.Context())
			if c.prepare != nil {
				c.prepare(r)
			}
			w.refuse(connector, r, host.StagePlugin, bound)
		})
	}
	for more := range 2 {
		w, c := misuser(t, sendsKeyAfter(func(env contract.Env) {
			for range 64 {
				env.Compose(times("a", 32<<10), nil)
			}
			env.Compose(times("a", more), nil)
		}))
		if more == 0 {
			w.get(c)
		} else {
			w.refuse(c, get(t.Context()), host.StagePlugin, bound)
		}
	}
}

// manyHeaders sets 1,500 headers.
func manyHeaders(r *http.Request) {
	for i := range 1500 {
		r.Header.Set(fmt.Sprint("X-", i), "")
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

// The formats of paths, queries and letters write each byte as their standards say, and nothing else.
func TestFormatsOfEachByte(t *testing.T) {
	const unreserved = "-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
	all, path := "", ""
	for c := byte(' '); c <= '~'; c++ {
		all += string(c)
		if strings.IndexByte(unreserved+"/", c) >= 0 {
			path += string(c)
		} else {
			path += fmt.Sprintf("%%%02X", c)
		}
	}
	query := strings.NewReplacer("/", "%2F", "%26", "", "%3D", "", "%2B", "", "%25", "").Replace(path) // without &, =, + and %
	for _, c := range []struct{ format, value, want string }{
		{contract.FormatPathPercent, all, path},
		{contract.FormatQuerySorted, strings.NewReplacer("&", "", "=", "", "+", "", "%", "").Replace(all), query + "="},
		{contract.FormatLower, "@AMZ[`amz{É", "@amz[`amz{É"},
		{contract.FormatUpper, "@AMZ[`amz{é", "@AMZ[`AMZ{é"},
		// A % that begins no escape is itself.
		{contract.FormatQuerySorted, "%30%39%41%46%61%66%4a%4A%3c=%2F", "09AFafJJ%3C=%2F"},
		{contract.FormatQuerySorted, "%3%g3", "%253%25g3="},
		{contract.FormatQuerySorted, "%3g", "%253g="},
		{contract.FormatQuerySorted, "%g3", "%25g3="},
		{contract.FormatQuerySorted, "%3:%:3%3/%/3", "%253%3A%25%3A3%253%2F%25%2F3="},
		{contract.FormatQuerySorted, "%3`%`3%3@%@3%3G%G3", "%253%60%25%603%253%40%25%403%253G%25G3="},
		{contract.FormatQuerySorted, "a%4", "a%254="},
		{contract.FormatQuerySorted, "a%", "a%25="},
		{contract.FormatPathReencoded, "%2Fa/b", "/a/b"},
		{contract.FormatPathReencoded, "/%2fa%7e/ü", "//a~/%C3%BC"},
		{contract.FormatPathNormalized, "", "/"},
		{contract.FormatPathNormalized, "/a//b", "/a/b"},
		{contract.FormatPathNormalized, "/a//", "/a/"},
		{contract.FormatPathNormalized, "//a", "/a"},
		{contract.FormatPathNormalized, "/a/../b", "/b"},
		{contract.FormatPathNormalized, "/a/./b", "/a/b"},
		{contract.FormatPathNormalized, "/../../a", "/a"},
		{contract.FormatPathNormalized, "/.a/b..", "/.a/b.."},
	} {
		values := must(json.Marshal(contract.Composition{Values: []abi.Pair{{Name: "v", Value: c.value}}}))(t)
		if got := composed(t, "{v|"+c.format+"}", string(values), nil); got != c.want {
			t.Errorf("%s of %q is %q, want %q", c.format, c.value, got, c.want)
		}
	}
}
