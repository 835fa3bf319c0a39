package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

const (
	emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	scope     = "20150830/us-east-1/service/aws4_request"
	keyID     = "AKIDEXAMPLE"
	secretKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	token     = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22w+DOk4x4HIZ8j4FZTwdQ=="
)

// signedAt is the time of the requests of the tests.
var signedAt = time.Date(2015, time.August, 30, 12, 36, 0, 0, time.UTC)

var run = plugintest.Of(plugin{}, "awssigv4.wasm", func(h *hosttest.Harness) {
	h.Secret("aws", secretKey)
	h.Secret("session", token)
	h.Advance(signedAt.Sub(h.Now()))
})

// config returns a configuration. Further fields are pairs of name and value.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{
		"access_key_id": keyID, "secret_access_key": "{{ get_secret('aws') }}", "region": "us-east-1", "service": "service",
	}, pairs...)
}

// sign returns the signature of a canonical request, which the test writes by the rules of AWS. Only the stamp and the scope
// vary.
func sign(canonical, stamp, scope string) string {
	mac := func(key, data string) string {
		h := hmac.New(sha256.New, []byte(key))
		_, _ = io.WriteString(h, data)
		return string(h.Sum(nil))
	}
	key := "AWS4" + secretKey
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	return hex.EncodeToString([]byte(mac(key, "AWS4-HMAC-SHA256\n"+stamp+"\n"+scope+"\n"+sha256Of(canonical))))
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// authorization returns the value of Authorization for a canonical request.
func authorization(canonical, scope string) string {
	lines := strings.Split(canonical, "\n")
	stamp := ""
	for _, line := range lines {
		if value, found := strings.CutPrefix(line, "x-amz-date:"); found {
			stamp = value
		}
	}
	return "AWS4-HMAC-SHA256 Credential=" + keyID + "/" + scope + ", SignedHeaders=" + lines[len(lines)-2] + ", Signature=" + sign(canonical, stamp, scope)
}

// canonical returns a canonical request from lines.
func canonical(lines ...string) string { return strings.Join(lines, "\n") }

// The request has X-Amz-Date and Authorization, and is otherwise unchanged (specification.md 3.38).
func TestHeader(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		r := hosttest.GET("https://example.amazonaws.com/a//b/../c%20d?b=2&a=1")
		r.Header = http.Header{"Authorization": {"mine"}, "X-Amz-Date": {"19990101T000000Z"}, "Accept": {"text/html"}}
		got := h.Authenticate(config(), r)
		want := http.Header{
			"Accept": {"text/html"}, "X-Amz-Date": {"20150830T123600Z"},
			"Authorization": {authorization(canonical("GET", "/a/c%2520d", "a=1&b=2",
				"accept:text/html", "host:example.amazonaws.com", "x-amz-date:20150830T123600Z", "", "accept;host;x-amz-date", emptyHash), scope)},
		}
		if !maps.EqualFunc(got.Request.Header, want, slices.Equal) || got.Request.URL.String() != "https://example.amazonaws.com/a//b/../c%20d?b=2&a=1" {
			t.Errorf("%s with\n%v, not\n%v", got.Request.URL, got.Request.Header, want)
		}
	})
}

