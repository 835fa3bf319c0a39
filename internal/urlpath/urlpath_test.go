package urlpath_test

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/internal/urlpath"
)

func TestJoin(t *testing.T) {
	tests := []struct{ base, path, want string }{
		{"https://a.example", "", "https://a.example"},
		{"https://a.example", "/", "https://a.example/"},
		{"https://a.example", "items", "https://a.example/items"},
		{"https://a.example/v1", "/items?q=1&q=2", "https://a.example/v1/items?q=1&q=2"},
		{"https://a.example/v1/", "items", "https://a.example/v1/items"},
		{"https://a.example/v1", "?q=1", "https://a.example/v1?q=1"},
		{"https://a.example/v1", "items?", "https://a.example/v1/items?"},
		{"https://a.example/v%2F1", "group%2Fproject", "https://a.example/v%2F1/group%2Fproject"},
		{"https://a.example/v1", "ü%2Fx?é=\xff", "https://a.example/v1/%C3%BC%2Fx?%C3%A9=%FF"},
		{"https://a.example/v1", `a"{b}`, "https://a.example/v1/a%22%7Bb%7D"},
		{"https://a.example/v1", "@evil.example/x", "https://a.example/v1/@evil.example/x"},
		{"https://a.example", ":80@evil.example", "https://a.example/:80@evil.example"},
		{"https://a.example", "a//b", "https://a.example/a//b"},
		{"https://a.example", "proxy/https://b.example", "https://a.example/proxy/https://b.example"},
		{"https://a.example", "x?next=https://b.example/../c", "https://a.example/x?next=https://b.example/../c"},
		{"https://a.example/v1", "...", "https://a.example/v1/..."},
		{"https://a.example/v1", "a%2Eb/c%252Ed", "https://a.example/v1/a%2Eb/c%252Ed"},
		{"https://a.example/v1", "東京。1／2", "https://a.example/v1/%E6%9D%B1%E4%BA%AC%E3%80%821%EF%BC%8F2"},
	}
	for _, test := range tests {
		base := testworld.Must(url.Parse(test.base))(t)
		got, err := urlpath.Join(base, test.path)
		if err != nil || got.String() != test.want {
			t.Errorf("%s and %q: got %v, %v, want %s", test.base, test.path, got, err, test.want)
		}
	}
}

// Join refuses every path that a server could resolve to another host or above the base (threats.md 27, 75).
func TestJoinRefuses(t *testing.T) {
	base, _ := url.Parse("https://a.example/v1")
	for name, hostile := range map[string]string{
		"another host":               "//evil.example/x",
		"backslash":                  `\evil.example`,
		"backslashes":                `/\evil.example`,
		"whole URL":                  "https://evil.example/",
		"whole URL, other scheme":    "file:///etc/passwd",
		"dots":                       "../v2",
		"dots in the middle":         "/x/../../v2",
		"a dot":                      "./x",
		"dots at the end":            "x/..",
		"encoded dots":               "%2e%2e/v2",
		"half encoded":               ".%2E/v2",
		"encoded slash behind dots":  "..%2fv2",
		"encoded slash before dots":  "x%2f..%2f..",
		"encoded backslash":          "..%5cv2",
		"encoded twice":              "%252e%252e/v2",
		"encoded twice, and a %":     "%252e%252e/v2/%25zz",
		"encoded thrice":             "%25252e%25252e%25252fv2",
		"dots with a path parameter": "..;x=1/v2",
		"encoded over and over":      "x/%" + strings.Repeat("25", 15_000) + "41",
		"dots and a space":           "..%20/v2",
		"dots in too many bytes":     "%c0%ae%c0%ae/v2",
		"the same, half encoded":     "\xc0%ae\xc0%ae/v2",
		"a slash in too many bytes":  "..%e0%80%afv2",
		"the same, encoded twice":    "..%25c0%25afv2",
		"full-width dots":            "．．/v2",
		"ideographic full stops":     "。。/v2",
		"halfwidth full stops":       "%ef%bd%a1%EF%BD%A1/v2",
		"small full stops":           "\ufe52\ufe52/v2",
		"a two dot leader":           "\u2025/v2",
		"one dot leaders, twice":     "%25e2%2580%25a4%25e2%2580%25a4/v2",
		"mixed dots":                 ".．/v2",
		"full-width slashes":         "x／..／..",
		"a division slash":           "..\u2215v2",
		"a full-width backslash":     "..＼v2",
		"full-width percent signs":   "％2e％2e/v2",
		"one full-width dot":         "．/x",
		"vertical two dots":          "\ufe30/v2",
		"a Greek question mark":      "..\u037e/v2",
		"a full-width semicolon":     "..；x/v2",
		"a set minus":                "..\u2216v2",
		"a soft hyphen":              ".%c2%ad./v2",
		"a variation selector":       "..\ufe0f/v2",
		"a space of no width":        "..%e2%80%8b/v2",
		"an ideographic space":       "..\u3000/v2",
		"dots in five bytes":         "%f8%80%80%80%ae%f8%80%80%80%ae/v2",
		"dots in six bytes":          "%fc%80%80%80%80%ae%fc%80%80%80%80%ae/v2",
		"fragment":                   "x#y",
		"line break":                 "x\r\nX-Evil: 1",
		"encoded line break":         "x%0d%0aX-Evil:1",
		"NUL":                        "x\x00",
		"encoded NUL":                "x%00",
		"space":                      "x y",
		"broken percent encoding":    "x%zz",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := urlpath.Join(base, hostile); err == nil {
				t.Errorf("%q results in %s", hostile, got)
			}
		})
	}
}

