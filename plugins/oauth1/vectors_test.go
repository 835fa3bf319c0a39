package main

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// percent returns text encoded as in RFC 5849 section 3.6.
func percent(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// example sends a request of the RFC, with the time and the nonce that it has there, and returns its Authorization.
func example(h *hosttest.Harness, c hosttest.Config, r *http.Request, now int64, nonce string) string {
	h.AllowHTTP()
	h.Random(nonce)
	h.Advance(time.Unix(now, 0).Sub(h.Now()))
	return h.Authenticate(c, r).Header("Authorization")
}

// The request for the photo of RFC 5849 section 1.2 has the header of the RFC.
func TestPhotoOfTheRFC(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("consumer", "kd94hf93k423kf44")
		h.Secret("token", "pfkkdhi9sl3r4s00")
		c := config("consumer_key", "dpf43f3p2l4k3l03", "token", "nnch734d00sl2jdk", "realm", "Photos", "version", "")
		const want = `OAuth realm="Photos", oauth_consumer_key="dpf43f3p2l4k3l03", oauth_token="nnch734d00sl2jdk", ` +
			`oauth_signature_method="HMAC-SHA1", oauth_timestamp="137131202", oauth_nonce="chapoH", ` +
			`oauth_signature="MdpQcU8iPSUjWoN%2FUDMsK2sui9I%3D"`
		if got := example(h, c, hosttest.GET("http://photos.example.net/photos?file=vacation.jpg&size=original"), 137131202, "chapoH"); got != want {
			t.Errorf("%s, not\n%s", got, want)
		}
	})
}

// The request of RFC 5849 section 3.1 has the signature base string of section 3.4.1.1. Its signature in the RFC is wrong;
// this is that of erratum 2550.
func TestBaseStringOfTheRFC(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("consumer", "j49sk3j29djd")
		h.Secret("token", "dh893hdasih9")
		c := config("consumer_key", "9djdj82h48djs9d2", "token", "kkk9d7dh3k39sjv7", "realm", "Example", "version", "")
		r := form("POST", "http://example.com/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b", "c2&a3=2+q")
		if got := example(h, c, r, 137131201, "7d8f3e4a"); !strings.HasSuffix(got, `oauth_signature="r6%2FTJjbCOr97%2F%2BUU0NsvSne7s5g%3D"`) {
			t.Error(got)
		}
		const want = "POST&http%3A%2F%2Fexample.com%2Frequest&a2%3Dr%2520b%26a3%3D2%2520q%26a3%3Da%26b5%3D%253D%25253D%26c%2540%3D%26c2%3D" +
			"%26oauth_consumer_key%3D9djdj82h48djs9d2%26oauth_nonce%3D7d8f3e4a%26oauth_signature_method%3DHMAC-SHA1" +
			"%26oauth_timestamp%3D137131201%26oauth_token%3Dkkk9d7dh3k39sjv7"
		r = form("POST", "http://example.com/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b", "c2&a3=2+q")
		steps := h.Explain(c, r).Steps
		if len(steps) != 1 || steps[0].Signed != want {
			t.Errorf("the base string is %+v, not\n%s", steps, want)
		}
	})
}

// The base string URIs are those of RFC 5849 section 3.4.1.2, and the method is in capitals.
func TestBaseStringURIs(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.AllowHTTP()
		h.Canary("consumer")
		h.Canary("token")
		for address, want := range map[string]string{
			"http://EXAMPLE.COM:80/r%20v/X?id=123": "PATCH&http%3A%2F%2Fexample.com%2Fr%2520v%2FX&id%3D123%26",
			"https://www.example.net:8080/?q=1":    "PATCH&https%3A%2F%2Fwww.example.net%3A8080%2F&",
			"https://example.com:443":              "PATCH&https%3A%2F%2Fexample.com%2F&oauth_consumer_key",
			"http://example.com:443#x":             "PATCH&http%3A%2F%2Fexample.com%3A443%2F&oauth_consumer_key",
		} {
			r := hosttest.GET(address)
			r.Method = "patch"
			if steps := h.Explain(config(), r).Steps; len(steps) != 1 || !strings.HasPrefix(steps[0].Signed, want) {
				t.Errorf("%s: steps = %+v", address, steps)
			}
		}
	})
}

// A request that the API refuses is not repeated. If the API's clock is another, later requests have its time.
func TestRefused(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("consumer")
		h.Canary("token")
		future := h.Now().Add(time.Hour)
		h.API(plugintest.Dated(h, hosttest.JSON(401, `{"oauth_problem":"timestamp_refused"}`), time.Hour), hosttest.JSON(200, "{}"))
		first := h.Authenticate(config(), hosttest.GET("https://api.test/"))
		if first.Attempts != 1 || first.Response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%d attempts, status %d", first.Attempts, first.Response.StatusCode)
		}
		s := serve(t, h.Authenticate(config(), hosttest.GET("https://api.test/")).Request)
		if got := s.own.Get("oauth_timestamp"); got != strconv.FormatInt(future.Unix(), 10) {
			t.Errorf("the time is %s", got)
		}
	})
}

