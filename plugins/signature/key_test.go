package main

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// keyed returns a configuration that signs message with the private key "key". Further fields are pairs of name and value.
func keyed(algorithm, message string, pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{
		"private_key": "{{ get_secret('key') }}", "algorithm": algorithm, "message": message, "key": "X-Signature", "encoding": "base64",
	}, pairs...)
}

// wechat is the message of WeChat Pay (pay.weixin.qq.com/doc/global/v3/en/4012357140).
const wechat = `{method}\n{target}\n{timestamp}\n{body}\n`

// A private key signs the message with the body in it, with each algorithm.
func TestPrivateKey(t *testing.T) {
	for _, algorithm := range []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"} {
		run.Case(t, algorithm, func(t *testing.T, h *hosttest.Harness) {
			key := h.Key("key", algorithm)
			got := h.Authenticate(keyed(algorithm, wechat), hosttest.POST("https://api.test/v3/pay?a=b", `{"amount":1}`))
			signature, err := base64.StdEncoding.DecodeString(got.Header("X-Signature"))
			if err != nil {
				t.Fatalf("X-Signature = %s, want Base64", got.Header("X-Signature"))
			}
			if err := jwt.GetSigningMethod(algorithm).Verify("POST\n/v3/pay?a=b\n1767323045\n{\"amount\":1}\n", signature, key); err != nil {
				t.Errorf("err = %v, want a signature that verifies", err)
			}
		})
	}
}

// A caller cannot have a message of another protocol signed by what it sends (threats.md 85).
func TestForeignBody_threats_85(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		for _, body := range []string{
			"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9", "eyJhbGciOiJSUzI1NiJ9.{\"sub\":\"admin\"}", "SSHSIG\x00\x00\x00\x01",
			strings.Repeat(" ", 64) + "TLS 1.3, client CertificateVerify\x00", "\"@method\": GET\n\"@signature-params\": ()",
		} {
			r := hosttest.POST("https://api.test/", body)
			plugintest.Refuses(t, h, keyed("RS256", "{body}"), r, host.StagePlugin, "has the form of a")
		}
	})
}

// Behind a body, a sealed value is signed only if the body excludes other protocols (threats.md 101).
func TestBodyBeforeASecret_threats_101(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		h.Canary("id")
		c := keyed("RS256", "{body}{{ get_secret('id') }}")
		plugintest.Refuses(t, h, c, hosttest.POST("https://api.test/", "eyJhbGciOiJSUzI1NiJ9"), host.StagePlugin, "depending on a sealed value")
		if got := h.Authenticate(c, hosttest.POST("https://api.test/", "a=1&b=2 ")); got.Header("X-Signature") == "" {
			t.Error("there is no X-Signature behind a body that no protocol begins with")
		}
	})
}

// A key signs a megabyte at most. The digest of a larger body can be signed.
func TestLongBody(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		body := strings.Repeat("a", 1<<20)
		plugintest.Refuses(t, h, keyed("ES256", "{method}{body}"), hosttest.POST("https://api.test/", body), host.StageSign, "sign a digest of the body")
		if got := h.Authenticate(keyed("ES256", "{method} {body|sha256|hex}"), hosttest.POST("https://api.test/", body)); got.Header("X-Signature") == "" {
			t.Error("the digest of a long body has no X-Signature")
		}
	})
}

// The algorithm decides whether there is a secret or a private key.
func TestSecretOrKey(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("key")
		plugintest.Problems(t, h, keyed("SHA-256", "{method}"), "secret private_key")
		plugintest.Problems(t, h, config("{method}", "algorithm", "RS256"), "secret private_key")
		plugintest.Problems(t, h, keyed("RS256", "{method}", "secret_encoding", "hex"), "secret_encoding")
	})
}

// The string that Azure Storage signs has an empty length for no body, and the decoded query in lines
// (learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key).
func TestAzureStorage(t *testing.T) {
	const message = `{method}\n{content_length|nonzero}\n{headers:x-ms-*}\n/acme{path}{query|query_lines}`
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Canary("key")
		r := hosttest.GET("https://acme.blob.core.windows.net/photos?restype=container&Comp=list&include=snapshots&include=metadata&prefix=a%2Fb%20c")
		r.Header = http.Header{"X-Ms-Version": {"2024-11-04"}, "X-Ms-Date": {"Fri, 02 Jan 2026 03:04:05 GMT"}}
		wantSigned(t, h.Authenticate(config(message), r), key, "GET\n\nx-ms-date:Fri, 02 Jan 2026 03:04:05 GMT\nx-ms-version:2024-11-04\n/acme/photos"+
			"\ncomp:list\ninclude:metadata,snapshots\nprefix:a/b c\nrestype:container")
		wantSigned(t, h.Authenticate(config("{content_length|nonzero}"), hosttest.POST("https://api.test/", "abc")), key, "3")
	})
}

// The path below a base, and a query with the values of a name joined, are Atlassian's
// (developer.atlassian.com/cloud/bitbucket/query-string-hash).
func TestAtlassianQueryStringHash(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Canary("key")
		for target, want := range map[string]string{
			"/wiki/rest/api/?b=2&a=y&a=x%2Cz&c=%20": "GET&/rest/api&a=x%2Cz,y&b=2&c=%20",
			"/wiki":                                 "GET&/&",
			"/wikipedia/":                           "GET&/wikipedia&",
		} {
			wantSigned(t, h.Authenticate(config("{method}&{path:/wiki}&{query|query_joined}"), hosttest.GET("https://acme.atlassian.net"+target)), key, want)
		}
	})
}

// A signature of a key is raw bytes in the encoding that is configured.
func TestSignatureEncoding(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "EdDSA")
		got := h.Authenticate(keyed("EdDSA", "{method}", "encoding", "hex"), hosttest.GET("https://api.test/"))
		if raw, err := hex.DecodeString(got.Header("X-Signature")); err != nil || len(raw) != 64 {
			t.Errorf("X-Signature = %s, want 64 bytes in hex", got.Header("X-Signature"))
		}
	})
}
