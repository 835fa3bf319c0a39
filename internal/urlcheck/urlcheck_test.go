package urlcheck_test

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/internal/urlcheck"
)

// Each mistake has one message, whatever the rule.
func TestURLs(t *testing.T) {
	rule := urlcheck.Rule{PlainHTTP: "use https", Credentials: "put the credential into auth", Example: "https://api.example.com"}
	dev := urlcheck.Rule{AllowHTTP: true}
	for _, test := range []struct {
		rule       urlcheck.Rule
		text, want string
	}{
		{rule, "https://a.example/b?c=d", ""},
		{rule, "HTTPS://a.example:65535", ""},
		{dev, "http://a.example", ""},
		{rule, "", "is not an https URL such as https://api.example.com"},
		{rule, "a.example/b", "is not an https URL such as https://api.example.com"},
		{dev, "ftp://a.example", "is not an https URL"},
		{rule, "https://[::1", "is not a URL such as https://api.example.com"},
		{rule, "https:a.example", "is not a URL such as https://api.example.com"},
		{dev, "https://me:pw@a.example:port", "is not a URL"},
		{rule, "HTTP://a.example", "is plain http, use https"},
		{rule, "https:///b", "has no host"},
		{rule, "https://:443/b", "has no host"},
		{rule, "https://me:pw@a.example", "has user info, which would end up in logs: put the credential into auth"},
		{dev, "https://@a.example", "has user info, which would end up in logs"},
		{rule, "https://a.example/b#c", "has a fragment, which is never sent: remove it"},
		{rule, "https://a.example/b#", "has a fragment, which is never sent: remove it"},
		{rule, "https://a.example:0", "has a port that is not 1 to 65535"},
		{rule, "https://a.example:65536", "has a port that is not 1 to 65535"},
	} {
		u, err := test.rule.Parse(test.text)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != test.want || err == nil && u.Hostname() != "a.example" {
			t.Errorf("%q: %q, want %q", test.text, got, test.want)
		}
	}
}

func TestHosts(t *testing.T) {
	for text, want := range map[string]bool{
		"login.example.com": true, "LOGIN.example.com": true, "localhost:8443": true, "[::1]:8080": true, "10.0.0.1": true, "bücher.example": true,
		"": false, ":443": false, "*.example.com": false, "https://a.example": false, "a.example/": false, "a.example?b": false, "a.example#": false,
		"me@a.example": false, "a.example:99999": false, "a example": false, "a.example, b.example": false,
		"a.example.": false, "a.example.:443": false, "a.example。": false, "a.example．": false, "a.example:": false, "a.example:0443": false, "a.example:443": true,
		"[0:0:0:0:0:0:0:1]": false, "[::FFFF:10.0.0.1]": true, "[2001:DB8::1]": true, "[2001:db8::0:1]": false, "1.2.3.4.": false, "a.example:+443": false,
	} {
		u, err := urlcheck.ParseHost(text)
		if (err == nil) != want || want && u.Host != text {
			t.Errorf("%q: u = %v, err = %v", text, u, err)
		}
	}
}

func TestFixedHosts(t *testing.T) {
	for text, want := range map[string]bool{
		"https://a.example/{{ b }}":      true,
		"HTTPS://a.example/{{ b }}":      true,
		"https://a.example?b={{ c }}":    true,
		"https://a.example:{{ b }}/":     false,
		"https://a.example{{ b }}":       false,
		"https://a.example{{ b }}/":      false,
		"https://{{ a }}/":               false,
		"{{ a }}://a.example/":           false,
		`https://a.example\.{{ b }}/`:    false,
		"https://a.example#{{ b }}/":     false,
		"https:/a.example/{{ b }}":       false,
		"//a.example/{{ b }}":            false,
		"https://user:{{ b }}@a.example": false,
	} {
		if got := urlcheck.FixedHost(text); got != want {
			t.Errorf("%s: got = %v", text, got)
		}
	}
}

// A value of a tenant that leads elsewhere is no label (threats.md 481).
func TestLabels_threats_481(t *testing.T) {
	for _, text := range []string{"a", "1", "acme", "acme-1", "0x7f", "2130706433", strings.Repeat("a", 63)} {
		if !urlcheck.Label(text) {
			t.Errorf("%q is no label", text)
		}
	}
	for _, text := range []string{strings.Repeat("a", 64), "Acme", "a--", "-a", "xn--a", "xn--", "a_b", "é", "ａ", "\u00ad", "a\n"} {
		if urlcheck.Label(text) {
			t.Errorf("%q is a label", text)
		}
	}
	for _, text := range testworld.HostSpellings() {
		if urlcheck.Label(text) && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("%q is a label", text)
		}
	}
}

func TestHostPattern(t *testing.T) {
	const tenant, variable = "{{ tenant_id }}", "{{ get_variable('v', 'tenant') }}"
	for text, want := range map[string]string{
		"https://" + tenant + ".example.com":                    "https://*.example.com",
		"https://" + tenant + ".example.com/x/" + tenant:        "https://*.example.com/x/" + tenant,
		"https://a." + variable + ".x.de:1/" + tenant:           "https://a.*.x.de:1/" + tenant,
		`https://{{get_variable("v" , 'tenant')}}.x.de?{{ a }}`: "https://*.x.de?{{ a }}",
		"https://" + tenant + "." + variable + ".x.de":          "https://*.*.x.de",
	} {
		if got, ok := urlcheck.HostPattern(text); got != want || !ok {
			t.Errorf("%s: %s, %t, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"https://a.example.com/" + tenant, "https://a.example.com?" + tenant, "https://a.example.com", tenant + "://a.example.com", "https://" + tenant, "https://" + tenant + "/",
		"https://x" + tenant + ".example.com", "https://" + tenant + tenant + ".example.com", "https://a.example.com" + tenant, "https://a.example.com:" + tenant,
		"https://u@" + tenant + ".example.com", "https://" + tenant + ".example.com@evil.example/", `https://evil.example\@` + tenant + ".example.com",
		"https://evil.example#." + tenant + ".example.com", "https://{{ user.id }}.example.com", "https://{{ get_secret('s', 'tenant') }}.example.com/",
		"https://{{ default(tenant_id, 'a') }}.example.com/", "https://{{ get_variable('a') }}.example.com", "https://{{ uuid() }}.example.com",
	} {
		if got, ok := urlcheck.HostPattern(text); got != text || ok {
			t.Errorf("%s has the pattern %s", text, got)
		}
	}
}