// without returns a configuration without the secrets of an HMAC.
func without(pairs ...any) hosttest.Config {
	return config(append([]any{"consumer_secret", nil, "token_secret", nil}, pairs...)...)
}

// Requests that cannot be signed are not sent. The errors name the field, or the parameter.
func TestRefusedRequests(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("consumer")
		h.Canary("token")
		h.Key("ec", "ES256")
		h.Secret("empty", "")
		get := hosttest.GET("https://api.test/?a=b")
		for _, test := range map[string]struct {
			c     hosttest.Config
			r     *http.Request
			stage host.Stage
			words string
		}{
			"PLAINTEXT with the secret of a signature, by a template": {
				config("signature_method", "{{ user.id | default('PLAINTEXT') }}"), get, host.StageConfig, "plaintext_consumer_secret is missing",
			},
			"PLAINTEXT in the query, by a template": {
				without("signature_method", "PLAINTEXT", "plaintext_consumer_secret", "{{ get_secret('consumer') }}", "in", "{{ user.id | default('query') }}"),
				get, host.StagePlugin, "do not reach",
			},
			"another key": {without("signature_method", "RSA-SHA1", "private_key", "{{ get_secret('ec') }}"), get, host.StageSign, "an RSA key is needed"},
			"a parameter of OAuth in the query": {
				config(), hosttest.GET("https://api.test/?oauth%5Fnonce=1"), host.StagePlugin, "the parameter oauth_nonce: leave it out",
			},
			"a signature in the form": {config(), form("POST", "https://api.test/", "oauth_signature=1"), host.StagePlugin, "the parameter oauth_signature"},
			"a form that is none":     {config(), form("POST", "https://api.test/", "a=%zz"), host.StageBody, "percent-encoded"},
			"JSON with in: form":      {config("in", "form"), hosttest.POST("https://api.test/", "{}"), host.StageMutation, "form"},
			"GET with in: form":       {config("in", "form"), get, host.StageMutation, "body"},
			"an empty secret":         {config("consumer_secret", "{{ get_secret('empty') }}"), get, host.StageTemplate, "consumer_secret"},
		} {
			plugintest.Refuses(t, h, test.c, test.r, test.stage, test.words)
		}
	})
}

// What contradicts itself is refused at load, all at once.
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("consumer")
		for _, test := range []struct {
			want string
			c    hosttest.Config
		}{
			{"", config()},
			{"", config("realm", "r", "body_hash", true, "signature_method", "HMAC-SHA256")},
			{"consumer_key", config("consumer_key", nil)},
			{"consumer_secret", config("consumer_secret", nil)},
			{"consumer_secret", config("consumer_secret", nil, "signature_method", "HMAC-SHA256")},
			{"private_key", without("signature_method", "RSA-SHA1")},
			{"plaintext_consumer_secret", without("signature_method", "PLAINTEXT")},
			{"consumer_secret token_secret private_key", config("signature_method", "RSA-SHA1")},
			{"consumer_secret token_secret", config("signature_method", "PLAINTEXT", "plaintext_consumer_secret", "s")},
			{"private_key plaintext_consumer_secret plaintext_token_secret algorithm", config("private_key", "k", "algorithm", "RS1",
				"plaintext_consumer_secret", "s", "plaintext_token_secret", "t")},
			{"", config("signature_method", "{{ get_variable('method') }}", "private_key", "k", "plaintext_consumer_secret", "s")},
			{"signature_method in body_hash", config("signature_method", "HMAC-SHA512", "in", "cookie", "body_hash", "maybe")},
			{"algorithm", config("algorithm", "RS256")},
			{"version", config("version", "2.0")},
			{"realm in body_hash", without("signature_method", "PLAINTEXT", "plaintext_consumer_secret", "{{ get_secret('consumer') }}", "in", "query", "realm", "r", "body_hash", true)},
			{"realm body_hash", config("in", "form", "realm", "r", "body_hash", true)},
			{"private_key", without("signature_method", "RSA-SHA1", "private_key", " ")},
			{"in", without("signature_method", "PLAINTEXT", "plaintext_consumer_secret", "{{ get_secret('consumer') }}", "in", "query")},
			{"in", without("signature_method", "PLAINTEXT", "plaintext_consumer_secret", "{{ get_secret('consumer') }}", "in", "form")},
		} {
			plugintest.Problems(t, h, test.c, test.want)
		}
	})
}

// An explanation shows the parameters, and the secrets as their templates.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("consumer")
		h.Canary("token")
		e := h.Explain(config("realm", "r"), hosttest.GET("https://api.test/?a=b"))
		if len(e.Added.Headers) != 1 || !strings.HasPrefix(e.Added.Headers[0].Value, `OAuth realm="r", oauth_consumer_key="reports", `) ||
			!strings.Contains(e.Added.Headers[0].Value, "get_secret('consumer')") {
			t.Errorf("added: %+v", e.Added)
		}
	})
}
