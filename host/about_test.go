package host_test

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
)

// aboutGuest returns a guest that says where it and its credential come from.
func aboutGuest(homepage, license, obtain string) *guest {
	g := &guest{about: abi.Description{Homepage: homepage, License: license}}
	g.about.Fields = []abi.Field{{
		Name: "key", Kind: abi.KindString, Required: true, Sealed: true, Sinks: []string{abi.SinkHeader}, Doc: "The key.", Obtain: obtain,
	}, {Name: "other", Kind: abi.KindString, Obtain: "From a colleague."}}
	return g
}

// What a plugin says of itself is printable, of a bounded length, and its page is one of https (threats.md 184).
func TestTextsAboutAPlugin_threats_184(t *testing.T) {
	long := strings.Repeat("x", 513)
	for name, c := range map[string]struct{ homepage, license, obtain, want string }{
		"all":                     {"https://acme.example/keywright", "Apache-2.0 OR MIT", "Under Settings, API keys.", ""},
		"none":                    {"", "", "", ""},
		"the longest":             {"https://acme.example/" + long[:512-21], long[:512], long[:512], ""},
		"a long page":             {"https://acme.example/" + long, "", "", "homepage has more than 512 bytes"},
		"a long licence":          {"", long, "", "license has more than 512 bytes"},
		"a long text":             {"", "", long, "field key: obtain has more than 512 bytes"},
		"an escape":               {"", "", "a\x1b[2J", "field key: obtain has more than 512 bytes, or characters that cannot be printed"},
		"a line break":            {"", "MIT\nrm", "", "license has"},
		"text in another order":   {"", "", "a\u202eb", "field key: obtain has"},
		"an escape in a page":     {"https://acme.example/\x1b]8;;", "", "", "homepage has"},
		"http":                    {"http://acme.example", "", "", "homepage is no https URL of a page"},
		"a script":                {"javascript:alert(1)", "", "", "homepage is no https URL of a page"},
		"a page without a host":   {"https:///x", "", "", "homepage is no https URL of a page"},
		"a page that looks other": {"https://bank.example@evil.example/", "", "", "homepage is no https URL of a page"},
	} {
		h, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{aboutGuest(c.homepage, c.license, c.obtain).plugin()}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil {
			_ = h.Close(t.Context())
		}
	}
}

// Editors and errors say how to get a credential.
func TestHowToGetACredential(t *testing.T) {
	w := newWorld(t, withoutBuiltIns, withGuest(aboutGuest("https://acme.example/", "MIT", "Under Settings, API keys.")))
	if got := w.problems("custom", config{}); len(got) != 1 || got[0] != "auth.config.key: is missing: The key. Under Settings, API keys" {
		t.Errorf("got = %q", got)
	}
	text, err := w.host.Plugins()[0].Schema()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"description":"A guest of a test. https://acme.example/"`, `"description":"The key. Under Settings, API keys."`, `"description":"From a colleague."`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %s in %s", want, text)
		}
	}
}
