package identity

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/internal/testworld"
)

// No key document makes the parser panic: documents come from servers of others.
func FuzzKeys(f *testing.F) {
	for _, seed := range []string{
		`{"keys":[]}`,
		`{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","kid":"1"}]}`,
		`{"keys":[{"kty":"RSA","n":"////","e":"AQAB"},{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`,
		`{"keys":[{"kty":"oct","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"},{"kty":"EC","crv":"P-521","x":"AA","y":"//////////////"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		set, err := parseKeys(document, admits{})
		if err != nil {
			return
		}
		for _, k := range set.keys {
			if _, secret := k.public.([]byte); secret {
				t.Error("a symmetric key counts")
			}
			for _, algorithm := range Asymmetric() {
				if k.fits(algorithm) && k.verifies(&token{algorithm: algorithm, signed: "a.b", signature: make([]byte, 64)}) {
					t.Errorf("a signature of zeros is valid for %s", algorithm)
				}
			}
		}
	})
}

// Without a key, no token has a user.
func FuzzTokens(f *testing.F) {
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("eyJhbGciOiJFUzI1NiIsImtpZCI6IjEifQ.e30.AAAA")
	set := &keySet{}
	s := newSession(f.Context(), &JWT{Bearer: true, Cookie: "s", JWKSFile: "x"}, Options{Clock: time.Now})
	s.keys.read = nil
	s.keys.set, s.keys.since = set, time.Now().Add(time.Hour)
	s.keys.closed = true
	f.Fuzz(func(t *testing.T, text string) {
		for name, value := range map[string]string{"Authorization": "Bearer " + text, "Cookie": "s=" + text} {
			r := (&http.Request{Header: http.Header{name: {value}}}).WithContext(t.Context())
			if u, err := s.user(r); err == nil {
				t.Errorf("%q is %+v", value, u)
			}
		}
	})
}

// threats.md 65: the memory for made-up key IDs is bounded.
func TestUnknownKeyBound(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	c := &keyCache{
		refreshPolicy: urlRefresh, clock: func() time.Time { return now }, log: slog.New(slog.DiscardHandler), base: t.Context(), cancel: func() {},
		read: func(context.Context) ([]byte, error) { return []byte(`{"keys":[]}`), nil },
	}
	c.unknown, _ = lru.New[keyRef, bool](maxUnknown)
	for i := range 3 * maxUnknown {
		set := testworld.Must(c.current(t.Context()))(t)
		received := now
		now = now.Add(c.minInterval)
		testworld.Must(c.newer(t.Context(), set, &token{algorithm: "ES256", keyID: fmt.Sprint(i)}, received))(t)
		if n := c.unknown.Len(); n != min(i+1, maxUnknown) {
			t.Fatalf("%d keys are remembered after %d", n, i+1)
		}
	}
	c.close()
}
