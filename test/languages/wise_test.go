package languages

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/hosttest"
)

// An API that refuses a request with a one-time text gets it once more, with that and its signature: the strong customer authentication
// of Wise. What is no such text is not signed, whatever protocol's it is (threats.md 471).
func TestOneTimeText(t *testing.T) {
	eachLanguage(t, "wise", map[string]func(*testing.T, *hosttest.Harness){
		"a text is signed": testSignedText, "other texts are not": testUnsignedTexts,
	})
}

var wiseConfig = hosttest.Config{"token": "{{ get_secret('token') }}", "private_key": "{{ get_secret('key') }}"}

// refuses returns an answer with a one-time text, or any other in its place.
func refuses(text string) hosttest.Answer {
	return func(*http.Request) (*http.Response, error) {
		header := http.Header{"X-2fa-Approval": {text}, "X-2fa-Approval-Result": {"REJECTED"}}
		return &http.Response{StatusCode: http.StatusForbidden, Header: header, Body: http.NoBody}, nil
	}
}

func testSignedText(t *testing.T, h *hosttest.Harness) {
	const code = "be2f7d1a-9f5c-4b0e-8a55-0d4a5f4c2b1e"
	h.Canary("token")
	public := h.Key("key", "RS256").(*rsa.PublicKey)
	h.API(refuses(code), hosttest.JSON(http.StatusOK, `{}`))
	got := h.Authenticate(wiseConfig, hosttest.GET("https://api.test/v1/profiles/1/account-details"))
	signature, err := base64.StdEncoding.DecodeString(got.Header("X-Signature"))
	sum := sha256.Sum256([]byte(code))
	if err == nil {
		err = rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature)
	}
	if err != nil || got.Header("X-2FA-Approval") != code || !strings.HasPrefix(got.Header("Authorization"), "Bearer ") || got.Attempts != 2 {
		t.Errorf("after %d attempts, the API has %v: %v", got.Attempts, got.Request.Header, err)
	}
}

func testUnsignedTexts(t *testing.T, h *hosttest.Harness) {
	h.Canary("token")
	h.Key("key", "RS256")
	for _, text := range []string{
		"", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9", strings.Repeat(" ", 64) + "TLS 1.3, server CertificateVerify", "SSHSIG",
		`"@method": GET`, "be2f7d1a-9f5c-4b0e-8a55-0d4a5f4c2b1", "be2f7d1a-9f5c-4b0e-8a55-0d4a5f4c2b1e0", "BE2F7D1A-9F5C-4B0E-8A55-0D4A5F4C2B1E",
		"be2f7d1a.9f5c-4b0e-8a55-0d4a5f4c2b1e", "0\x82\x01\x0a-9f5c-4b0e-8a55-0d4a5f4c2b1e", strings.Repeat("a", 1<<16),
	} {
		h.API(refuses(text), hosttest.JSON(http.StatusOK, `{}`))
		if got := h.Authenticate(wiseConfig, hosttest.GET("https://api.test/v1")); got.Attempts != 1 || got.Response.StatusCode != http.StatusForbidden {
			t.Errorf("%.50q is answered in %d attempts", text, got.Attempts)
		}
	}
}
