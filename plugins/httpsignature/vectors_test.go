package main

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
)

// pemFile returns a private key of RFC 9421 appendix B.1.
func pemFile(t *testing.T, name string) string {
	t.Helper()
	text := testworld.Must(os.ReadFile("testdata/" + name + ".pem"))(t)
	return string(text)
}

// public returns the public half of a private key in PEM.
func public(t *testing.T, text string) any {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		t.Fatal("the key is not PEM")
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		return key.(crypto.Signer).Public()
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key.Public()
	}
	var wrapped struct {
		Version   int
		Algorithm asn1.RawValue
		Key       []byte
	}
	testworld.Must(asn1.Unmarshal(block.Bytes, &wrapped))(t)
	key := testworld.Must(x509.ParsePKCS1PrivateKey(wrapped.Key))(t)
	return key.Public()
}

// testRequest returns the request of RFC 9421 appendix B.2.
func testRequest() *http.Request {
	r := hosttest.POST("https://example.com/foo?param=Value&Pet=dog", `{"hello": "world"}`)
	r.Header.Set("Date", "Tue, 20 Apr 2021 02:07:55 GMT")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Digest", testDigest)
	return r
}

const (
	testDigest   = "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:"
	sharedSecret = "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ=="
)

var testLines = map[string]string{
	"date": "Tue, 20 Apr 2021 02:07:55 GMT", "@method": "POST", "@path": "/foo", "@query": "?param=Value&Pet=dog", "@authority": "example.com",
	"content-type": "application/json", "content-digest": testDigest, "content-length": "18", `@query-param";name="Pet`: "dog",
}

// setTime sets the time of the host.
func setTime(h *hosttest.Harness, unix int64) { h.Advance(time.Unix(unix, 0).Sub(h.Now())) }

// The signatures of RFC 9421 appendix B.2 that are those of requests. The deterministic ones are made byte for byte. For the
// others, both the RFC's signature and that of the plugin verify with the signature base that the API derives.
func TestSignaturesOfTheRFC(t *testing.T) {
	for _, test := range []struct {
		name, label, algorithm, key string
		input, signature            string
		deterministic               bool
		fields                      []any
	}{
		{
			name: "B.2.1", label: "sig-b21", algorithm: "rsa-pss-sha512", key: pemFile(t, "rsa-pss"),
			input:     `();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd"`,
			signature: "d2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it++wgGxbtRxf8Udx7zFZsckzXaJMkA7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR72rgFWhzx2VjBqJzsPLMIQKhO4DGezXehhWwE56YCE+O6c0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/QEVPnP5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8K3+7EPYTU8IU1bLhdxO5Nyt8C8ssinQ98Xw9Q==",
			fields:    []any{"keyid", "test-key-rsa-pss", "nonce", "b3k2pp5k7z-50gnwp.yemd"},
		},
		{
			name: "B.2.2", label: "sig-b22", algorithm: "rsa-pss-sha512", key: pemFile(t, "rsa-pss"),
			input:     `("@authority" "content-digest" "@query-param";name="Pet");created=1618884473;keyid="test-key-rsa-pss";tag="header-example"`,
			signature: "LjbtqUbfmvjj5C5kr1Ugj4PmLYvx9wVjZvD9GsTT4F7GrcQEdJzgI9qHxICagShLRiLMlAJjtq6N4CDfKtjvuJyE5qH7KT8UCMkSowOB4+ECxCmT8rtAmj/0PIXxi0A0nxKyB09RNrCQibbUjsLS/2YyFYXEu4TRJQzRw1rLEuEfY17SARYhpTlaqwZVtR8NV7+4UKkjqpcAoFqWFQh62s7Cl+H2fjBSpqfZUJcsIk4N6wiKYd4je2U/lankenQ99PZfB4jY3I5rSV2DSBVkSFsURIjYErOs0tFTQosMTAoxk//0RoKUqiYY8Bh0aaUEb0rQl3/XaVe4bXTugEjHSw==",
			fields:    []any{"keyid", "test-key-rsa-pss", "tag", "header-example"},
		},
		{
			name: "B.2.3", label: "sig-b23", algorithm: "rsa-pss-sha512", key: pemFile(t, "rsa-pss"),
			input:     `("date" "@method" "@path" "@query" "@authority" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-rsa-pss"`,
			signature: "bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeGt683+qRpRRU5p2voTp768ZrCUb38K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLNmvKiLJH1pFkh/aYA2HXXZzNBXmIkoQoLd7YfW91kE9o/CCoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Eim5f8ui9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl5ZJzSRxpJyoEZAFL2FUo5fTIztsDZKEgM4cUA==",
			fields:    []any{"keyid", "test-key-rsa-pss"},
		},
		{
			name: "B.2.5", label: "sig-b25", algorithm: "hmac-sha256", key: sharedSecret, deterministic: true,
			input:     `("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"`,
			signature: "pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=",
			fields:    []any{"keyid", "test-shared-secret", "private_key", "{{ base64_decode(get_secret('key')) }}"},
		},
		{
			name: "B.2.6", label: "sig-b26", algorithm: "ed25519", key: pemFile(t, "ed25519"), deterministic: true,
			input:     `("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`,
			signature: "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==",
			fields:    []any{"keyid", "test-key-ed25519"},
		},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("key", test.key)
			setTime(h, 1618884473)
			list, _, _ := strings.Cut(test.input, ")")
			got := h.Authenticate(config(test.algorithm, append(test.fields, "components", list+")", "label", test.label)...), testRequest())
			if input := got.Header("Signature-Input"); input != test.label+"="+test.input {
				t.Errorf("Signature-Input: %s", input)
			}
			var lines []string
			for _, identifier := range strings.Fields(strings.TrimPrefix(list, "(")) {
				lines = append(lines, identifier+": "+testLines[strings.Trim(identifier, `"`)])
			}
			base, signature := signed(t, got.Request, test.label, lines...)
			want, _ := base64.StdEncoding.DecodeString(test.signature)
			var key any
			if test.algorithm == "hmac-sha256" {
				key, _ = base64.StdEncoding.DecodeString(sharedSecret)
			} else {
				key = public(t, test.key)
			}
			verify(t, test.algorithm, key, base, signature)
			verify(t, test.algorithm, key, base, want)
			if test.deterministic && !bytes.Equal(signature, want) {
				t.Errorf("Signature: %s", got.Header("Signature"))
			}
		})
	}
}

