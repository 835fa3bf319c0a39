package callers_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content/httpapi"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/callers"
)

const (
	readerKey    = "reader-Vl2bq8ZxJ0c5oTn7"
	moderatorKey = "moderator-B0InW6eXk2rVtQ"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// keyring is an issuer of tokens, a store of keys and a clock.
type keyring struct {
	t      *testing.T
	clock  *testworld.Clock
	keys   host.MapSecrets
	down   bool   // no key can be read
	lost   string // the name of a key that cannot be read
	signer *ecdsa.PrivateKey
	config callers.Config
}

func newKeyring(t *testing.T) *keyring {
	t.Helper()
	signer := testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	public := testworld.Must(signer.PublicKey.Bytes())(t)
	w := &keyring{t: t, clock: testworld.NewClock(begin), signer: signer, keys: host.MapSecrets{"reader": readerKey, "moderator": moderatorKey}}
	file := filepath.Join(t.TempDir(), "jwks.json")
	encode := base64.RawURLEncoding.EncodeToString
	keys := fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","kid":"k1","alg":"ES256","x":%q,"y":%q}]}`, encode(public[1:33]), encode(public[33:]))
	testworld.Check(t, os.WriteFile(file, []byte(keys), 0o600))
	w.config = callers.Config{
		Keys: []callers.Key{{Secret: "reader"}, {Secret: "moderator", Moderate: true}}, Secrets: w, Options: identity.Options{Clock: w.clock.Now},
		JWT: &identity.JWT{Bearer: true, JWKSFile: file, Issuer: "https://id.test", Audiences: []string{"content"}}, Claim: "scope", Value: "content.moderate",
	}
	return w
}

func (w *keyring) Secret(ctx context.Context, name string) (string, error) {
	if w.down || name == w.lost {
		return "", errors.New("the store is down")
	}
	return w.keys.Secret(ctx, name)
}

func (w *keyring) callers() *callers.Callers {
	w.t.Helper()
	c := testworld.Must(callers.New(w.t.Context(), w.config))(w.t)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// token returns a token for the audience, with further claims.
func (w *keyring) token(claims jwt.MapClaims) string {
	w.t.Helper()
	all := jwt.MapClaims{"iss": "https://id.test", "aud": "content", "sub": "s1", "exp": begin.Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	t := jwt.NewWithClaims(jwt.SigningMethodES256, all)
	t.Header["kid"] = "k1"
	return testworld.Must(t.SignedString(w.signer))(w.t)
}

func request(headers ...string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/articles", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestWhoCalls(t *testing.T) {
	w := newKeyring(t)
	c := w.callers()
	for name, tt := range map[string]struct {
		request *http.Request
		want    httpapi.Caller
	}{
		"key":                        {request("X-API-Key", readerKey), httpapi.Caller{Name: "reader"}},
		"key that may moderate":      {request("X-API-Key", moderatorKey), httpapi.Caller{Name: "moderator", Moderate: true}},
		"token":                      {request("Authorization", "Bearer "+w.token(nil)), httpapi.Caller{Name: "token", ID: "s1"}},
		"token that may moderate":    {request("Authorization", "Bearer "+w.token(jwt.MapClaims{"scope": "content.read content.moderate"})), httpapi.Caller{Name: "token", ID: "s1", Moderate: true}},
		"permission in a list":       {request("Authorization", "Bearer "+w.token(jwt.MapClaims{"scope": []string{"content.moderate"}})), httpapi.Caller{Name: "token", ID: "s1", Moderate: true}},
		"permission of another name": {request("Authorization", "Bearer "+w.token(jwt.MapClaims{"scope": "content.moderate.not", "roles": "content.moderate"})), httpapi.Caller{Name: "token", ID: "s1"}},
		"token of somebody else":     {request("Authorization", "Bearer "+w.token(jwt.MapClaims{"sub": "s2"})), httpapi.Caller{Name: "token", ID: "s2"}},
		"token of nobody":            {request("Authorization", "Bearer "+w.token(jwt.MapClaims{"sub": 1})), httpapi.Caller{Name: "token"}},
		"permission that is no text": {request("Authorization", "Bearer "+w.token(jwt.MapClaims{"scope": true})), httpapi.Caller{Name: "token", ID: "s1"}},
	} {
		if got, err := c.Caller(tt.request); got != tt.want || err != nil {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tt.want)
		}
	}
	for name, r := range map[string]*http.Request{
		"nothing":            request(),
		"another key":        request("X-API-Key", "reader-Vl2bq8ZxJ0c5oTn8"),
		"part of a key":      request("X-API-Key", readerKey[:20]),
		"empty key":          request("X-API-Key", ""),
		"two keys":           request("X-API-Key", readerKey, "X-API-Key", readerKey),
		"key and token":      request("X-API-Key", readerKey, "Authorization", "Bearer "+w.token(nil)),
		"key as a token":     request("Authorization", "Bearer "+readerKey),
		"key in the query":   httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/articles?X-API-Key="+readerKey, nil),
		"token that expired": request("Authorization", "Bearer "+w.token(jwt.MapClaims{"exp": begin.Unix()})),
		"another audience":   request("Authorization", "Bearer "+w.token(jwt.MapClaims{"aud": "gateway"})),
	} {
		got, err := c.Caller(r)
		var refused *httpapi.UnauthenticatedError
		if !errors.As(err, &refused) || got != (httpapi.Caller{}) {
			t.Errorf("%s: got = %+v, err = %v", name, got, err)
			continue
		}
		if all := strings.Join(refused.Challenges, "\n"); !strings.Contains(all, "Bearer ") || !strings.Contains(all, "APIKey ") {
			t.Errorf("%s: the challenges are %q", name, all)
		}
	}
}

// An email address that the issuer has not verified may belong to anybody, so it does not confer the permission.
func TestUnverifiedAddressesGiveNoPermission(t *testing.T) {
	w := newKeyring(t)
	w.config.Claim, w.config.Value = "email", "moderator@example.com"
	c := w.callers()
	for verified, want := range map[any]bool{true: true, "true": true, false: false, "false": false} {
		token := w.token(jwt.MapClaims{"email": "moderator@example.com", "email_verified": verified})
		if got, err := c.Caller(request("Authorization", "Bearer "+token)); got.Moderate != want || err != nil {
			t.Errorf("email_verified is %v: %+v, %v", verified, got, err)
		}
	}
}

// A rotated key is valid, and a withdrawn one invalid, within a second.
func TestRotation(t *testing.T) {
	w := newKeyring(t)
	c := w.callers()
	may := func(key string) bool {
		_, err := c.Caller(request("X-API-Key", key))
		return err == nil
	}
	if !may(readerKey) {
		t.Fatal("the key does not count")
	}
	const newer = "reader-of-the-second-kind"
	w.keys["reader"] = newer
	w.clock.Advance(time.Second)
	if may(readerKey) || !may(newer) {
		t.Error("the key before counts, or the one now does not")
	}
	delete(w.keys, "reader")
	w.clock.Advance(time.Second)
	if may(newer) || !may(moderatorKey) {
		t.Error("a key that was withdrawn counts, or takes another one with it")
	}
	w.keys["reader"] = ""
	w.clock.Advance(time.Second)
	if may("") {
		t.Error("an empty key counts")
	}
}

func TestUnavailableKeys(t *testing.T) {
	w := newKeyring(t)
	c := w.callers()
	w.down = true
	w.clock.Advance(time.Second)
	if _, err := c.Caller(request("X-API-Key", readerKey)); !errors.Is(err, httpapi.ErrUnavailable) || strings.Contains(err.Error(), readerKey) {
		t.Error(err)
	}
	w.down = false
	if _, err := c.Caller(request("X-API-Key", readerKey)); err != nil {
		t.Error(err)
	}
}

func TestInvalidConfigurations(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*keyring)
		want   []string
	}{
		"nobody":          {func(w *keyring) { w.config.Keys, w.config.JWT = nil, nil }, []string{"nobody could call"}},
		"keys not there":  {func(w *keyring) { clear(w.keys) }, []string{`API key "reader"`, `API key "moderator"`}},
		"short key":       {func(w *keyring) { w.keys["reader"] = "secret-of-15-by" }, []string{`API key "reader" has less than 16 bytes`}},
		"equal keys":      {func(w *keyring) { w.keys["reader"] = moderatorKey }, []string{`"reader" and "moderator" are the same`}},
		"no such file":    {func(w *keyring) { w.config.JWT.JWKSFile = "none.json" }, []string{"none.json"}},
		"tokens of none":  {func(w *keyring) { w.config.JWT.Issuer = "" }, []string{"issuer"}},
		"tokens for none": {func(w *keyring) { w.config.JWT.Audiences = nil }, []string{"audiences"}},
	} {
		w := newKeyring(t)
		tt.change(w)
		_, err := callers.New(t.Context(), w.config)
		for _, want := range tt.want {
			testworld.WantError(t, name, err, want)
		}
		for _, key := range w.keys {
			if key != "" && strings.Contains(fmt.Sprint(err), key) {
				t.Errorf("%s: the error has a key: %v", name, err)
			}
		}
	}
}

