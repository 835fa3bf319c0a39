package main

import (
	"crypto"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins/internal/plugintest"
	"github.com/keywright/keywright/sdk"
)

var run = plugintest.Of(plugin{}, "oauth1.wasm")

// config returns a configuration with the secrets consumer and token. Further fields are pairs of name and value; a value of
// nil removes the field.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{
		"consumer_key": "reports", "consumer_secret": "{{ get_secret('consumer') }}",
		"token": "t-4711", "token_secret": "{{ get_secret('token') }}",
	}, pairs...)
}

// form returns a request with a form as its body.
func form(method, target, body string) *http.Request {
	r := hosttest.POST(target, body)
	r.Method = method
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	return r
}

// server has the parts of a signed request that a server reads.
type server struct {
	// own has the parameters of OAuth, without the signature.
	own url.Values
	// place is header, query or form.
	place, realm, signature string
	// base is the signature base string.
	base string
}

// serve reads a request as a server does, RFC 5849 section 3.4.1.
func serve(t *testing.T, r *http.Request) server {
	t.Helper()
	s := server{own: url.Values{}}
	var lines []string
	add := func(place, name, value string) {
		switch {
		case name == "oauth_signature":
			s.signature = value
			return
		case name == "realm" && place == "header":
			s.realm = value
			return
		case strings.HasPrefix(name, "oauth_"):
			s.own.Add(name, value)
			s.place = place
		}
		lines = append(lines, percent(name)+"\x00"+percent(value))
	}
	header, signed := strings.CutPrefix(r.Header.Get("Authorization"), "OAuth ")
	for _, parameter := range strings.Split(header, ", ") {
		name, quoted, _ := strings.Cut(parameter, "=")
		value := testworld.Must(url.PathUnescape(strings.Trim(quoted, `"`)))(t)
		if signed {
			add("header", name, value)
		}
	}
	body, _ := io.ReadAll(r.Body)
	for place, text := range map[string]string{"query": r.URL.RawQuery, "form": string(body)} {
		values, err := url.ParseQuery(text)
		if place == "form" && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, list := range values {
			for _, value := range list {
				add(place, name, value)
			}
		}
	}
	slices.Sort(lines)
	parameters := strings.ReplaceAll(strings.Join(lines, "&"), "\x00", "=")
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	s.base = strings.ToUpper(r.Method) + "&" + percent("https://"+r.URL.Host+path) + "&" + percent(parameters)
	return s
}

// verify reports an error unless the signature is the HMAC with these secrets.
func (s server) verify(t *testing.T, consumer, token string) {
	t.Helper()
	mac := hmac.New(sha1.New, []byte(percent(consumer)+"&"+percent(token)))
	if s.own.Get("oauth_signature_method") == "HMAC-SHA256" {
		mac = hmac.New(sha256.New, []byte(percent(consumer)+"&"+percent(token)))
	}
	mac.Write([]byte(s.base))
	if want := base64.StdEncoding.EncodeToString(mac.Sum(nil)); s.signature != want {
		t.Errorf("the signature is %s, not %s, of\n%s", s.signature, want, s.base)
	}
}

// The parameters go into the header, the query or the form, once each, and the signature covers the method, the URL and the
// parameters of the query and of the form (specification.md 3.37).
func TestPlaces(t *testing.T) {
	for _, place := range []string{"header", "query", "form", ""} {
		for _, method := range []string{"HMAC-SHA1", "HMAC-SHA256", ""} {
			run.Case(t, place+" "+method, func(t *testing.T, h *hosttest.Harness) {
				consumer, token := h.Canary("consumer"), h.Canary("token")
				c := config()
				if place != "" {
					c["in"] = place
				}
				if method != "" {
					c["signature_method"] = method
				}
				got := h.Authenticate(c, form("PUT", "https://api.test/v1/r%20v/X?b5=%3D%253D&a3=a&c%40=&a2=r+b&a=1", "c2&a3=2+q&ä=%E2%82%AC"))
				s := serve(t, got.Request)
				s.verify(t, consumer, token)
				want := url.Values{
					"oauth_consumer_key": {"reports"}, "oauth_token": {"t-4711"}, "oauth_version": {"1.0"},
					"oauth_signature_method": {method}, "oauth_timestamp": {strconv.FormatInt(h.Now().Unix(), 10)},
					"oauth_nonce": {s.own.Get("oauth_nonce")},
				}
				if method == "" {
					want["oauth_signature_method"] = []string{"HMAC-SHA1"}
				}
				if s.own.Encode() != want.Encode() || len(s.own.Get("oauth_nonce")) != 24 {
					t.Errorf("parameters: %v", s.own)
				}
				if s.place != place && (place != "" || s.place != "header") {
					t.Errorf("they are in the %s", s.place)
				}
				if rest := strings.TrimPrefix(got.Request.URL.RawQuery, "b5=%3D%253D&a3=a&c%40=&a2=r+b&a=1"); (rest == "") != (place != "query") {
					t.Errorf("the query is %s", got.Request.URL.RawQuery)
				}
			})
		}
	}
}

