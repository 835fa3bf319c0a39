package demo

import (
	"crypto/rand"
	"encoding/json"
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

// keys generates keys once, because an RSA key takes a while.
var keys = sync.OnceValues(func() (Keys, error) { return NewKeys(rand.Reader) })

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
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control is %q", got)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type is %q", got)
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