// Without tokens in the configuration, a token is refused. Without keys, a key is refused.
func TestOneWay(t *testing.T) {
	w := newKeyring(t)
	w.config.Keys = nil
	if _, err := w.callers().Caller(request("X-API-Key", readerKey)); err == nil {
		t.Error("a key counts where there are only tokens")
	}
	w = newKeyring(t)
	w.config.JWT = nil
	c := w.callers()
	if _, err := c.Caller(request("Authorization", "Bearer "+w.token(nil))); err == nil {
		t.Error("a token counts where there are only keys")
	}
	testworld.Check(t, c.Ready(t.Context()))
}

// threats.md 77: only scopes are split into words, so that users do not get a permission by choosing a name.
func TestScopeSplitting_threats_77(t *testing.T) {
	for claim, tt := range map[string]struct {
		value any
		want  bool
	}{
		"scope":  {"read admin", true},
		"scp":    {"admin read", true},
		"name":   {"Bob admin", false},
		"roles":  {"user admin", false},
		"role":   {"admin", true},
		"groups": {[]string{"user", "admin"}, true},
		"group":  {[]string{"user admin"}, false},
		"SCOPE":  {"read admin", false},
	} {
		w := newKeyring(t)
		w.config.Claim, w.config.Value = claim, "admin"
		got, err := w.callers().Caller(request("Authorization", "Bearer "+w.token(jwt.MapClaims{claim: tt.value})))
		if err != nil || got.Moderate != tt.want {
			t.Errorf("%s %q: got = %+v, err = %v", claim, tt.value, got, err)
		}
	}
}

// If one key cannot be read, callers with another key are still authenticated.
func TestUnreadableKey(t *testing.T) {
	for _, lost := range []string{"reader", "moderator"} {
		w := newKeyring(t)
		c := w.callers()
		w.lost = lost
		w.clock.Advance(time.Minute)
		for name, key := range map[string]string{"reader": readerKey, "moderator": moderatorKey, "": "a-key-that-nobody-has"} {
			got, err := c.Caller(request("X-API-Key", key))
			if name == lost || name == "" {
				if !errors.Is(err, httpapi.ErrUnavailable) || got != (httpapi.Caller{}) {
					t.Errorf("without %s, %s is %+v, %v", lost, key, got, err)
				}
			} else if err != nil || got.Name != name {
				t.Errorf("without %s, %s is %+v, %v", lost, name, got, err)
			}
		}
	}
}
