package demo

import (
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
	w := post(e, clientForm(k), nil)
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
	if again := text(t, document(t, post(e, clientForm(k), nil)), "access_token"); again == token {
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

func TestReturnedScope(t *testing.T) {
	form := clientForm(testKeys(t))
	form.Set("scope", "a:read b:write")
	if doc := document(t, post(newEndpoint(t, newClock()), form, nil)); doc["scope"] != "a:read b:write" {
		t.Errorf("answer is %v", doc)
	}
}

// RFC 6749 section 2.3.1: the ID and the secret are form-encoded in the header.
func TestClientCredentialsByBasic(t *testing.T) {
	e := newEndpoint(t, newClock())
	e.clientID, e.clientSecret = "demo client", "s:+/%é"
	form := url.Values{"grant_type": {grantClientCredentials}}
	w := post(e, form, func(r *http.Request) {
		r.SetBasicAuth(url.QueryEscape(e.clientID), url.QueryEscape(e.clientSecret))
	})
	if w.Code != http.StatusOK {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestTokenRefusals(t *testing.T) {
	k := testKeys(t)
	set := func(name string, values ...string) func(url.Values) { return func(f url.Values) { f[name] = values } }
	drop := func(names ...string) func(url.Values) {
		return func(f url.Values) {
			for _, name := range names {
				f.Del(name)
			}
		}
	}
	basic := func(id, secret string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(id, secret) }
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	tests := []struct {
		name    string
		form    func(url.Values)
		request func(*http.Request)
		status  int
		code    string
	}{
		{"wrong secret", set("client_secret", "wrong-canary"), nil, 401, "invalid_client"},
		{"beginning of the secret", set("client_secret", k.ClientSecret[:8]), nil, 401, "invalid_client"},
		{"no secret", drop("client_secret"), nil, 401, "invalid_client"},
		{"wrong client", set("client_id", "wrong-canary"), nil, 401, "invalid_client"},
		{"no client", drop("client_id"), nil, 401, "invalid_client"},
		{"wrong secret by Basic", drop("client_id", "client_secret"), basic(k.ClientID, "wrong-canary"), 401, "invalid_client"},
		{"wrong client by Basic", drop("client_id", "client_secret"), basic("wrong-canary", k.ClientSecret), 401, "invalid_client"},
		{"bad escape by Basic", drop("client_id", "client_secret"), basic(k.ClientID, "%zz"), 401, "invalid_client"},
		{"not Basic", drop("client_id", "client_secret"), header("Authorization", "Bearer wrong-canary"), 401, "invalid_client"},
		{"another client in the form", func(f url.Values) { drop("client_secret")(f); set("client_id", "other")(f) }, basic(k.ClientID, k.ClientSecret), 401, "invalid_client"},
		{"form and Basic", nil, basic(k.ClientID, k.ClientSecret), 400, "invalid_request"},
		{"no grant", drop("grant_type"), nil, 400, "invalid_request"},
		{"empty grant", set("grant_type", ""), nil, 400, "invalid_request"},
		{"unknown grant", set("grant_type", "password"), nil, 400, "unsupported_grant_type"},
		{"parameter twice", set("client_secret", k.ClientSecret, k.ClientSecret), nil, 400, "invalid_request"},
		{"malformed scope", set("scope", "a  b"), nil, 400, "invalid_scope"},
		{"scope with a quote", set("scope", `a"b`), nil, 400, "invalid_scope"},
		{"too large", set("scope", strings.Repeat("a", maxForm)), nil, 400, "invalid_request"},
		{"GET", nil, func(r *http.Request) { r.Method = http.MethodGet }, 405, "invalid_request"},
		{"parameters in the URL", nil, func(r *http.Request) { r.URL.RawQuery = "grant_type=client_credentials" }, 400, "invalid_request"},
		{"JSON", nil, header("Content-Type", "application/json"), 400, "invalid_request"},
		{"no content type", nil, func(r *http.Request) { r.Header.Del("Content-Type") }, 400, "invalid_request"},
		{"no assertion", set("grant_type", grantJWTBearer), nil, 400, "invalid_request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newEndpoint(t, newClock())
			form := clientForm(k)
			if tt.form != nil {
				tt.form(form)
			}
			w := post(e, form, tt.request)
			doc := document(t, w)
			if w.Code != tt.status || doc["error"] != tt.code {
				t.Errorf("status %d, error %v; want %d, %s", w.Code, doc, tt.status, tt.code)
			}
			if body := w.Body.String(); strings.Contains(body, "canary") || strings.Contains(body, k.ClientSecret) {
				t.Errorf("the answer quotes the request: %s", body)
			}
			byHeader := tt.status == http.StatusUnauthorized && tt.request != nil
			if challenged := w.Header().Get("WWW-Authenticate") != ""; challenged != byHeader {
				t.Errorf("WWW-Authenticate is %q", w.Header().Get("WWW-Authenticate"))
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
	claims := assertionClaims(k, c.Now())
	tests := map[string]map[string]any{
		"as specified":           claims,
		"audience list":          with(claims, map[string]any{"aud": []string{"other", audience}}),
		"five minutes":           with(claims, map[string]any{"exp": c.Now().Add(maxLifetime).Unix()}),
		"further claims":         with(claims, map[string]any{"scope": "x", "jti": "1"}),
		"issued a moment ago":    with(claims, map[string]any{"iat": c.Now().Add(-time.Minute).Unix()}),
		"not before is now":      with(claims, map[string]any{"nbf": c.Now().Unix()}),
		"a second before expiry": with(claims, map[string]any{"exp": c.Now().Unix() + 1}),
	}
	for name, claims := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(t, c)
			w := post(e, bearerForm(signed(t, jwt.SigningMethodRS256, k.RSA, nil, claims)), nil)
			if w.Code != http.StatusOK {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			subject, err := e.subject(text(t, document(t, w), "access_token"))
			if err != nil || subject != "ada@example.com" || e.Exchanges() != 1 {
				t.Errorf("the token stands for %q, %v, after %d exchanges", subject, err, e.Exchanges())
			}
		})
	}
}

func TestJWTBearerRefusals(t *testing.T) {
	c, k := newClock(), testKeys(t)
	other := testworld.Must(NewKeys())(t)
	claims := assertionClaims(k, c.Now())
	good := signed(t, jwt.SigningMethodRS256, k.RSA, nil, claims)
	parts := strings.Split(good, ".")
	changed := func(changes map[string]any) string {
		return signed(t, jwt.SigningMethodRS256, k.RSA, nil, with(claims, changes))
	}
	at := func(d time.Duration) int64 { return c.Now().Add(d).Unix() }
	public := testworld.Must(x509.MarshalPKIXPublicKey(&k.RSA.PublicKey))(t)
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})

	tests := []struct{ name, assertion, reason string }{
		{"another key", signed(t, jwt.SigningMethodRS256, other.RSA, nil, claims), "signature"},
		{"no signature", parts[0] + "." + parts[1] + ".", "signature"},
		{"another's signature", strings.Join([]string{parts[0], strings.Split(changed(map[string]any{"sub": "eve"}), ".")[1], parts[2]}, "."), "signature"},
		{"alg none", signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, claims), "algorithm"},
		{"alg RS512", signed(t, jwt.SigningMethodRS512, k.RSA, nil, claims), "algorithm"},
		{"alg ES256", signed(t, jwt.SigningMethodES256, k.EC, nil, claims), "algorithm"},
		{"alg HS256 with the public key", signed(t, jwt.SigningMethodHS256, publicPEM, nil, claims), "algorithm"},
		{"alg unknown", signed(t, jwt.SigningMethodRS256, k.RSA, map[string]any{"alg": "XX256"}, claims), "cannot be checked"},
		{"crit", signed(t, jwt.SigningMethodRS256, k.RSA, map[string]any{"crit": []string{"b64"}}, claims), "crit"},
		{"not a JWT", "canary", "not a JWT"},
		{"not JSON", "canary.canary.canary", "not a JWT"},
		{"no iss", changed(map[string]any{"iss": nil}), "iss"},
		{"another iss", changed(map[string]any{"iss": "canary"}), "iss"},
		{"no sub", changed(map[string]any{"sub": nil}), "sub"},
		{"empty sub", changed(map[string]any{"sub": ""}), "sub"},
		{"sub a number", changed(map[string]any{"sub": 1}), "sub"},
		{"no aud", changed(map[string]any{"aud": nil}), "aud"},
		{"another aud", changed(map[string]any{"aud": "http://canary/token"}), "aud"},
		{"no exp", changed(map[string]any{"exp": nil}), "exp"},
		{"expired", changed(map[string]any{"exp": at(0), "iat": at(-time.Minute)}), "expired"},
		{"exp a text", changed(map[string]any{"exp": "9999999999"}), "wrong type"},
		{"over five minutes", changed(map[string]any{"exp": at(maxLifetime + time.Second)}), "longer than 5m0s"},
		{"for an age", changed(map[string]any{"exp": 99999999999}), "longer"},
		{"beyond time", changed(map[string]any{"exp": 1e300}), ""},
		{"no iat", changed(map[string]any{"iat": nil}), "iat"},
		{"iat a text", changed(map[string]any{"iat": "1"}), "wrong type"},
		{"iat in the future", changed(map[string]any{"iat": at(time.Second)}), "iat is in the future"},
		{"nbf in the future", changed(map[string]any{"nbf": at(time.Second)}), "nbf is in the future"},
		{"jti a number", changed(map[string]any{"jti": 1}), "jti"},
		{"jti empty", changed(map[string]any{"jti": ""}), "jti"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newEndpoint(t, c)
			w := post(e, bearerForm(tt.assertion), nil)
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
	t.Run("wrong secret beside a good assertion", func(t *testing.T) {
		form := bearerForm(good)
		form.Set("client_id", k.ClientID)
		form.Set("client_secret", "wrong")
		if w := post(newEndpoint(t, c), form, nil); w.Code != http.StatusUnauthorized {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	})
}

func TestAssertionReplay(t *testing.T) {
	c, k := newClock(), testKeys(t)
	e := newEndpoint(t, c)
	send := func(claims map[string]any) int {
		return post(e, bearerForm(signed(t, jwt.SigningMethodRS256, k.RSA, nil, claims)), nil).Code
	}
	once := with(assertionClaims(k, c.Now()), map[string]any{"jti": "one"})
	if first, second := send(once), send(once); first != http.StatusOK || second != http.StatusBadRequest {
		t.Errorf("status %d, then %d", first, second)
	}
	if code := send(with(once, map[string]any{"jti": "two"})); code != http.StatusOK {
		t.Errorf("another jti: status %d", code)
	}
	plain := assertionClaims(k, c.Now())
	if first, second := send(plain), send(plain); first != http.StatusOK || second != http.StatusOK {
		t.Errorf("without jti: status %d, then %d", first, second)
	}
	c.Advance(3 * time.Minute)
	if code := send(with(assertionClaims(k, c.Now()), map[string]any{"jti": "one"})); code != http.StatusOK {
		t.Errorf("the jti of an assertion that is expired: status %d", code)
	}
	if n := len(e.assertions.expiries); n != 1 {
		t.Errorf("%d jti are remembered, want 1", n)
	}
}
