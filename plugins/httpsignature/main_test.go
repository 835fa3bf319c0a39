package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
	"github.com/keywright/keywright/sdk"
)

var run = plugintest.Of(plugin{}, "httpsignature.wasm")

// config returns a configuration with the secret "key". Further fields are pairs of name and value.
func config(algorithm string, pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{"private_key": "{{ get_secret('key') }}", "algorithm": algorithm}, pairs...)
}

// jose has the names of RFC 7518 and RFC 8037 for the algorithms.
var jose = map[string]string{
	"hmac-sha256": "HS256", "ed25519": "EdDSA", "ecdsa-p256-sha256": "ES256", "ecdsa-p384-sha384": "ES384",
	"rsa-pss-sha512": "PS512", "rsa-v1_5-sha256": "RS256",
}

// signed returns the signature base of a request for the lines of its components, and its signature.
func signed(t *testing.T, r *http.Request, label string, lines ...string) (base string, signature []byte) {
	t.Helper()
	stated, found := strings.CutPrefix(r.Header.Get("Signature-Input"), label+"=")
	value, ok := strings.CutPrefix(r.Header.Get("Signature"), label+"=:")
	value, closed := strings.CutSuffix(value, ":")
	signature, err := base64.StdEncoding.DecodeString(value)
	if !found || !ok || !closed || err != nil {
		t.Fatalf("Signature-Input: %s\nSignature: %s\n%v", r.Header.Get("Signature-Input"), r.Header.Get("Signature"), err)
	}
	return strings.Join(append(lines, `"@signature-params": `+stated), "\n"), signature
}

// verify fails the test unless signature is one of base, RFC 9421 section 3.3.
func verify(t *testing.T, algorithm string, key any, base string, signature []byte) {
	t.Helper()
	text := []byte(base)
	short, middle, long := sha256.Sum256(text), sha512.Sum384(text), sha512.Sum512(text)
	valid := false
	switch key := key.(type) {
	case []byte:
		mac := hmac.New(sha256.New, key)
		mac.Write(text)
		valid = hmac.Equal(mac.Sum(nil), signature)
	case ed25519.PublicKey:
		valid = ed25519.Verify(key, text, signature)
	case *ecdsa.PublicKey:
		half, sum := len(signature)/2, short[:]
		if algorithm == "ecdsa-p384-sha384" {
			sum = middle[:]
		}
		valid = len(signature) == 2*((key.Curve.Params().BitSize+7)/8) &&
			ecdsa.Verify(key, sum, new(big.Int).SetBytes(signature[:half]), new(big.Int).SetBytes(signature[half:]))
	case *rsa.PublicKey:
		if algorithm == "rsa-v1_5-sha256" {
			valid = rsa.VerifyPKCS1v15(key, crypto.SHA256, short[:], signature) == nil
		} else {
			valid = rsa.VerifyPSS(key, crypto.SHA512, long[:], signature, &rsa.PSSOptions{SaltLength: 64}) == nil
		}
	}
	if !valid {
		t.Errorf("the %s signature is not one of\n%s", algorithm, base)
	}
}

// Every algorithm of RFC 9421 section 3.3 signs. With alg, the signature names it.
func TestEveryAlgorithm(t *testing.T) {
	for _, algorithm := range sdk.Names(sdk.HTTPSignatureAlgorithms()) {
		run.Case(t, algorithm, func(t *testing.T, h *hosttest.Harness) {
			key := h.Key("key", jose[algorithm])
			got := h.Authenticate(config(algorithm, "components", "@method", "keyid", "k1", "alg", true), hosttest.GET("https://api.test/"))
			base, signature := signed(t, got.Request, "sig1", `"@method": GET`)
			if want := `("@method");created=1767323045;keyid="k1";alg="` + algorithm + `"`; !strings.HasSuffix(base, want) {
				t.Errorf("%s has not the parameters %s", base, want)
			}
			verify(t, algorithm, key, base, signature)
		})
	}
}

// Without components, the method, the URL and the body are signed. A Content-Digest is added
// (specification.md "keyid unless given").
func TestDefaults(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Key("key", "HS256")
		got := h.Authenticate(config("hmac-sha256"), hosttest.POST("https://api.test/v1?a=b", `{"hello": "world"}`))
		const digest = "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"
		base, signature := signed(t, got.Request, "sig1", `"@method": POST`, `"@target-uri": https://api.test/v1?a=b`, `"content-digest": `+digest)
		verify(t, "hmac-sha256", key, base, signature)
		if got.Header("Content-Digest") != digest || len(got.Request.Header) != 3 {
			t.Errorf("headers: %v", got.Request.Header)
		}
		if want := `sig1=("@method" "@target-uri" "content-digest");created=1767323045`; got.Header("Signature-Input") != want {
			t.Errorf("Signature-Input: %s", got.Header("Signature-Input"))
		}
	})
}

