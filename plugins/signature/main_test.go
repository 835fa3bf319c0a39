package main

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

var run = plugintest.Of(plugin{}, "signature.wasm")

// config returns a configuration with the secret "key" that signs message. Further fields are pairs of name and value.
func config(message string, pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{"secret": "{{ get_secret('key') }}", "message": message, "key": "X-Signature"}, pairs...)
}

// mac returns an HMAC.
func mac(newHash func() hash.Hash, key, message string) []byte {
	m := hmac.New(newHash, []byte(key))
	m.Write([]byte(message))
	return m.Sum(nil)
}

// wantSigned fails the test unless X-Signature is that of a message.
func wantSigned(t *testing.T, got *hosttest.Result, key, message string) {
	t.Helper()
	if want := hex.EncodeToString(mac(sha256.New, key, message)); got.Header("X-Signature") != want {
		t.Errorf("the signature %s is not that of %q", got.Header("X-Signature"), message)
	}
}

// request returns a request with all parts.
func request() *http.Request {
	r := hosttest.POST("https://API.test:8443/a%2Fb/c?x=1&y=%7e+z#f", "hello {method}")
	r.Header = http.Header{"X-One": {" 1 "}, "X-Two": {"a", "b "}, "Content-Type": {"text/plain"}}
	return r
}

// Each placeholder has its value of the request that is sent (specification.md 3.35).
func TestPlaceholders(t *testing.T) {
	for message, want := range map[string]string{
		"{method}":                  "POST",
		"{scheme}":                  "https",
		"{host}":                    "API.test:8443",
		"{hostname}":                "api.test",
		"{port}":                    "8443",
		"{path}":                    "/a%2Fb/c",
		"{query}":                   "x=1&y=%7e+z",
		"{target}":                  "/a%2Fb/c?x=1&y=%7e+z",
		"{url}":                     "https://API.test:8443/a%2Fb/c?x=1&y=%7e+z",
		"{body}":                    "hello {method}", // is not read for placeholders
		"{header:X-One}":            "1",
		"{header:x-two}":            "a, b",
		"[{header:X-Three}]":        "[]",
		"{header:Host}":             "API.test:8443",
		"{header:content-length}":   "14",
		"{timestamp}":               "1767323045",
		"{timestamp_ms}":            "1767323045678",
		"{iso8601}":                 "2026-01-02T03:04:05Z",
		"{time:%s.%L}":              "1767323045.678",
		"{time:%a %d %b %Y %%%x}":   "Fri 02 Jan 2026 %%x",
		"{method} {path} {method}.": "POST /a%2Fb/c POST.",
		`a}\n\t\r\\\{method} "é"`:   "a}\n\t\r\\{method} \"é\"",
	} {
		run.Case(t, message, func(t *testing.T, h *hosttest.Harness) {
			key := h.Canary("key")
			h.Advance(678 * time.Millisecond)
			wantSigned(t, h.Authenticate(config(message), request()), key, want)
		})
	}
}

// A request without a path, query, port or body has these values.
func TestPlaceholdersOfAPlainRequest(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Canary("key")
		message := "{path} {query} {target} {url} {host} {hostname} {port} {body} {header:content-length}"
		got := h.Authenticate(config(message), hosttest.GET("https://api.test"))
		wantSigned(t, got, key, "/  / https://api.test/ api.test api.test 443  ")
		got = h.Authenticate(config(message), hosttest.GET("https://[2001:db8::1]?q"))
		wantSigned(t, got, key, "/ q /?q https://[2001:db8::1]/?q [2001:db8::1] [2001:db8::1] 443  ")
	})
}