// The header is byte for byte that of RFC 5849 section 3.5.1, but for the nonce and the signature.
func TestHeader(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("consumer")
		for want, c := range map[string]hosttest.Config{
			`OAuth realm="The \"API\"", oauth_consumer_key="re%20p%2F", oauth_token="t-4711", oauth_signature_method="HMAC-SHA1", oauth_timestamp="1767323045", oauth_nonce="*", oauth_version="1.0", oauth_signature="*"`: config(
				"realm", `The "API"`, "consumer_key", "re p/", "token_secret", nil),
			`OAuth oauth_consumer_key="reports", oauth_signature_method="HMAC-SHA256", oauth_timestamp="1767323045", oauth_nonce="*", oauth_signature="*"`: config(
				"signature_method", "HMAC-SHA256", "token", nil, "token_secret", nil, "version", ""),
		} {
			got := h.Authenticate(c, hosttest.GET("https://api.test")).Header("Authorization")
			for _, name := range []string{"oauth_nonce", "oauth_signature"} {
				head, rest, _ := strings.Cut(got, name+`="`)
				_, tail, _ := strings.Cut(rest, `"`)
				got = head + name + `="*"` + tail
			}
			if got != want {
				t.Errorf("%s, not\n%s", got, want)
			}
		}
	})
}

// RSA-SHA1 signs with the private key, and without shared secrets.
func TestRSA(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		public := h.Key("key", "RS256").(*rsa.PublicKey)
		c := hosttest.Config{"consumer_key": "reports", "token": "t", "signature_method": "RSA-SHA1", "private_key": "{{ get_secret('key') }}"}
		for _, place := range []string{"header", "query", "form"} {
			c["in"] = place
			s := serve(t, h.Authenticate(c, form("POST", "https://api.test/?q=1", "a=b")).Request)
			signature := testworld.Must(base64.StdEncoding.DecodeString(s.signature))(t)
			sum := sha1.Sum([]byte(s.base))
			if err := rsa.VerifyPKCS1v15(public, crypto.SHA1, sum[:], signature); err != nil || s.place != place {
				t.Errorf("%s: err = %v", s.place, err)
			}
		}
	})
}

// PLAINTEXT sends the secrets themselves, percent-encoded twice, and signs nothing.
func TestPlaintext(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		consumer, token := h.Canary("consumer"), h.Canary("token")
		c := hosttest.Config{
			"consumer_key": "reports", "token": "t", "signature_method": "PLAINTEXT",
			"plaintext_consumer_secret": "{{ get_secret('consumer') }}", "plaintext_token_secret": "{{ get_secret('token') }}",
		}
		s := serve(t, h.Authenticate(c, hosttest.POST("https://api.test/", "a body")).Request)
		if s.signature != percent(consumer)+"&"+percent(token) || s.own.Get("oauth_signature_method") != "PLAINTEXT" || s.own.Get("oauth_nonce") == "" {
			t.Errorf("s = %+v", s)
		}
		delete(c, "plaintext_token_secret")
		if s := serve(t, h.Authenticate(c, hosttest.GET("https://api.test/")).Request); s.signature != percent(consumer)+"&" {
			t.Errorf("s = %+v", s)
		}
	})
}

// Only the fields of PLAINTEXT may be sent. The secrets of signatures and the key may not, whatever the plugin does
// (specification.md "PLAINTEXT has fields of its own").
func TestWhereSecretsMayGo(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, f := range h.Description().Fields {
			want := map[string]string{
				"consumer_secret": "sign", "token_secret": "sign", "private_key": "",
				"plaintext_consumer_secret": "header", "plaintext_token_secret": "header",
			}
			if sinks, secret := want[f.Name]; secret && strings.Join(f.Sinks, " ") != sinks {
				t.Errorf("%s may go to %v", f.Name, f.Sinks)
			} else if secret != (f.Sealed || f.Kind == string(sdk.Key)) {
				t.Errorf("%s is sealed: %t", f.Name, f.Sealed)
			}
		}
	})
}