// Each parameter is there or not, as the fields say. All follow in one order.
func TestParameters(t *testing.T) {
	const thumbprint = `;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"`
	for _, test := range []struct {
		name, want string
		fields     []any
	}{
		{"created and the thumbprint", "();created=1767323045" + thumbprint, nil},
		{"without created", "()" + thumbprint, []any{"created", false}},
		{"keyid", `();created=1767323045;keyid="a \"b\" \\c"`, []any{"keyid", `a "b" \c`}},
		{"expires", "();created=1767323045;expires=1767323105" + thumbprint, []any{"expires_seconds", 60}},
		{"expires without created", "();expires=1767323046" + thumbprint, []any{"expires_seconds", "{{ 1 }}", "created", "false"}},
		{"alg", "();created=1767323045" + thumbprint + `;alg="ed25519"`, []any{"alg", true}},
		{"nonce", "();created=1767323045" + thumbprint + `;nonce="once"`, []any{"nonce", "once"}},
		{"tag", "();created=1767323045" + thumbprint + `;tag="app"`, []any{"tag", "app"}},
		{"tag that renders to nothing", "();created=1767323045" + thumbprint, []any{"tag", "{{ user.email | default('') }}"}},
		{
			"all", `();created=1767323045;expires=1767323346;keyid="k";alg="ed25519";nonce="n";tag="t"`,
			[]any{"tag", "t", "nonce", "n", "expires_seconds", 301, "alg", true, "keyid", "k"},
		},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("key", pemFile(t, "ed25519"))
			got := h.Authenticate(config("ed25519", append(test.fields, "components", "()", "label", "a-*.1_")...), hosttest.GET("https://api.test/"))
			if input := got.Header("Signature-Input"); input != "a-*.1_="+test.want {
				t.Errorf("Signature-Input: %s\nis not         a-*.1_=%s", input, test.want)
			}
			base, signature := signed(t, got.Request, "a-*.1_")
			verify(t, "ed25519", public(t, pemFile(t, "ed25519")), base, signature)
		})
	}
}

// Each request gets a nonce of its own and its time, so that nothing is sent twice.
func TestRandomNonce(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "EdDSA")
		nonces := map[string]bool{}
		for range 3 {
			got := h.Authenticate(config("ed25519", "nonce", "random"), hosttest.GET("https://api.test/"))
			_, nonce, _ := strings.Cut(got.Header("Signature-Input"), `nonce="`)
			random, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(nonce, `"`))
			if err != nil || len(random) != 64 || nonces[nonce] {
				t.Errorf("Signature-Input: %s", got.Header("Signature-Input"))
			}
			nonces[nonce] = true
		}
	})
}

// A keyid, nonce or tag may be a secret: the plugin does not see it. A quote in it does not end the parameter.
func TestSecretParameters(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Key("key", "HS256")
		h.Secret("id", `an-id";tag="\of-another`)
		const id = `an-id\";tag=\"\\of-another`
		got := h.Authenticate(config("hmac-sha256", "components", "@method", "keyid", "{{ get_secret('id') }}"), hosttest.GET("https://api.test/"))
		base, signature := signed(t, got.Request, "sig1", `"@method": GET`)
		if !strings.HasSuffix(base, `;keyid="`+id+`"`) {
			t.Error("the keyid is not the secret")
		}
		verify(t, "hmac-sha256", key, base, signature)
	})
}

// An answer of 401 goes to the caller, and the request is not repeated: another signature would be refused as well.
func TestUnauthorized(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "HS256")
		h.API(hosttest.JSON(http.StatusUnauthorized, `{}`))
		plugintest.Answers(t, h, config("hmac-sha256"), hosttest.GET("https://api.test/"), http.StatusUnauthorized, 1)
	})
}

// Once the API has refused a request and its clock is behind, later requests have its time (specification.md "the clock of an API
// that checks signatures"). The refused request is not sent again.
func TestClockOfTheAPI(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Key("key", "HS256")
		h.API(plugintest.Dated(h, hosttest.JSON(http.StatusForbidden, `{}`), -10*time.Minute), hosttest.JSON(http.StatusOK, `{}`))
		c := config("hmac-sha256", "components", "@method", "expires_seconds", 60)
		for _, want := range []string{"created=1767323045;expires=1767323105", "created=1767322445;expires=1767322505"} {
			got := h.Authenticate(c, hosttest.GET("https://api.test/"))
			base, signature := signed(t, got.Request, "sig1", `"@method": GET`)
			if !strings.HasSuffix(base, want) || got.Attempts != 1 {
				t.Errorf("%s\nhas not %s, %d attempts", base, want, got.Attempts)
			}
			verify(t, "hmac-sha256", key, base, signature)
		}
	})
}

// An explanation shows the signature base's parameters, and not the signature.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "HS256")
		e := h.Explain(config("hmac-sha256", "components", "@method", "keyid", "k"), hosttest.GET("https://api.test/"))
		if len(e.Added.Headers) != 2 || e.Added.Headers[0].Value != `sig1=("@method");created=1767323045;keyid="k"` ||
			!strings.HasPrefix(e.Added.Headers[1].Value, "sig1=:base64(signature(HS256, ") {
			t.Errorf("added: %+v", e.Added)
		}
	})
}

// A key that does not fit the algorithm is an error at its first use, which names the field and not the key.
func TestUnfitKeys(t *testing.T) {
	for _, test := range []struct{ key, algorithm string }{
		{"RS256", "ed25519"}, {"EdDSA", "hmac-sha256"}, {"HS256", "ecdsa-p256-sha256"}, {"ES256", "ecdsa-p384-sha384"}, {"ES384", "rsa-pss-sha512"},
	} {
		run.Case(t, test.key+" with "+test.algorithm, func(t *testing.T, h *hosttest.Harness) {
			h.Key("key", test.key)
			plugintest.Refuses(t, h, config(test.algorithm), hosttest.GET("https://api.test/"), host.StageSign, "private_key")
		})
	}
}