// A value can be hashed and encoded, one step after the other.
func TestFormats(t *testing.T) {
	sum := func(text string) string { s := sha256.Sum256([]byte(text)); return string(s[:]) }
	body := "hello {method}"
	long := sha512.Sum512([]byte(body))
	for message, want := range map[string]string{
		"{body|sha256|hex}":                  hex.EncodeToString([]byte(sum(body))),
		"{body|sha512|base64}":               base64.StdEncoding.EncodeToString(long[:]),
		"{body|sha256}":                      sum(body), // raw bytes
		"{body|sha256|hex|sha256|hex_upper}": strings.ToUpper(hex.EncodeToString([]byte(sum(hex.EncodeToString([]byte(sum(body))))))),
		"{body|md5|base64}":                  "WOtJjMGCEesscQWxZTtQfg==",
		"{method|base64}":                    "UE9TVA==",
		"{method|base64url}":                 "UE9TVA",
		"{method|base32}":                    base32.StdEncoding.EncodeToString([]byte("POST")),
		"{query|percent}":                    "x%3D1%26y%3D%257e%2Bz",
		"{query|form}":                       "x%3D1%26y%3D%257e%2Bz",
		"{method}{header:X-Two|hex}":         "POST" + hex.EncodeToString([]byte("a, b")),
	} {
		run.Case(t, message, func(t *testing.T, h *hosttest.Harness) {
			key := h.Canary("key")
			wantSigned(t, h.Authenticate(config(message), request()), key, want)
		})
	}
}

// The hash function, the encoding of the secret and that of the signature are as configured.
func TestAlgorithmsAndEncodings(t *testing.T) {
	const key, message = "a \xff secret of bytes\x00", "GET"
	hashes := map[string]func() hash.Hash{"SHA-1": sha1.New, "SHA-256": sha256.New, "SHA-384": sha512.New384, "SHA-512": sha512.New}
	secrets := map[string]string{
		"base64": base64.StdEncoding.EncodeToString([]byte(key)), "base64url": base64.RawURLEncoding.EncodeToString([]byte(key)),
		"base32": base32.StdEncoding.EncodeToString([]byte(key)), "hex": hex.EncodeToString([]byte(key)),
	}
	signatures := map[string]func([]byte) string{
		"hex": hex.EncodeToString, "hex_upper": func(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) },
		"base64": base64.StdEncoding.EncodeToString, "base64url": base64.RawURLEncoding.EncodeToString,
		"base64url_padded": base64.URLEncoding.EncodeToString,
	}
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for algorithm, newHash := range hashes {
			for secretEncoding, secret := range secrets {
				for encoding, encode := range signatures {
					h.Secret("key", secret)
					got := h.Authenticate(config("{method}", "algorithm", algorithm, "secret_encoding", secretEncoding, "encoding", encoding), hosttest.GET("https://api.test/"))
					if want := encode(mac(newHash, key, message)); got.Header("X-Signature") != want {
						t.Errorf("%s, secret in %s, signature in %s: %s, not %s", algorithm, secretEncoding, encoding, got.Header("X-Signature"), want)
					}
				}
			}
		}
	})
}

// A nonce is the same in the whole request, and another one in the next.
func TestNonce(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Canary("key")
		c := config("{nonce}", "headers", map[string]any{"X-Nonce": "{nonce}"}, "query", map[string]any{"n": "{nonce}"}, "value", "{nonce}:{signature}")
		nonces := map[string]bool{}
		for range 3 {
			got := h.Authenticate(c, hosttest.GET("https://api.test/"))
			nonce := got.Header("X-Nonce")
			if len(nonce) != 32 || nonces[nonce] || got.Query().Get("n") != nonce {
				t.Errorf("nonce %s, query %s", nonce, got.Request.URL.RawQuery)
			}
			if got.Header("X-Signature") != nonce+":"+hex.EncodeToString(mac(sha256.New, key, nonce)) {
				t.Errorf("X-Signature: %s", got.Header("X-Signature"))
			}
			nonces[nonce] = true
		}
	})
}

