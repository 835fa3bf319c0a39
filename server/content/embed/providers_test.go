package embed

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// Each scheme of the published list that is a URL matches a URL made from it, and leads to an https endpoint.
func TestThePublishedList(t *testing.T) {
	p := testworld.Must(parseProviders(published))(t)
	var list []listed
	testworld.Check(t, json.Unmarshal(published, &list))
	schemes, leftOut := 0, []string{}
	for _, provider := range list {
		for _, e := range provider.Endpoints {
			if len(e.Formats) > 0 && !slices.Contains(e.Formats, "json") {
				continue
			}
			for _, scheme := range e.Schemes {
				if _, ok := parseScheme(scheme); !ok {
					leftOut = append(leftOut, scheme)
					continue
				}
				schemes++
				example := strings.ReplaceAll(scheme, "*", "x1")
				found := p.match(example)
				if found == nil {
					t.Errorf("%s: %s does not match", scheme, example)
					continue
				}
				u := found.requestURL(example)
				if u.Scheme != "https" || u.Query().Get("url") != example || u.Query().Get("format") != "json" || strings.Contains(u.Path, "{") {
					t.Errorf("%s: the provider is asked by %s", scheme, u)
				}
			}
		}
	}
	if want := []string{"https://smashnotes.com/p/*/e/* - https://smashnotes.com/p/*/e/*/s/*", "spotify:*"}; !slices.Equal(leftOut, want) {
		t.Errorf("left out are %q, not %q", leftOut, want)
	}
	if len(list) < 380 || schemes < 840 || len(p.domains) < 300 {
		t.Errorf("the list has %d providers, %d schemes, %d domains", len(list), schemes, len(p.domains))
	}
	for _, domain := range []string{"com", "co.uk", "github.io", "vercel.app", "needle.run", "amazonaws.com", "cloudfront.net", "herokuapp.com", "googleapis.com", ""} {
		if p.domains[domain] {
			t.Errorf("frames of all of %q are allowed", domain)
		}
	}
}

func TestExcludedEndpoints(t *testing.T) {
	for name, endpoint := range map[string]string{
		"XML only":      `{"url":"https://tube.example/oembed.xml","schemes":["https://tube.example/*"],"formats":["xml"]}`,
		"no URL":        `{"schemes":["https://tube.example/*"]}`,
		"no http":       `{"url":"ftp://tube.example/","schemes":["https://tube.example/*"]}`,
		"no host":       `{"url":"https:///oembed","schemes":["https://tube.example/*"]}`,
		"broken escape": `{"url":"https://tube.example/%zz","schemes":["https://tube.example/*"]}`,
		"no schemes":    `{"url":"https://tube.example/oembed","discovery":true}`,
	} {
		p := testworld.Must(parseProviders([]byte(`[{"provider_name":"Tube","provider_url":"https://tube.example/","endpoints":[` + endpoint + `]}]`)))(t)
		if p.match("https://tube.example/1") != nil || len(p.domains) != 0 {
			t.Errorf("%s: it is used, and knows %v", name, p.domains)
		}
	}
}