// The examples of AWS: "Authenticating Requests" in the reference of S3's API, and "Signature Version 4 signing process" in
// the general reference.
func TestExamplesOfAWS(t *testing.T) {
	const s3 = "https://examplebucket.s3.amazonaws.com"
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("aws", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
		h.Advance(time.Date(2013, time.May, 24, 0, 0, 0, 0, time.UTC).Sub(h.Now()))
		put := hosttest.POST(s3+"/test%24file.text", "Welcome to Amazon S3.")
		put.Method, put.ContentLength = http.MethodPut, -1 // the example does not sign the length
		put.Header = http.Header{"Date": {"Fri, 24 May 2013 00:00:00 GMT"}, "X-Amz-Storage-Class": {"REDUCED_REDUNDANCY"}}
		get := hosttest.GET(s3 + "/test.txt")
		get.Header.Set("Range", "bytes=0-9")
		list := hosttest.GET("https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08")
		list.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		presigned := []any{"in", "query", "expires_seconds", 86400}
		for _, c := range []struct {
			name    string
			request *http.Request
			extra   []any
			want    string
		}{
			{"GET object", get, nil, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
			{"PUT object", put, nil, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
			{"GET bucket lifecycle", hosttest.GET(s3 + "/?lifecycle"), nil, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
			{"list objects", hosttest.GET(s3 + "/?max-keys=2&prefix=J"), nil, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
			{"presigned", hosttest.GET(s3 + "/test.txt"), presigned, "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"},
			{"ListUsers", list, []any{"service", "iam"}, "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"},
		} {
			with := config(append([]any{"service", "s3", "access_key_id", "AKIAIOSFODNN7EXAMPLE"}, c.extra...)...)
			if with["service"] != "s3" {
				h.Secret("aws", secretKey)
				h.Advance(signedAt.Sub(h.Now()))
			}
			got := h.Authenticate(with, c.request)
			_, signature, _ := strings.Cut(got.Header("Authorization"), "Signature=")
			if signature == "" {
				signature = got.Query().Get("X-Amz-Signature")
			}
			if signature != c.want {
				t.Errorf("%s: %s %v is signed with %s, not %s", c.name, got.Request.URL, got.Request.Header, signature, c.want)
			}
		}
	})
}

// What is signed of a URL. The path is signed without dot segments and empty ones, encoded once more; S3 signs it as it is.
// A query is sorted and encoded anew, and a + in it is a space.
func TestURL(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, c := range []struct{ url, path, s3, query string }{
			{"https://api.test", "/", "/", ""},
			{"https://api.test?", "/", "/", ""},
			{"https://api.test/.", "/", "/.", ""},
			{"https://api.test//", "/", "//", ""},
			{"https://api.test/../a/./b//c/../", "/a/b/", "/../a/./b//c/../", ""},
			{"https://api.test/a/.", "/a", "/a/.", ""},
			{"https://api.test/a/..", "/", "/a/..", ""},
			{"https://api.test/a%2fb%20%C3%BC/-._~AZaz09", "/a%252fb%2520%25C3%25BC/-._~AZaz09", "/a/b%20%C3%BC/-._~AZaz09", ""},
			{"https://api.test/a:b@c=d;e,f'g(h)!*+$&", "/a%3Ab%40c%3Dd%3Be%2Cf%27g%28h%29%21%2A%2B%24%26", "/a%3Ab%40c%3Dd%3Be%2Cf%27g%28h%29%21%2A%2B%24%26", ""},
			{"https://api.test/?b=2&a=2&a=1&B=3&a-b=4&a", "/", "/", "B=3&a=&a=1&a=2&a-b=4&b=2"},
			{"https://api.test/?a=b+c%2Bd%7e%2f%c3%bc&&x=1=2/3", "/", "/", "a=b%20c%2Bd~%2F%C3%BC&x=1%3D2%2F3"},
			{"https://api.test/?a=50%&b=%zz&c=%4&d=%4z&e=%z4&f=%", "/", "/", "a=50%25&b=%25zz&c=%254&d=%254z&e=%25z4&f=%25"},
			{"https://api.test:8443/v1?#fragment", "/v1", "/v1", ""},
		} {
			r := hosttest.GET(c.url)
			got := h.Authenticate(config(), r)
			want := authorization(canonical("GET", c.path, c.query, "host:"+r.URL.Host, "x-amz-date:20150830T123600Z", "", "host;x-amz-date", emptyHash), scope)
			if got.Header("Authorization") != want {
				t.Errorf("%s: %s, not %s", c.url, got.Header("Authorization"), want)
			}
			s3 := strings.Replace(scope, "service", "s3", 1)
			want = authorization(canonical("GET", c.s3, c.query, "host:"+r.URL.Host, "x-amz-content-sha256:"+emptyHash, "x-amz-date:20150830T123600Z", "",
				"host;x-amz-content-sha256;x-amz-date", emptyHash), s3)
			plugintest.Sends(t, h, config("service", "s3"), r, want)
		}
	})
}

// The rules of S3 hold for its other names, and each can be set for any service.
func TestRulesOfAService(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		content := "x-amz-content-sha256:" + emptyHash
		for _, c := range []struct {
			name    string
			config  hosttest.Config
			path    string
			content bool
		}{
			{"service", config(), "/b%2520c", false},
			{"s3-outposts", config("service", "s3-outposts"), "/a/../b%20c", true},
			{"s3express", config("service", "s3express"), "/a/../b%20c", true},
			{"s3tables", config("service", "s3tables"), "/b%2520c", false},
			{"s3, all rules off", config("service", "s3", "normalize_path", true, "double_encode_path", true, "content_sha256_header", false), "/b%2520c", false},
			{"aoss", config("content_sha256_header", true), "/b%2520c", true},
			{"not normalized", config("normalize_path", false), "/a/../b%2520c", false},
			{"encoded once", config("double_encode_path", "{{ 'false' }}"), "/b%20c", false},
		} {
			lines := []string{"GET", c.path, "", "host:api.test"}
			if c.content {
				lines = append(lines, content)
			}
			lines = append(lines, "x-amz-date:20150830T123600Z", "", "host;x-amz-date", emptyHash)
			if c.content {
				lines[len(lines)-2] = "host;x-amz-content-sha256;x-amz-date"
			}
			got := h.Authenticate(c.config, hosttest.GET("https://api.test/a/../b%20c"))
			want := authorization(canonical(lines...), strings.Replace(scope, "service", fmt.Sprint(c.config["service"]), 1))
			if got.Header("Authorization") != want || (got.Header("X-Amz-Content-Sha256") == emptyHash) != c.content {
				t.Errorf("%s: %v, not %s", c.name, got.Request.Header, want)
			}
		}
	})
}