// Headers and query parameters that are added can be signed as the API sees them. They replace headers of the caller
// (specification.md 3.35).
func TestSignedAdditions(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key, id := h.Canary("key"), h.Canary("id")
		c := config("{header:x-key}\n{header:X-One}\n{query}\n{target}", "headers", map[string]any{"X-One": "{timestamp}", "X-Key": "id {{ get_secret('id') }}"},
			"query", map[string]any{"é &": "ü+{method}", "id": "{{ get_secret('id') }}"})
		r := hosttest.GET("https://api.test/?q")
		r.Header.Set("X-One", "of the caller")
		got := h.Authenticate(c, r)
		if got.Header("X-One") != "1767323045" || got.Header("X-Key") != "id "+id || got.Query().Get("id") != id || got.Query().Get("é &") != "ü+GET" {
			t.Errorf("headers %v, query %s", got.Request.Header, got.Request.URL.RawQuery)
		}
		wantSigned(t, got, key, "id "+id+"\n1767323045\n"+got.Request.URL.RawQuery+"\n/?"+got.Request.URL.RawQuery)
	})
}

// The signature is the last query parameter, and not part of the query that is signed.
func TestSignatureInQuery(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Canary("key")
		got := h.Authenticate(config("{query}", "in", "query", "key", "sig ", "value", "v1={signature}", "encoding", "base64", "query", map[string]any{"t": "{timestamp}"}),
			hosttest.GET("https://api.test/"))
		signed, signature, _ := strings.Cut(got.Request.URL.RawQuery, "&sig%20=")
		if signed != "t=1767323045" || len(got.Request.Header) != 0 {
			t.Errorf("query %s, headers %v", got.Request.URL.RawQuery, got.Request.Header)
		}
		if want := "v1=" + base64.StdEncoding.EncodeToString(mac(sha256.New, key, signed)); got.Query().Get("sig ") != want || strings.ContainsAny(signature, "+/=") {
			t.Errorf("signature %s, not %s", signature, want)
		}
	})
}

// The message, the name and the value may hold secrets, which the plugin does not see.
func TestSecretsInOtherFields(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key, id := h.Canary("key"), h.Canary("id")
		h.Secret("name", "X-Signature")
		got := h.Authenticate(config("{method} {{ get_secret('id') }}", "key", "{{ get_secret('name') }}", "value", "{{ get_secret('id') }}:{signature}"),
			hosttest.GET("https://api.test/"))
		if want := id + ":" + hex.EncodeToString(mac(sha256.New, key, "GET "+id)); got.Header("X-Signature") != want {
			t.Errorf("X-Signature: %s", got.Header("X-Signature"))
		}
	})
}

// Braces in a secret are no placeholder (specification.md "placeholders in secrets").
func TestPlaceholdersInSecrets(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Canary("key")
		h.Secret("braces", "{method}{path")
		got := h.Authenticate(config("{method} {{ get_secret('braces') }}", "key", "X-Signature"), hosttest.GET("https://api.test/"))
		if want := hex.EncodeToString(mac(sha256.New, key, "GET {method}{path")); got.Header("X-Signature") != want {
			t.Errorf("X-Signature: %s, want %s", got.Header("X-Signature"), want)
		}
	})
}