// RFC 9421 appendix B.2.4 signs an answer. A request that is signed with its key has a signature of the same form: r and s.
func TestSignatureOfTheRFCWithECDSA(t *testing.T) {
	const algorithm = "ecdsa-p256-sha256"
	text := pemFile(t, "ecc-p256")
	base := `"@status": 200
"content-type": application/json
"content-digest": sha-512=:mEWXIS7MaLRuGgxOBdODa3xqM1XdEvxoYhvlCFJ41QJgJc4GTsPp29l5oGX69wWdXymyU0rjJuahq4l5aGgfLQ==:
"content-length": 23
"@signature-params": ("@status" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-ecc-p256"`
	want, _ := base64.StdEncoding.DecodeString("wNmSUAhwb5LxtOtOpNa6W5xj067m5hFrj0XQ4fvpaCLx0NKocgPquLgyahnzDnDAUy5eCdlYUEkLIj+32oiasw==")
	verify(t, algorithm, public(t, text), base, want)
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("key", text)
		got := h.Authenticate(config(algorithm, "components", "content-type content-digest content-length"), testRequest())
		base, signature := signed(t, got.Request, "sig1", `"content-type": application/json`, `"content-digest": `+testDigest, `"content-length": 18`)
		verify(t, algorithm, public(t, text), base, signature)
	})
}

// The Content-Digest of a body is that of RFC 9530 appendices B.1 and D. A body of none is hashed as well
// (specification.md 3.36).
func TestContentDigest(t *testing.T) {
	for _, test := range []struct{ name, algorithm, body, want string }{
		{"sha-256", "sha-256", `{"hello": "world"}`, "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"},
		{"sha-256 with a line break", "sha-256", "{\"hello\": \"world\"}\n", "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"},
		{"sha-512", "sha-512", `{"hello": "world"}`, testDigest},
		{"no body", "sha-256", "", "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			key := h.Key("key", "HS256")
			got := h.Authenticate(config("hmac-sha256", "components", "content-digest", "content_digest", test.algorithm), hosttest.POST("https://api.test/", test.body))
			if got.Header("Content-Digest") != test.want {
				t.Errorf("Content-Digest: %s", got.Header("Content-Digest"))
			}
			base, signature := signed(t, got.Request, "sig1", `"content-digest": `+test.want)
			verify(t, "hmac-sha256", key, base, signature)
		})
	}
}

// A Content-Digest that the request has stays, whatever its algorithm is. One that is not signed is not added.
func TestContentDigestAddition(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "HS256")
		r := hosttest.POST("https://api.test/", "x")
		r.Header.Set("Content-Digest", "unixsum=1")
		if got := h.Authenticate(config("hmac-sha256"), r); got.Header("Content-Digest") != "unixsum=1" {
			t.Errorf("Content-Digest: %s", got.Header("Content-Digest"))
		}
		got := h.Authenticate(config("hmac-sha256", "components", "@method"), hosttest.POST("https://api.test/", "x"))
		if got.Header("Content-Digest") != "" {
			t.Errorf("Content-Digest: %s", got.Header("Content-Digest"))
		}
	})
}