// dots replaces full-width characters as NFKC does, and ideographic full stops as in host names.
var dots = strings.NewReplacer("．", ".", "。", ".", "｡", ".", "․", ".", "﹒", ".", "‥", "..", "／", "/", "＼", "/", `\`, "/")

// For any path, the URL has the base's host and stays below the base's path (threats.md 27).
func FuzzJoin(f *testing.F) {
	for _, seed := range []string{
		"", "/", "items?q=1", "//evil", "@evil", `\evil`, "..", "%2e%2e", "%2f", "https://evil", "x#y", "a%2f%2e%2e", "?", "%", "ü", ";..", ":@", "x?\xff", "%c0%ae%c0%ae/",
		"．．/", "。。", "%e3%80%82｡/x", "‥", "..／", "x%3f", "%23", "..%5c", "%252e%252e", "％2e.", "\u2024.\ufe68",
	} {
		f.Add(seed)
	}
	bases := []string{"https://a.example", "https://a.example/v1", "https://a.example:8443/v1/"}
	f.Fuzz(func(t *testing.T, text string) {
		for _, b := range bases {
			base, _ := url.Parse(b)
			joined, err := urlpath.Join(base, text)
			if err != nil {
				continue
			}
			// got is the URL as a server, a proxy or a browser parses it.
			got, err := url.Parse(joined.String())
			if err != nil {
				t.Fatalf("%s and %q: %s does not parse: %v", b, text, joined, err)
			}
			if got.Scheme != base.Scheme || got.Host != base.Host || got.User != nil || got.Fragment != "" {
				t.Fatalf("%s and %q: %s", b, text, joined)
			}
			if again := base.ResolveReference(got); again.Host != base.Host {
				t.Fatalf("%s and %q: resolves to %s", b, text, again)
			}
			root := strings.TrimSuffix(base.Path, "/")
			below := func(p string) bool { return p == root || p == base.Path || strings.HasPrefix(p, root+"/") }
			decoded := joined.Path
			for range 4 {
				if !below(decoded) || !below(path.Clean("/"+decoded)) && root != "" || !below(path.Clean(strings.ReplaceAll(decoded, `\`, "/"))) && root != "" {
					t.Fatalf("%s and %q: %s is above the base", b, text, joined)
				}
				if normal := dots.Replace(decoded); !below(path.Clean("/"+normal)) && root != "" {
					t.Fatalf("%s and %q: %s is above the base where full-width characters are normalized", b, text, joined)
				}
				next, err := url.PathUnescape(decoded)
				if err != nil {
					break
				}
				decoded = next
			}
			if strings.ContainsAny(joined.RequestURI(), " \r\n\x00#") || strings.HasPrefix(joined.RequestURI(), "//") {
				t.Fatalf("%s and %q: request target %q", b, text, joined.RequestURI())
			}
		}
	})
}

// A value that is empty leaves a segment empty that the template has, wherever that is. What the template has itself is none.
func TestEmptied(t *testing.T) {
	for _, c := range []struct {
		template, text string
		want           bool
	}{
		{"https://a/b/{{ x }}/c?d={{ y }}", "https://a/b/1/c?d=", false},
		{"https://a/b/{{ x }}/c", "https://a/b//c", true},
		{"https://a/b/{{ x }}", "https://a/b/", true},
		{"https://a/{{ x }}-{{ y }}/", "https://a/-/", false},
		{"https://a//{{ default(x, 'a/b?c') }}", "https://a//1", false},
		{"https://a/{{ x }}", "https://a/1/2", false},
	} {
		if got := urlpath.Emptied(c.template, c.text); got != c.want {
			t.Errorf("%s of %s: %t", c.text, c.template, got)
		}
	}
}

// Percent encodes each byte as url.QueryEscape does, but for a space. Decode is its inverse, and keeps a % that begins no escape.
func TestPercent(t *testing.T) {
	var all strings.Builder
	for c := range 256 {
		all.WriteByte(byte(c))
		text := "a" + string([]byte{byte(c)}) + "b"
		if got, want := urlpath.Percent(text), strings.ReplaceAll(url.QueryEscape(text), "+", "%20"); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	if got := urlpath.Decode(urlpath.Percent(all.String())); got != all.String() {
		t.Errorf("decoded = %q", got)
	}
	for text, want := range map[string]string{"": "", "a": "a", "%41": "A", "%4a%4A": "JJ", "%": "%", "a%4": "a%4", "%zz%41": "%zzA", "%%41": "%A", "%4g": "%4g"} {
		if got := urlpath.Decode(text); got != want {
			t.Errorf("%s decoded = %q, want %q", text, got, want)
		}
	}
}