// What is signed of headers: all that no proxy and no client changes, with their values of one name in one line, without
// space around them (specification.md "headers that AWS's signature covers").
func TestSignedHeaders(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		r := hosttest.POST("https://api.test/", "body")
		r.Header = http.Header{
			"Content-Type": {"text/plain"}, "My-Header": {" b ", "a", "", "c\t  \t d"}, "my-Header": {"e"}, "X-U": {"é  \u00a0 x"}, "Empty": {""},
			"User-Agent": {"a"}, "Accept-Encoding": {"gzip"}, "Connection": {"keep-alive"}, "Content-Length": {"99"}, "Expect": {"100-continue"},
			"Te": {"trailers"}, "Via": {"1.1 a"}, "Forwarded": {"for=1.2.3.4"}, "X-Forwarded-For": {"1.2.3.4"}, "Traceparent": {"00-1-2-00"},
			"Keep-Alive": {"5"}, "Trailer": {"X"}, "Transfer-Encoding": {"gzip"}, "Upgrade": {"h2c"}, "Baggage": {"a=b"}, "Tracestate": {"a=b"},
			"X-Amzn-Trace-Id": {"Root=1"}, "Sec-Fetch-Mode": {"cors"}, "Cookie": {"a=b"}, "Proxy-Connection": {"close"},
		}
		got := h.Authenticate(config(), r)
		want := authorization(canonical("POST", "/", "",
			"content-length:4", "content-type:text/plain", "empty:", "host:api.test", "my-header:b,a,,c d,e", "x-amz-date:20150830T123600Z", "x-u:é \u00a0 x", "",
			"content-length;content-type;empty;host;my-header;x-amz-date;x-u", sha256Of("body")), scope)
		if got.Header("Authorization") != want {
			t.Errorf("Authorization: %s, not %s", got.Header("Authorization"), want)
		}
		r = hosttest.GET("https://api.test/")
		r.Header.Set("Content-Length", "0") // as a server has it; net/http does not send it
		want = authorization(canonical("GET", "/", "", "host:api.test", "x-amz-date:20150830T123600Z", "", "host;x-amz-date", emptyHash), scope)
		plugintest.Sends(t, h, config(), r, want)
	})
}