func TestSchemes(t *testing.T) {
	for pattern, c := range map[string]struct{ yes, no []string }{
		"https://*.tube.example/watch*": {
			[]string{"https://www.tube.example/watch?v=1", "https://a.b.tube.example/watch", "http://m.tube.example/watch/1#t", "https://WWW.TUBE.example/watch"},
			[]string{
				"https://tube.example/watch", "https://www.tube.example/Watch", "https://evil.com/.tube.example/watch", "https://www.tube.example.evil.com/watch",
				"https://www.tube.example@evil.com/watch", "https://evil.com#.tube.example/watch", "https://evil.com?.tube.example/watch", "https://evil.com\\.tube.example/watch",
				"https://eviltube.example/watch", "https://evil.com%2f.tube.example/watch", "https://www.tube.example./watch", "https://www..tube.example/watch", "https://www.tube.example:444/watch",
				"https:/www.tube.example/watch", "https:www.tube.example/watch", " https://www.tube.example/watch", "https://www.tube.example/watch\n", "https://www.tube.example/wat ch",
				"javascript://www.tube.example/watch", "https://wẅw.tube.example/watch",
			},
		},
		"http://tube.example/*/by/*/x": {
			[]string{"https://tube.example/1/by/2/x", "http://tube.example/a/b/by/c/by/d/x", "http://tube.example//by//x"},
			[]string{"http://tube.example/1/by/x", "http://tube.example/by/2/x", "http://tube.example/1/by/2/xy", "http://tube.example/1/by/2/x?y"},
		},
		"https://tube.example/": {[]string{"https://tube.example/", "https://tube.example"}, []string{"https://tube.example/x", "https://tube.example?x"}},
		"https://*.wordpress.com/*": {
			[]string{"https://ann.wordpress.com/1"}, []string{"https://wordpress.com/1", "https://wordpress.com.evil.com/1"},
		},
		"https://*.needle.run/*":     {[]string{"https://ann.needle.run/1"}, []string{"https://needle.run/1", "https://evil.com/.needle.run/1"}},
		"https://*.*.pics.example/*": {[]string{"https://a.b.pics.example/1"}, []string{"https://a.pics.example/1"}},
	} {
		s, ok := parseScheme(pattern)
		if !ok {
			t.Errorf("%s is not taken", pattern)
			continue
		}
		s.endpoint = &endpoint{}
		p := &providers{schemes: map[string][]scheme{}}
		p.schemes[lastLabels(s.host)] = append(p.schemes[lastLabels(s.host)], s)
		for _, text := range c.yes {
			if p.match(text) == nil {
				t.Errorf("%s does not match %q", pattern, text)
			}
		}
		for _, text := range c.no {
			if p.match(text) != nil {
				t.Errorf("%s matches %q", pattern, text)
			}
		}
	}
}

// Patterns that match hosts of more than one owner are left out.
func TestExcludedSchemes(t *testing.T) {
	for _, scheme := range []string{
		"", "*", "https://*", "https://*/*", "https://*.com/*", "https://*.co.uk/*", "https://tube.*/x", "https://*tube.example/x", "https://tube*.example/*", "https://*.*/*",
		"https://www.*.example/*", "https://*.unknown/*", "spotify:*", "ftp://tube.example/*", "https://a@tube.example/*", "https://tube.example:8443/*", "https://tube.example", "//tube.example/*",
		"https://tube.example/* - https://tube.example/*", "https://localhost/*", "https://[::1]/*",
	} {
		if s, ok := parseScheme(scheme); ok {
			t.Errorf("%q is taken, as %+v", scheme, s)
		}
	}
}

// The cache keeps its limits of entries and bytes, and drops the least recently used entries.
func TestCacheBound(t *testing.T) {
	c := newCache(10, 1000, time.Now)
	for i := range 1000 {
		url := fmt.Sprint(i % 37 % (1 + i%13))
		c.put(url, strings.Repeat("x", i*31%400), time.Hour)
		sum := 0
		for _, key := range c.entries.Keys() {
			e, _ := c.entries.Peek(key)
			sum += len(key) + len(e.embed)
		}
		if c.entries.Len() > 10 || c.bytes > 1000 || c.bytes != sum {
			t.Fatalf("%d entries, %d bytes, counted as %d", c.entries.Len(), sum, c.bytes)
		}
		if _, ok := c.get(url); !ok {
			t.Fatal("what was put in last is not there")
		}
	}
}

// threats.md 50: the document is sanitised again with its embeds, in case one has changed since.
func TestSanitisedResult(t *testing.T) {
	r := testworld.Must(New(Config{Transport: http.DefaultTransport}))(t)
	const link = "https://www.youtube.com/watch?v=abc"
	r.cache.put(link, `<p>shown</p><script>alert(1)</script><img src=x onerror=alert(1)>`, time.Hour)
	got := r.Resolve(t.Context(), "<p>"+link+"</p>")
	if !strings.Contains(got, "shown") || strings.Contains(got, "alert") {
		t.Errorf("the document is %s", got)
	}
}
