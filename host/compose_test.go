package host_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// composing returns a guest that composes a template and adds the text to got.
func composing(got *string, template, with string) func(contract.Env) (string, error) {
	return func(env contract.Env) (string, error) {
		*got = regexp.MustCompile(contract.SealedPrefix+`[a-z0-9]{26}`).ReplaceAllString(env.Compose(template, []byte(with)), "sealed")
		return header("X-Key", value(env, "to_header")), nil
	}
}

// composed returns the text that a guest composes for a request.
func composed(t *testing.T, template, with string, prepare func(w *world, r *http.Request)) string {
	t.Helper()
	got := ""
	w := misusedWorld(t, composing(&got, template, with))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "https://api.test/a%2fb//./c/../%7E?b=2&a=1%20+&b=1&é", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
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
		{"{timestamp} {timestamp_ms} {iso8601} {time:%Y%m%dT%H%M%SZ}", "", ""},
	} {
		got := composed(t, c.template, c.with, nil)
		switch {
		case strings.HasPrefix(c.template, "{timestamp}"):
			if !regexp.MustCompile(`^(\d+) (\d+)\d{3} (\d{4})-(\d\d)-(\d\d)T[0-9:]{8}Z \d{8}T\d{6}Z$`).MatchString(got) {
				t.Errorf("%s is %q", c.template, got)
			}
		case c.want == "" && c.template != "":
			if got == "" || strings.Contains(got, "PATCH") {
				t.Errorf("%s is %q", c.template, got)
			}
		case got != c.want:
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
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		env.Compose("{timestamp} {nonce} {config:text}", nil)
		env.CacheGet("a")
		return header("X-Key", value(env, "to_header")), nil
	})
	w.get(w.connect("custom", misused))
}

// threats.md 271: a call can make the host work no more than its bound, whatever templates, lists and formats it has.
func TestComposeBounds_threats_271(t *testing.T) {
	const text = `{"values":[{"name":"v","value":"%"}]}`
	long := strings.ReplaceAll(text, "%", strings.Repeat("%", 60<<10))
	for name, do := range map[string]func(env contract.Env){
		"formats":      func(env contract.Env) { env.Compose("{v"+strings.Repeat("|percent", 40)+"}", []byte(long)) },
		"placeholders": func(env contract.Env) { env.Compose(strings.Repeat("{v}", 40), []byte(long)) },
		"sorts":        func(env contract.Env) { env.Compose(strings.Repeat("{v|query_sorted}", 4), []byte(long)) },
		"lists": func(env contract.Env) {
			env.Compose(strings.Repeat("{headers:"+strings.Repeat("a;", 20<<10)+"b}{headers:c}", 40), nil)
		},
		"calls": func(env contract.Env) {
			for range 80 {
				env.Compose(strings.Repeat("a", 60<<10), nil)
			}
		},
	} {
		refuseAll(t, []misuse{{name, func(env contract.Env) (string, error) {
			do(env)
			return header("X-Key", value(env, "to_header")), nil
		}, host.StagePlugin, "compose reads more than 2097152 bytes"}})
	}
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
}