// The time is written as AWS wants it, on every day.
func TestTime(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, place := range []string{
			"2000-02-28T23:59:59Z", "2000-02-29T00:00:00Z", "2000-03-01T01:02:03Z", "2024-02-29T12:00:00Z", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z",
			"2026-04-30T09:08:07Z", "2026-07-31T20:00:00Z", "2100-02-28T00:00:00Z", "2100-03-01T00:00:00Z", "2026-11-09T00:10:00Z",
		} {
			when := testworld.Must(time.Parse(time.RFC3339, place))(t)
			h.Advance(when.Sub(h.Now()))
			got := h.Authenticate(config(), hosttest.GET("https://api.test/"))
			if want := when.Format("20060102T150405Z"); got.Header("X-Amz-Date") != want || !strings.Contains(got.Header("Authorization"), "/"+want[:8]+"/") {
				t.Errorf("%s: got.Request.Header = %v", place, got.Request.Header)
			}
		}
	})
}

// A configuration with a mistake is refused when it is loaded.
func TestRefusedConfigurations(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, c := range []struct {
			name   string
			config hosttest.Config
			path   string
		}{
			{"region", config("region", "us-east-1/s3"), "auth.config.region"},
			{"service", config("service", "execute api"), "auth.config.service"},
			{"a place", config("in", "cookie"), "auth.config.in"},
			{"no time", config("expires_seconds", 0), "auth.config.expires_seconds"},
			{"too long a time", config("expires_seconds", 604801), "auth.config.expires_seconds"},
			{"far too long a time", config("expires_seconds", 1000000), "auth.config.expires_seconds"},
			{"an unknown field", config("aws_region", "x"), "auth.config.aws_region"},
		} {
			problems := h.Problems(c.config)
			if len(problems) != 1 || problems[0].Path != c.path {
				t.Errorf("%s: problems = %v", c.name, problems)
			}
		}
		for _, c := range []hosttest.Config{config("expires_seconds", 604800), config("expires_seconds", 99999), config("region", "{{ 'a/b' }}")} {
			plugintest.Problems(t, h, c, "")
		}
		for words, c := range map[string]hosttest.Config{
			"region has a slash or a space: write only the name": config("region", "{{ 'a/b' }}"),
			"service has a slash or a space":                     config("service", "{{ 's3 x' }}"),
			"expires_seconds is more than 604800":                config("in", "query", "expires_seconds", "{{ 604801 }}"),
		} {
			plugintest.Refuses(t, h, c, hosttest.GET("https://api.test/"), host.StageConfig, words)
		}
	})
}

// Every required field is missed.
func TestRequiredFields(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, name := range []string{"access_key_id", "secret_access_key", "region", "service"} {
			c := config()
			delete(c, name)
			plugintest.Problems(t, h, c, name)
		}
		h.Secret("aws", " ")
		plugintest.Refuses(t, h, config(), hosttest.GET("https://api.test/"), host.StageTemplate, "")
	})
}

// The secret has no way into a request but as the key of a signature.
func TestReachOfTheSecret(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, f := range h.Description().Fields {
			switch f.Name {
			case "secret_access_key":
				if !slices.Equal(f.Sinks, []string{"sign"}) || !slices.Equal(f.Derived, []string{"sign", "header", "query"}) || !f.Sealed {
					t.Errorf("f = %+v", f)
				}
			case "session_token":
				if !f.Sealed {
					t.Errorf("f = %+v", f)
				}
			}
		}
	})
}
