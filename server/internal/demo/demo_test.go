package demo

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/testworld"
)

// start runs the servers for a test, and returns them with a client.
func start(t *testing.T, c *testworld.Clock) (*Servers, *http.Client) {
	t.Helper()
	s := testworld.Must(Start(t.Context(), testKeys(t), c.Now))(t)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		testworld.Check(t, s.Close())
	})
	return s, client
}

// get sends a GET with a bearer token.
func get(t *testing.T, client *http.Client, url, token string) int {
	t.Helper()
	r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	r.Header.Set("Authorization", "Bearer "+token)
	response := testworld.Must(client.Do(r))(t)
	_ = response.Body.Close()
	return response.StatusCode
}

// Both grants and a JWT are accepted over the network, as the demo uses them.
func TestStart(t *testing.T) {
	c, k := newClock(), testKeys(t)
	s, client := start(t, c)
	for _, url := range []string{s.TokenURL, s.APIURL} {
		if !strings.HasPrefix(url, "http://127.0.0.1:") {
			t.Errorf("it listens at %s", url)
		}
	}
	claims := with(assertionClaims(k, c.Now()), map[string]any{"aud": s.TokenURL})
	for subject, form := range map[string]map[string][]string{
		"client":    clientForm(k),
		"assertion": bearerForm(signed(t, jwt.SigningMethodRS256, k.RSA, nil, claims)),
	} {
		response := testworld.Must(client.PostForm(s.TokenURL, form))(t)
		var answer struct {
			AccessToken string `json:"access_token"`
			ExpiresIn   int    `json:"expires_in"`
		}
		if err := errors.Join(json.NewDecoder(response.Body).Decode(&answer), response.Body.Close()); err != nil || answer.ExpiresIn != 3600 {
			t.Fatalf("%s: answer = %+v, err = %v", subject, answer, err)
		}
		if code := get(t, client, s.APIURL+PathBearer, answer.AccessToken); code != http.StatusOK {
			t.Errorf("%s: status %d", subject, code)
		}
	}
	if n := s.Endpoint.Exchanges(); n != 2 {
		t.Errorf("%d exchanges, want 2", n)
	}
	token := signed(t, jwt.SigningMethodES256, k.EC, nil, map[string]any{"aud": s.APIURL, "iat": c.Now().Unix(), "exp": c.Now().Unix() + 60})
	if code := get(t, client, s.APIURL+PathJWT, token); code != http.StatusOK {
		t.Errorf("JWT: status %d", code)
	}
	if n := len(s.API.Received()); n != 3 {
		t.Errorf("%d requests recorded, want 3", n)
	}
}

func TestManyAtOnce(t *testing.T) {
	c, k := newClock(), testKeys(t)
	s, client := start(t, c)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			w := post(s.Endpoint, clientForm(k), nil)
			get(t, client, s.APIURL+PathBearer, text(t, document(t, w), "access_token"))
		})
	}
	all.Wait()
	for _, one := range s.API.Received() {
		if one.Status != http.StatusOK {
			t.Errorf("one = %+v", one)
		}
	}
	if n := s.Endpoint.Exchanges(); n != 20 {
		t.Errorf("%d exchanges, want 20", n)
	}
}

func TestCloseStopsListening(t *testing.T) {
	s, client := start(t, newClock())
	testworld.Check(t, s.Close())
	for _, url := range []string{s.TokenURL, s.APIURL} {
		if response, err := client.Get(url); err == nil {
			_ = response.Body.Close()
			t.Errorf("%s answers after Close", url)
		}
	}
}

func TestKeys(t *testing.T) {
	k := testKeys(t)
	other := testworld.Must(NewKeys())(t)
	if k.ClientSecret == other.ClientSecret || k.APIKey == other.APIKey || k.RSA.Equal(other.RSA) || k.EC.Equal(other.EC) || k.APIKey == k.ClientSecret {
		t.Error("keys are not fresh")
	}
	parse := func(text string) any {
		block, rest := pem.Decode([]byte(text))
		if block == nil || block.Type != "PRIVATE KEY" || len(rest) != 0 {
			t.Fatal("not one PEM block of a private key")
		}
		return testworld.Must(x509.ParsePKCS8PrivateKey(block.Bytes))(t)
	}
	rsaPEM, ecPEM := k.PEM()
	if key, ok := parse(rsaPEM).(*rsa.PrivateKey); !ok || !key.Equal(k.RSA) || key.N.BitLen() < 2048 {
		t.Error("the RSA key is another one, or a short one")
	}
	if key, ok := parse(ecPEM).(*ecdsa.PrivateKey); !ok || !key.Equal(k.EC) {
		t.Error("the EC key is another one")
	}
}

// keys generates keys once, because an RSA key takes a while.
var keys = sync.OnceValues(NewKeys)

func testKeys(t *testing.T) Keys {
	t.Helper()
	return testworld.Must(keys())(t)
}

func newClock() *testworld.Clock {
	return testworld.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
}

// signed returns a JWT.
func signed(t *testing.T, method jwt.SigningMethod, key any, header, claims map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, jwt.MapClaims(claims))
	for name, value := range header {
		token.Header[name] = value
	}
	return testworld.Must(token.SignedString(key))(t)
}

// with returns a copy of claims with changes. A nil value removes a claim.
func with(claims, changes map[string]any) map[string]any {
	changed := map[string]any{}
	for _, from := range []map[string]any{claims, changes} {
		for name, value := range from {
			if changed[name] = value; value == nil {
				delete(changed, name)
			}
		}
	}
	return changed
}

// post sends a form to a handler.
func post(h http.Handler, form url.Values, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/token", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// document decodes the body of a response.
func document(t *testing.T, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatalf("answer %q: %v", w.Body, err)
	}
	if cache, media := w.Header().Get("Cache-Control"), w.Header().Get("Content-Type"); cache != "no-store" || media != "application/json" {
		t.Errorf("Cache-Control is %q, and Content-Type is %q", cache, media)
	}
	return doc
}

// text returns a string member of a document.
func text(t *testing.T, doc map[string]any, name string) string {
	t.Helper()
	value, ok := doc[name].(string)
	if !ok {
		t.Fatalf("%s is %v", name, doc[name])
	}
	return value
}