// The identifiers of client and token may be secrets as well, and the token may be that of the user.
func TestSecretIdentifiers(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		consumer, token := h.Canary("consumer"), h.Canary("token")
		key, id := h.Canary("key"), h.Canary("id")
		for _, place := range []string{"header", "query", "form"} {
			c := config("consumer_key", "{{ get_secret('key') }}", "token", "x-{{ get_secret('id') }}-{{ user.id }}", "in", place)
			h.As(host.User{ID: "ann"})
			s := serve(t, h.Authenticate(c, form("POST", "https://api.test/", "a=b")).Request)
			s.verify(t, consumer, token)
			if s.own.Get("oauth_consumer_key") != key || s.own.Get("oauth_token") != "x-"+id+"-ann" {
				t.Errorf("s.own = %v", s.own)
			}
		}
	})
}

// oauth_body_hash is the digest of a body that is no form, and of no body at all.
func TestBodyHash(t *testing.T) {
	sum1, sum256, none := sha1.Sum([]byte(`{"a":1}`)), sha256.Sum256([]byte(`{"a":1}`)), sha1.Sum(nil)
	run(t, func(t *testing.T, h *hosttest.Harness) {
		consumer, token := h.Canary("consumer"), h.Canary("token")
		once := hosttest.POST("https://api.test/", `{"a":1}`)
		once.GetBody = nil
		for name, test := range map[string]struct {
			r    *http.Request
			c    hosttest.Config
			want []byte
		}{
			"JSON":                              {hosttest.POST("https://api.test/", `{"a":1}`), config("body_hash", true), sum1[:]},
			"JSON with SHA-256":                 {hosttest.POST("https://api.test/", `{"a":1}`), config("body_hash", true, "signature_method", "HMAC-SHA256"), sum256[:]},
			"a body that can be read only once": {once, config("body_hash", true), sum1[:]},
			"no body":                           {hosttest.GET("https://api.test/"), config("body_hash", true), none[:]},
			"a form":                            {form("POST", "https://api.test/", "a=b"), config("body_hash", true), nil},
			"in the query":                      {hosttest.POST("https://api.test/", `{"a":1}`), config("body_hash", "true", "in", "query"), sum1[:]},
			"not asked for":                     {hosttest.POST("https://api.test/", `{"a":1}`), config(), nil},
		} {
			want := ""
			if test.want != nil {
				want = base64.StdEncoding.EncodeToString(test.want)
			}
			s := serve(t, h.Authenticate(test.c, test.r).Request)
			s.verify(t, consumer, token)
			if got := s.own.Get("oauth_body_hash"); got != want {
				t.Errorf("%s: %s, not %s", name, got, want)
			}
		}
	})
}

// A form goes to the API as it was, also if it can be read only once.
func TestUnchangedBody(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("consumer")
		h.Canary("token")
		for place, want := range map[string]string{"header": "b=2&a=%7e+", "form": "b=2&a=%7e+&oauth_consumer_key=reports&"} {
			r := form("POST", "https://api.test/", "b=2&a=%7e+")
			r.GetBody = nil
			got, _ := io.ReadAll(h.Authenticate(config("in", place), r).Request.Body)
			if !strings.HasPrefix(string(got), want) || place == "header" && string(got) != want {
				t.Errorf("%s: got = %s", place, got)
			}
		}
	})
}

// A request without a body gets one with in: form.
func TestFormOfItsOwn(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		consumer, token := h.Canary("consumer"), h.Canary("token")
		got := h.Authenticate(config("in", "form"), hosttest.POST("https://api.test/v1", ""))
		serve(t, got.Request).verify(t, consumer, token)
		if got.Header("Content-Type") != "application/x-www-form-urlencoded" {
			t.Error(got.Request.Header)
		}
	})
}

// Each request has a nonce of its own and the time of the clock. Nothing is asked of a token endpoint.
func TestSignedRequests(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("consumer")
		h.Canary("token")
		nonces := map[string]bool{}
		for range 3 {
			s := serve(t, h.Authenticate(config(), hosttest.GET("https://api.test/")).Request)
			if s.own.Get("oauth_timestamp") != strconv.FormatInt(h.Now().Unix(), 10) || nonces[s.own.Get("oauth_nonce")] {
				t.Errorf("s.own = %v", s.own)
			}
			nonces[s.own.Get("oauth_nonce")] = true
			h.Advance(time.Second)
		}
		plugintest.Exchanges(t, h, 0)
	})
}
