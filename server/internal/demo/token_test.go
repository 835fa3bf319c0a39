package demo

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/testworld"
)

const audience = "http://127.0.0.1/token"

func newEndpoint(t *testing.T, c *testworld.Clock) *TokenEndpoint {
	t.Helper()
	return newTokenEndpoint(testKeys(t), audience, c.Now)
}

func clientForm(k Keys) url.Values {
	return url.Values{"grant_type": {grantClientCredentials}, "client_id": {k.ClientID}, "client_secret": {k.ClientSecret}}
}

func TestClientCredentials(t *testing.T) {
	c, k := newClock(), testKeys(t)
	e := newEndpoint(t, c)
	w := post(e, clientForm(k))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	doc := document(t, w)
	if len(doc) != 3 || doc["token_type"] != "Bearer" || doc["expires_in"] != 3600.0 {
		t.Errorf("answer is %v", doc)
	}
	token := text(t, doc, "access_token")
	if subject, err := e.subject(token); err != nil || subject != k.ClientID {
		t.Errorf("the token stands for %q, %v", subject, err)
	}
	if second := text(t, document(t, post(e, clientForm(k))), "access_token"); second == token {
		t.Error("two tokens are the same")
	}
	if n := e.Exchanges(); n != 2 {
		t.Errorf("%d exchanges, want 2", n)
	}
	c.Advance(time.Hour - time.Second)
	if _, err := e.subject(token); err != nil {
		t.Errorf("a second before its expiry, the token is refused: %v", err)
	}
	c.Advance(time.Second)
	testworld.WantError(t, "at its expiry", testworld.ErrorOf(e.subject(token)), "expired")
}

func TestTokenRefusals(t *testing.T) {
	k := testKeys(t)
	for name, tt := range map[string]struct {
		member, value string
		status        int
		code          string
	}{
		"wrong secret":            {"client_secret", "wrong-canary", 401, "invalid_client"},
		"beginning of the secret": {"client_secret", k.ClientSecret[:8], 401, "invalid_client"},
		"no secret":               {"client_secret", "", 401, "invalid_client"},
		"wrong client":            {"client_id", "wrong-canary", 401, "invalid_client"},
		"no grant":                {"grant_type", "", 400, "unsupported_grant_type"},
		"unknown grant":           {"grant_type", "password", 400, "unsupported_grant_type"},
		"no assertion":            {"grant_type", grantJWTBearer, 400, "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(t, newClock())
			form := clientForm(k)
			form.Set(tt.member, tt.value)
			w := post(e, form)
			doc := document(t, w)
			if w.Code != tt.status || doc["error"] != tt.code {
				t.Errorf("status %d, error %v; want %d, %s", w.Code, doc, tt.status, tt.code)
			}
			if body := w.Body.String(); strings.Contains(body, "canary") || strings.Contains(body, k.ClientSecret) {
				t.Errorf("the answer quotes the request: %s", body)
			}
			if n := e.Exchanges(); n != 0 {
				t.Errorf("%d exchanges", n)
			}
		})
	}
}

func assertionClaims(k Keys, now time.Time) map[string]any {
	return map[string]any{
		"iss": k.ClientID, "sub": "ada@example.com", "aud": audience,
		"iat": now.Unix(), "exp": now.Add(180 * time.Second).Unix(),
	}
}

func bearerForm(assertion string) url.Values {
	return url.Values{"grant_type": {grantJWTBearer}, "assertion": {assertion}}
}

func TestJWTBearer(t *testing.T) {
	c, k := newClock(), testKeys(t)
	e := newEndpoint(t, c)
	w := post(e, bearerForm(signed(t, jwt.SigningMethodRS256, k.RSA, assertionClaims(k, c.Now()))))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	subject, err := e.subject(text(t, document(t, w), "access_token"))
	if err != nil || subject != "ada@example.com" || e.Exchanges() != 1 {
		t.Errorf("the token stands for %q, %v, after %d exchanges", subject, err, e.Exchanges())
	}
}

func TestJWTBearerRefusals(t *testing.T) {
	c, k := newClock(), testKeys(t)
	other := testworld.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	claims := assertionClaims(k, c.Now())
	good := signed(t, jwt.SigningMethodRS256, k.RSA, claims)
	parts := strings.Split(good, ".")
	changed := func(changes map[string]any) string {
		return signed(t, jwt.SigningMethodRS256, k.RSA, with(claims, changes))
	}
	at := func(d time.Duration) int64 { return c.Now().Add(d).Unix() }
	public := testworld.Must(x509.MarshalPKIXPublicKey(k.publicRSA))(t)
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})

	for name, tt := range map[string]struct{ assertion, reason string }{
		"another key":                   {signed(t, jwt.SigningMethodRS256, other, claims), "signature"},
		"no signature":                  {parts[0] + "." + parts[1] + ".", "signature"},
		"another's signature":           {strings.Join([]string{parts[0], strings.Split(changed(map[string]any{"sub": "eve"}), ".")[1], parts[2]}, "."), "signature"},
		"alg none":                      {signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims), "signing method"},
		"alg ES256":                     {signed(t, jwt.SigningMethodES256, k.EC, claims), "signing method"},
		"alg HS256 with the public key": {signed(t, jwt.SigningMethodHS256, publicPEM, claims), "signing method"},
		"not a JWT":                     {"canary", "malformed"},
		"another iss":                   {changed(map[string]any{"iss": "canary"}), "issuer"},
		"another aud":                   {changed(map[string]any{"aud": "http://canary/token"}), "audience"},
		"no exp":                        {changed(map[string]any{"exp": nil}), "exp"},
		"expired":                       {changed(map[string]any{"exp": at(0), "iat": at(-time.Minute)}), "expired"},
		"iat in the future":             {changed(map[string]any{"iat": at(time.Second)}), "issued"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(t, c)
			w := post(e, bearerForm(tt.assertion))
			doc := document(t, w)
			if w.Code != http.StatusBadRequest || doc["error"] != "invalid_grant" {
				t.Fatalf("status %d, answer %v", w.Code, doc)
			}
			if reason := text(t, doc, "error_description"); !strings.Contains(reason, tt.reason) || strings.Contains(reason, "canary") {
				t.Errorf("reason is %q, want one with %q", reason, tt.reason)
			}
			if n := e.Exchanges(); n != 0 {
				t.Errorf("%d exchanges", n)
			}
		})
	}
}
