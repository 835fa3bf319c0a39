package conform

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// alphabets is a text of other alphabets than that of ASCII.
const alphabets = "Zoë-日本語-🔑"

// plainURL is the URL of requests whose path and query do not matter. Its path has the text that the credential replaces if a
// field names one.
const plainURL = "https://api.test/v1/example/things?a=b"

const formType = "application/x-www-form-urlencoded"

// formRequest returns a request with a body that is a form.
func formRequest() *http.Request {
	return call{method: http.MethodPost, url: plainURL, header: http.Header{"Content-Type": {formType}}, body: "name=value"}.request()
}

// call is a request of a caller. By default, its method is GET.
type call struct {
	name, method, url string
	header            http.Header
	body              string
}

// request returns the request anew each time.
func (c call) request() *http.Request {
	r, err := http.NewRequestWithContext(context.Background(), c.method, c.url, strings.NewReader(c.body))
	if err != nil {
		panic("conform: " + err.Error()) // the calls are valid
	}
	if c.header != nil {
		r.Header = c.header.Clone()
	}
	return r
}

// calls are requests of all sorts.
var calls = []call{
	{name: "a path of other alphabets", url: "https://api.test/" + alphabets + "/%E6%97%A5%2F%25%C3"},
	{name: "a query of odd characters", url: "https://api.test/q?a&a=&=b&&a=b=c&a=%2B+%20&b[]=1;c=2&%ff=%fe"},
	formCall("a form of other alphabets", "name=%E6%97%A5%F0%9F%94%91&n%C3%A4me=%C3%BC&x="+alphabets),
	bodyCall("a body that is no text", "\x00\xff\xfe\x80\n"),
	{name: "a path of odd characters", url: "https://api.test//a/;x=1/@:!$&'()*+,/%00/~._-"},
	{name: "an empty path", url: "https://api.test"},
	{name: "a query of other alphabets", url: "https://api.test/q?name=%E6%97%A5%F0%9F%94%91&n%C3%A4me=%C3%BC&x=" + alphabets},
	{name: "a query of many parameters", url: "https://api.test/q?" + strings.Repeat("name=value&", 200)},
	{name: "a long path", url: "https://api.test/" + strings.Repeat("segment/", 500)},
	{name: "headers of odd characters", url: "https://api.test/headers", header: http.Header{
		"X-Name": {alphabets, alphabets}, "X-Empty": {"", ""}, "X-Bytes": {"\xff\xfe", "\xff\xfe"},
		"Content-Type": {`text/plain; charset="` + alphabets + `"`, `text/plain; charset="` + alphabets + `"`},
	}},
	{name: "a long header", url: "https://api.test/headers", header: http.Header{
		"X-Long": {strings.Repeat("h", 2<<10), strings.Repeat("h", 2<<10)},
	}},
	bodyCall("a text of other alphabets", alphabets),
	bodyCall("a large body", strings.Repeat("0123456789", 20<<10)),
	formCall("a form of odd characters", "a&a=&=b&&a=b=c&a=%2B+%20&b[]=1&%ff=%fe"),
	formCall("an empty form", ""),
	{name: "a method of its own", method: "PROPFIND", url: "https://api.test/v1", body: "<xml/>"},
	{name: "a host in capitals, with a port", url: "https://API.test:8443/v1"},
}

func bodyCall(name, body string) call {
	return call{name: name, method: http.MethodPost, url: "https://api.test/v1", body: body}
}

func formCall(name, body string) call {
	return call{name: name, method: http.MethodPost, url: "https://api.test/form", header: http.Header{"Content-Type": {formType}}, body: body}
}

// unicode sends requests of all sorts.
func (c *conformer) unicode(k *checking) {
	c.trial(k, "unicode", func(t *trial) {
		for i, config := range c.configs {
			for n, s := range calls {
				if i >= thorough && n%4 != i%4 {
					continue
				}
				got := t.send(fmt.Sprintf("configuration %d, %s", i+1, s.name), config, s.request())
				t.rules(got)
				if !got.authenticated() {
					continue
				}
				if difference := differs(s.request(), got.requests[len(got.requests)-1]); difference != "" {
					k.find("%s: %s", t.name, difference)
				}
			}
		}
	})
}

// differs compares what a caller sent with what the API received, and returns what a mutation may not have changed.
func differs(want, got *http.Request) string {
	wantPath, gotPath := want.URL.EscapedPath(), got.URL.EscapedPath()
	switch {
	case want.Method != got.Method:
		return "the API received another method"
	case wantPath != gotPath && strings.TrimSuffix(wantPath, "/") != strings.TrimSuffix(gotPath, "/"):
		return "the API received another path"
	case !strings.HasPrefix(got.URL.RawQuery, want.URL.RawQuery):
		return "the API received another query"
	case !strings.HasPrefix(bodyOf(got), bodyOf(want)):
		return "the API received another body"
	}
	return ""
}
