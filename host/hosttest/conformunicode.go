package hosttest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/keywright/keywright/host"
)

// alphabets is a text of other alphabets than that of ASCII.
const alphabets = "Zoë-日本語-🔑"

// newRequest is a request of a caller. make returns it anew each time.
type newRequest struct {
	name string
	make func() *http.Request
}

// requests are requests of all sorts.
var requests = []newRequest{
	{"a path of other alphabets", get("/" + alphabets + "/%E6%97%A5%2F%25%C3")},
	{"a query of odd characters", get("/q?a&a=&=b&&a=b=c&a=%2B+%20&b[]=1;c=2&%ff=%fe")},
	{"a form of other alphabets", form("name=%E6%97%A5%F0%9F%94%91&n%C3%A4me=%C3%BC&x=" + alphabets)},
	{"a body that is no text", post("\x00\xff\xfe\x80\n")},
	{"a path of odd characters", get("//a/;x=1/@:!$&'()*+,/%00/~._-")},
	{"an empty path", get("")},
	{"a query of other alphabets", get("/q?name=%E6%97%A5%F0%9F%94%91&n%C3%A4me=%C3%BC&x=" + alphabets)},
	{"a query of many parameters", get("/q?" + strings.Repeat("name=value&", 200))},
	{"a long path", get("/" + strings.Repeat("segment/", 500))},
	{"headers of odd characters", headers(map[string]string{
		"X-Name": alphabets, "X-Empty": "", "X-Bytes": "\xff\xfe", "Content-Type": `text/plain; charset="` + alphabets + `"`,
	})},
	{"a long header", headers(map[string]string{"X-Long": strings.Repeat("h", 2<<10)})},
	{"a text of other alphabets", post(alphabets)},
	{"a large body", post(strings.Repeat("0123456789", 20<<10))},
	{"a form of odd characters", form("a&a=&=b&&a=b=c&a=%2B+%20&b[]=1&%ff=%fe")},
	{"an empty form", form("")},
	{"a method of its own", func() *http.Request { return request("PROPFIND", "https://api.test/v1", "<xml/>") }},
	{"a host in capitals, with a port", func() *http.Request { return GET("https://API.test:8443/v1") }},
}

func get(target string) func() *http.Request {
	return func() *http.Request { return GET("https://api.test" + target) }
}

func post(body string) func() *http.Request {
	return func() *http.Request { return POST("https://api.test/v1", body) }
}

func form(body string) func() *http.Request {
	return func() *http.Request {
		r := POST("https://api.test/form", body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	}
}

// headers returns a request that has each header twice.
func headers(values map[string]string) func() *http.Request {
	return func() *http.Request {
		r := GET("https://api.test/headers")
		for name, value := range values {
			r.Header[name] = []string{value, value}
		}
		return r
	}
}

// unicode sends requests of all sorts.
func (c *conformer) unicode(k *checking) {
	c.trial(k, "unicode", func(t *trial) {
		for i, config := range c.configs {
			for n, r := range requests {
				if i >= thorough && n%4 != i%4 {
					continue
				}
				got := t.send(fmt.Sprintf("configuration %d, %s", i+1, r.name), config, r.make())
				if got.wrong == "" && got.failure() == host.FailureAnswer && stage(got.err) == host.StagePlugin {
					k.find("%s: %v", t.name, got.err)
				}
				if !got.authenticated() {
					continue
				}
				if difference := differs(r.make(), got.sent[len(got.sent)-1]); difference != "" {
					k.find("%s: %s", t.name, difference)
				}
			}
		}
	})
}

// differs compares what a caller sent with what the API received, and returns what a mutation may not have changed.
func differs(want, got *http.Request) string {
	body := bodyOf(want)
	switch {
	case want.Method != got.Method:
		return "the API received another method"
	case want.URL.EscapedPath() != got.URL.EscapedPath() && strings.TrimSuffix(want.URL.EscapedPath(), "/") != strings.TrimSuffix(got.URL.EscapedPath(), "/"):
		return "the API received another path"
	case !strings.HasPrefix(got.URL.RawQuery, want.URL.RawQuery):
		return "the API received another query"
	case !strings.HasPrefix(bodyOf(got), body):
		return "the API received another body"
	}
	return ""
}