// threats.md 103: what a user chooses is no placeholder and no escape, so that a caller's header is not signed as the user's
// name. Placeholders in the text around it are replaced.
func TestPlaceholdersInValuesOfUsers_threats_103(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Canary("key")
		h.Secret("braces", `{method}\t`)
		for _, name := range []string{`{header:X-As}`, `{header:X-As|sha256|hex}`, `CORP\tom`, `\`, `\\`, `\{header:X-As}`, `{`, `}`, `{{ user.id }}`} {
			h.As(host.User{ID: "1", Username: name})
			r := hosttest.GET("https://api.test/")
			r.Header.Set("X-As", "admin")
			got := h.Authenticate(config(`{method}\\{{ user.username }}\n{header:X-User} {{ get_secret('braces') }}`, "value", "{{ user.username }} {signature}",
				"headers", map[string]any{"X-User": "{{ user.username }}"}, "query", map[string]any{"u": "{path}{{ user.username }}"}), r)
			if got.Header("X-User") != name || got.Query().Get("u") != "/"+name {
				t.Errorf("%s: X-User: %s, u: %s", name, got.Header("X-User"), got.Query().Get("u"))
			}
			signature := hex.EncodeToString(mac(sha256.New, key, `GET\`+name+"\n"+name+` {method}\t`))
			if want := name + " " + signature; got.Header("X-Signature") != want {
				t.Errorf("%s: X-Signature: %s, want %s", name, got.Header("X-Signature"), want)
			}
		}
	})
}

// A body that can be read only once is kept and sent as it was signed.
func TestSingleReadBody(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Canary("key")
		body := strings.Repeat("0123456789", 10_000)
		r := hosttest.POST("https://api.test/", "x")
		r.Body, r.GetBody, r.ContentLength = io.NopCloser(strings.NewReader(body)), nil, -1
		got := h.Authenticate(config("{timestamp}{body}{body}"), r)
		wantSigned(t, got, key, "1767323045"+body+body)
		if read, err := io.ReadAll(got.Request.Body); err != nil || string(read) != body {
			t.Errorf("a body of %d bytes was sent, %v", len(read), err)
		}
	})
}

// An answer of 401 goes to the caller, and the request is not repeated: another signature would be refused as well.
func TestUnauthorized(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("key")
		h.API(hosttest.JSON(http.StatusUnauthorized, `{}`))
		plugintest.Answers(t, h, config("{method}"), hosttest.GET("https://api.test/"), http.StatusUnauthorized, 1)
	})
}

// An explanation shows the message, and not the signature.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("key")
		e := h.Explain(config("{method} {path} {body}"), hosttest.POST("https://api.test/v1", "x"))
		const masked = "hex(mac(HS256, {{ get_secret('key') }}, POST /v1 <body>))"
		if len(e.Added.Headers) != 1 || e.Added.Headers[0].Value != masked || len(e.Steps) != 1 || e.Steps[0].Signed != "POST /v1 <body>" {
			t.Errorf("added %+v, steps %+v", e.Added, e.Steps)
		}
	})
}

// A literal that cannot be right is refused when the configuration is loaded.
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("key")
		for _, test := range []struct {
			path, text string
			fields     []any
		}{
			{"message", "has {verb}, but there is no such placeholder", []any{"message", "{verb}"}},
			{"message", "has {}, but", []any{"message", "{}"}},
			{"message", "has {method scheme}, but", []any{"message", "{method scheme}"}},
			{"message", "has {header:}, but", []any{"message", "{header:}"}},
			{"message", "has {header}, but", []any{"message", "{header}"}},
			{"message", "no format rot13", []any{"message", "{method|rot13}"}},
			{"message", "no format hex ", []any{"message", "{method|hex }"}},
			{"message", "no format :", []any{"message", "{method|}"}},
			{"message", "do not see", []any{"message", "{header:Authorization}"}},
			{"message", "do not see", []any{"message", "{header:COOKIE|sha256|hex}"}},
			{"message", "has {signature}, but", []any{"message", "{signature}"}},
			{"message", "a { without a }", []any{"message", `a\{b{method`}},
			{"message", `has a \ before`, []any{"message", `a\b`}},
			{"message", `has a \ before`, []any{"message", `{method}\`}},
			{"value", "has no {signature}", []any{"value", "v1={nonce}"}},
			{"value", "has {verb}", []any{"value", "{signature}{verb}"}},
			{"headers.X-A", "has {signature}, but", []any{"headers", map[string]any{"X-A": "{signature}"}}},
			{"headers.X A", "not the name of a header", []any{"headers", map[string]any{"X A": "1"}}},
			{"headers.x-signature", "is the header with the signature", []any{"headers", map[string]any{"x-signature": "1"}}},
			{"headers", "X-A", []any{"headers", map[string]any{"X-A": []any{"1"}}}},
			{"query", "a", []any{"query", map[string]any{"a": map[string]any{}}}},
			{"query.a", "has {verb}", []any{"query", map[string]any{"a": "{verb}"}}},
			{"key", "only the HTTP client", []any{"key", "Host"}},
			{"algorithm", "none of", []any{"algorithm", "MD5"}},
			{"encoding", "none of", []any{"encoding", "HEX"}},
			{"secret_encoding", "none of", []any{"secret_encoding", "utf8"}},
			{"in", "none of", []any{"in", "cookie"}},
		} {
			plugintest.Problem(t, h, config("{method}", test.fields...), test.path+": "+test.text)
		}
		plugintest.Problems(t, h, hosttest.Config{}, "secret message key")
		for _, fields := range [][]any{
			{"message", "{verb} {{ user.id }}"},
			{"value", "{{ user.id }}"},
			{"key", "{{ user.id }}"},
			{"headers", map[string]any{"X-A": "{{ user.id }}{"}},
			{"in", "query", "key", "Host"},
			{"in", "{{ user.id }}", "key", "Host"},
			{"query", map[string]any{"X-Signature": "1"}},
			{"in", "query", "headers", map[string]any{"X-Signature": "1"}},
		} {
			plugintest.Problems(t, h, config("{method}", fields...), "")
		}
	})
}

// What only a request shows to be wrong is an error of that request, and nothing is sent.
func TestRefusedRequests(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("key", "a secret that is no hex")
		h.As(host.User{ID: "1"})
		for _, test := range []struct {
			stage  host.Stage
			text   string
			fields []any
		}{
			{host.StagePlugin, "message has {verb}", []any{"message", "{verb} {{ user.id }}"}},
			{host.StagePlugin, "message has {signature}", []any{"message", "{signature} {{ user.id }}"}},
			{host.StagePlugin, "value has {verb}", []any{"value", "{{ user.id }}{verb}{signature}"}},
			{host.StagePlugin, "has {verb}", []any{"headers", map[string]any{"X-A": "{verb}{{ user.id }}"}}},
			{host.StagePlugin, "has {verb}", []any{"query", map[string]any{"a": "{verb}{{ user.id }}"}}},
			{host.StageConfig, "not in hex", []any{"secret_encoding", "hex"}},
			{host.StageConfig, "value has no {signature}", []any{"value", "{{ 'v1' }}"}},
			{host.StageMutation, "twice", []any{"headers", map[string]any{"x-signature": "1"}, "key", "{{ 'X-Signature' }}"}},
			{host.StagePlugin, "sinks", []any{"value", "{signature}{body}"}},
		} {
			plugintest.Refuses(t, h, config("{method}", test.fields...), hosttest.GET("https://api.test/"), test.stage, test.text)
		}
	})
}

// Once the API has refused a request and its clock is ahead, later requests have its time (specification.md "the clock of an API
// that checks signatures"). The refused request is not sent again.
func TestClockOfTheAPI(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Canary("key")
		h.API(plugintest.Dated(h, hosttest.JSON(http.StatusUnauthorized, `{}`), 10*time.Minute), hosttest.JSON(http.StatusOK, `{}`))
		const message = "{timestamp} {timestamp_ms} {iso8601} {time:%H:%M}"
		got := h.Authenticate(config(message), hosttest.GET("https://api.test/"))
		wantSigned(t, got, key, "1767323045 1767323045000 2026-01-02T03:04:05Z 03:04")
		if got.Attempts != 1 {
			t.Errorf("%d attempts", got.Attempts)
		}
		wantSigned(t, h.Authenticate(config(message), hosttest.GET("https://api.test/")), key, "1767323645 1767323645000 2026-01-02T03:14:05Z 03:14")
	})
}
