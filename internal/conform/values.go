package conform

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/hosttest"
)

var secretValues = []item[string]{
	{"of one character", "x"},
	{"of 4,000 characters", strings.Repeat("long-secret.", 333) + "1234"},
	{"of other alphabets", "pässwörd-日本語-🔑"},
	{"with braces", "{{ user.id }}{path}{{secret}}${secret}"},
	{"with quotes and backslashes", `say "friend" or \enter\ 'it'`},
	{"with separators", "a=b&c=d%41+e f/g?h#i,j;k:l"},
	{"with blanks around it", "  secret in blanks  "},
	{"with a line break", "first line\nsecond line"},
	{"with a null byte", "before\x00after the null"},
	{"that looks like base64", "c2VjcmV0LXNlY3JldA=="},
	{"that looks like a reference", "kw_abcdefghijklmnopqrstuvwxyz"},
}

// sealed sends requests with secrets of all sorts, and looks whether their bytes are where those of a plain secret are.
func (t *trial) sealed() {
	for _, f := range t.c.sealedFields() {
		for _, config := range t.c.configsWith(f.Name) {
			t.secretsOf(f.Name, config)
		}
	}
}

func (t *trial) secretsOf(field string, config hosttest.Config) {
	config = setField(config, field, "{{ get_secret('"+field+"') }}")
	plain := t.send("field "+field+", a plain secret", config, formRequest())
	where := places(plain, t.c.secrets[field])
	for _, value := range secretValues {
		t.Secret(field, value.value)
		got := t.send(fmt.Sprintf("field %s, a secret %s", field, value.name), config, formRequest())
		if len(value.value) > 1 && got.authenticated() {
			t.compare(where, places(got, value.value))
		}
	}
	t.Secret(field, t.c.secrets[field])
}

const maxConfigs = 6

// configsWith returns configurations that have a field, at most maxConfigs.
func (c *conformer) configsWith(field string) (configs []hosttest.Config) {
	for _, config := range c.configs {
		if _, there := config[field]; there && len(configs) < maxConfigs {
			configs = append(configs, config)
		}
	}
	return configs
}

// compare adds a finding for each place that has a plain secret and not another one.
func (t *trial) compare(plain, odd map[string]bool) {
	for _, place := range slices.Sorted(maps.Keys(plain)) {
		if exact, there := odd[place]; !there {
			t.k.find("%s: %s does not have its bytes, and there is no error", t.name, place)
		} else if !exact {
			t.k.find("%s: in %s it stands between quotes, and its own quotes are not escaped: use the format quoted", t.name, place)
		}
	}
}

// places returns the places of a request and of its exchanges that hold a secret, as it is or encoded. The value is false if the
// secret stands between quotes and its own quotes are not escaped.
func places(r *result, secret string) map[string]bool {
	all := map[string]bool{}
	look := func(place, text string) {
		if found, exact := findSecret(text, secret, 0); found {
			all[place] = exact
		}
	}
	lookAll := func(place string, values map[string][]string) {
		for name, texts := range values {
			for _, text := range texts {
				look(place+" "+name, text)
			}
		}
	}
	for _, e := range r.exchanges {
		lookAll("the header of a token request", e.Header)
		look("the body of a token request", e.Body)
		lookAll("the form of a token request, member", e.Form)
		look("the URL of a token request", e.URL)
	}
	if len(r.requests) == 0 {
		return all
	}
	request := r.requests[len(r.requests)-1]
	lookAll("the header", request.Header)
	lookAll("the query parameter", request.URL.Query())
	look("the path", request.URL.Path)
	body := bodyOf(request)
	look("the body", body)
	if form, err := url.ParseQuery(body); err == nil && request.Header.Get("Content-Type") == formType {
		lookAll("the form, member", form)
	}
	return all
}

var encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}={0,2}`)

// findSecret reports whether a text holds a secret, in any form, and whether it has the form that quotes around it want.
func findSecret(text, secret string, depth int) (found, exact bool) {
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(secret)
	inJSON, _ := json.Marshal(secret) // a string always has one
	switch {
	case strings.Contains(text, `"`+escaped+`"`), strings.Contains(text, string(inJSON)):
		return true, true
	case strings.Contains(text, `"`+secret+`"`):
		return true, false
	case strings.Contains(text, secret):
		return true, true
	case depth > 2:
		return false, false
	}
	for _, unescape := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
		if inner, err := unescape(text); err == nil && inner != text {
			if found, _ := findSecret(inner, secret, depth+1); found {
				return true, true // a percent-encoded quote does not end a text
			}
		}
	}
	for _, word := range encoded.FindAllString(text, -1) {
		for _, inner := range decodings(word) {
			if found, exact = findSecret(inner, secret, depth+1); found {
				return found, exact
			}
		}
	}
	return false, false
}

func decodings(word string) (all []string) {
	for _, decode := range []func(string) ([]byte, error){base64.RawStdEncoding.DecodeString, base64.RawURLEncoding.DecodeString, hex.DecodeString} {
		if text, err := decode(strings.TrimRight(word, "=")); err == nil {
			all = append(all, string(text))
		}
	}
	return all
}

// hugeValue is as long as the longest line of a header that servers usually take.
var hugeValue = strings.Repeat("0123456789 abcdef", 4<<10/17)

var oddTexts = []item[string]{
	{"empty", ""},
	{"blank", " "},
	{"of one character", "k"},
	{"huge", hugeValue},
	{"huge, without blanks", strings.Repeat("0123456789abcdef", 256)},
	{"huge, of separators", strings.Repeat("a=b&c,d;{e}", 372)},
	{"of other alphabets", "Zoë-日本語-🔑"},
	{"of braces", "{}{a}}{{}"},
	{"of quotes", `"a\"b'\`},
	{"with a line break", "a\r\nb: c"},
	{"a number", "90210773514488261537"},
	{"a URL", "https://login.test/a?b=c&d=%zz"},
	{"a place", "json:/a/~0/0"},
	{"of colons and dots", "::..:/"},
}

// values sends requests with configurations in which a field has a value that no operator means.
func (t *trial) values() {
	for _, f := range t.c.info.Fields {
		config := append(t.c.configsWith(f.Name), t.c.configs[0])[0]
		try := func(name string, value any) {
			variant := setField(config, f.Name, value)
			if value == nil {
				delete(variant, f.Name)
			}
			t.send(fmt.Sprintf("field %s, %s", f.Name, name), variant, formRequest())
		}
		try("missing", nil)
		switch {
		case f.Sealed || f.Kind == abi.KindKey || f.Kind == abi.KindCertificate:
			t.oddSecrets(&f, try)
		case f.Kind == abi.KindObject:
			for _, odd := range oddObjects() {
				try(odd.name, odd.value)
			}
		default:
			t.oddValues(&f, try)
		}
	}
}

func (t *trial) oddSecrets(f *abi.Field, try func(name string, value any)) {
	const name = "odd"
	for _, odd := range oddTexts {
		t.Secret(name, odd.value)
		try(odd.name, "{{ get_secret('"+name+"') }}")
		if !strings.Contains(odd.value, "{{") {
			try(odd.name+", as a literal", odd.value)
		}
	}
	try("a text and a secret", "before {{ get_secret('"+name+"') }} after")
	if f.Kind == abi.KindKey {
		t.Secret(name, "-----BEGIN PRIVATE KEY-----\nbm8ga2V5\n-----END PRIVATE KEY-----\n")
		try("no key", "{{ get_secret('"+name+"') }}")
	}
}

// oddValues tries a field with texts that operators do not mean, as literals and from the user's name.
func (t *trial) oddValues(f *abi.Field, try func(name string, value any)) {
	defer func() { t.user = t.c.user() }()
	for _, odd := range oddTexts {
		if !strings.Contains(odd.value, "{{") {
			try(odd.name, odd.value)
		}
		t.user.Username = odd.value
		template := "{{ user.username }}"
		if f.Kind == abi.KindURL {
			template = "https://login.test/{{ user.username }}/token"
		}
		try(odd.name+", from a template", template)
	}
	if f.Kind == abi.KindString && len(f.Enum) == 0 {
		try("a secret", "{{ get_secret('code') }}")
		try("a secret with text around it", "a{{ get_secret('code') }}b")
	}
	for name, value := range map[string]any{
		"true": true, "false": false, "0": 0, "a negative number": -1, "a huge number": int64(1) << 62, "a fraction": 1.5, "a list": []any{"a"},
	} {
		try(name, value)
	}
}

func oddObjects() []item[any] {
	many, deep := hosttest.Config{}, any("end")
	for i := range 200 {
		many[fmt.Sprintf("member-%d", i)] = "value"
	}
	for range 50 {
		deep = hosttest.Config{"a": []any{deep}}
	}
	all := []item[any]{
		{"empty", hosttest.Config{}},
		{"with many members", many},
		{"with deep nesting", hosttest.Config{"a": deep}},
		{"with values of all kinds", hosttest.Config{"null": nil, "true": true, "number": 1.5, "list": []any{1, "a", nil}, "object": hosttest.Config{}}},
		{"with odd names", hosttest.Config{"": "a", " ": "b", "日本語": "c", `"\`: "d", "a\nb": "e", "{a}": "f"}},
		{"with a secret in each place", hosttest.Config{"a": "{{ get_secret('code') }}", "b": []any{"x{{ get_secret('code') }}y"}}},
		{"a text", "text"},
		{"a list", []any{}},
	}
	for _, odd := range oddTexts {
		if !strings.Contains(odd.value, "{{") {
			all = append(all, item[any]{"with a value that is " + odd.name, hosttest.Config{"a": odd.value}})
		}
	}
	return all
}
