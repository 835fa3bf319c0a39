package identity_test

import (
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/identity"
)

// A token or value of the maximum size is accepted, and one byte more is refused.
func TestTheBoundsOfTokens(t *testing.T) {
	s := newSigner(t, "key", "ES256") // with this key ID, a token can have exactly 16 KiB: base64url does not have every length
	w := newSession(t, config(t, s.jwk()), nil)
	const maxToken, maxValue, maxTime = 16 << 10, 1 << 10, 253402300799
	sized := func(n int) map[string]any { // returns claims whose token has n bytes
		short := len(s.token(t, claims(map[string]any{"x": ""})))
		return claims(map[string]any{"x": strings.Repeat("x", (n-short)*3/4)})
	}
	if n := len(s.token(t, sized(maxToken))); n != maxToken {
		t.Fatalf("the token has %d bytes", n)
	}
	long := ann
	long.Username = strings.Repeat("x", maxValue)
	for name, test := range map[string]struct {
		claims map[string]any
		want   host.User // the zero User if the token is refused
	}{
		"a token of 16 KiB":     {sized(maxToken), ann},
		"a longer token":        {sized(maxToken + 4), host.User{}},
		"a value of 1 KiB":      {claims(map[string]any{"preferred_username": long.Username}), long},
		"a longer value":        {claims(map[string]any{"preferred_username": long.Username + "x"}), host.User{}},
		"it expires in 9999":    {claims(map[string]any{"exp": maxTime}), ann},
		"it was signed in 1970": {claims(map[string]any{"iat": 0}), ann},
		"it was signed before":  {claims(map[string]any{"iat": -1}), host.User{}},
	} {
		t.Run(name, func(t *testing.T) {
			if token := s.token(t, test.claims); test.want == (host.User{}) {
				refused(t, identity.ErrUnauthenticated)(w.bearer(token))
			} else {
				accepted(t, test.want)(w.bearer(token))
			}
		})
	}
}

// A token in malformed base64url is refused although its signature is valid, because other programs may decode it differently.
func TestInvalidBase64URL(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	w := newSession(t, config(t, s.jwk()), nil)
	header, rest, _ := strings.Cut(s.token(t, claims()), ".")
	payload, _, _ := strings.Cut(rest, ".")
	for _, end := range []string{"", "!", "=", "\n", "\r"} {
		signed := header + "." + payload + end
		signature := testworld.Must(jwt.GetSigningMethod(s.algorithm).Sign(signed, s.private))(t)
		if token := signed + "." + base64url(signature); end == "" {
			accepted(t, ann)(w.bearer(token))
		} else {
			refused(t, identity.ErrUnauthenticated)(w.bearer(token))
		}
	}
}

func TestTheBoundsOfKeys(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	modulus := func(bits int) map[string]any {
		n := new(big.Int).SetBit(big.NewInt(1), bits-1, 1)
		return map[string]any{"kty": "RSA", "n": base64url(n.Bytes()), "e": "AQAB"}
	}
	secret := func(size int) map[string]any {
		return map[string]any{"kty": "oct", "k": base64url(make([]byte, size))}
	}
	for name, test := range map[string]struct {
		key     map[string]any
		ignored string
	}{
		"RSA of 2047 bits":  {modulus(2047), "is an RSA key of 2047 bits"},
		"RSA of 2048 bits":  {modulus(2048), ""},
		"RSA of 8192 bits":  {modulus(8192), ""},
		"RSA of 8193 bits":  {modulus(8193), "is an RSA key of 8193 bits"},
		"HMAC of 31 bytes":  {secret(31), "fits no algorithm"},
		"HMAC of 32 bytes":  {secret(32), ""},
		"Ed25519 for RS256": {newSigner(t, "e", "EdDSA").jwk(map[string]any{"alg": "RS256"}), "fits no algorithm"},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, s.jwk(), test.key)
			c.JWT.Algorithms = []string{"ES256", "RS256", "HS256"}
			w := newSession(t, c, nil)
			_ = w.Close()
			if log := w.log.String(); strings.Contains(log, "a key of tokens is not used") != (test.ignored != "") || !strings.Contains(log, test.ignored) {
				t.Errorf("the log: %s", log)
			}
		})
	}
}

// A token of another algorithm is refused although its key ID is that of an HMAC key.
func TestKeyKindMismatch(t *testing.T) {
	s, secret := newSigner(t, "k1", "ES256"), newSigner(t, "h", "HS256")
	c := config(t, s.jwk(), secret.jwk())
	c.JWT.Algorithms = []string{"ES256", "HS256"}
	s.id = "h"
	err := refused(t, identity.ErrUnauthenticated)(newSession(t, c, nil).bearer(s.token(t, claims())))
	testworld.WantError(t, "", err, "no key of the issuer fits the token")
}

func TestTheBoundsOfADocumentOfKeys(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	spaces := func(size int) string {
		text := document(s.jwk())
		return text + strings.Repeat(" ", size-len(text))
	}
	others := func(n int) string {
		return document(append(slices.Repeat([]map[string]any{{"kty": "RSA"}}, n), s.jwk())...)
	}
	for name, test := range map[string]struct {
		text string
		good bool
	}{
		"256 KiB":           {spaces(256 << 10), true},
		"a byte more":       {spaces(256<<10 + 1), false},
		"a hundred keys":    {others(99), true},
		"a hundred and one": {others(100), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t)
			write(t, c.JWT.JWKSFile, test.text)
			i, err := identity.New(t.Context(), c, identity.Options{})
			if err == nil {
				_ = i.Close()
			}
			if (err == nil) != test.good {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The last good keys are used for a day, and no longer.
func TestKeyLifetime(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	e := newEndpoint(t, s.jwk())
	w := e.session(t)
	token := s.token(t, claims(map[string]any{"exp": start.Add(100 * time.Hour).Unix()}))
	accepted(t, ann)(w.bearer(token))
	e.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	w.clock.Advance(24*time.Hour - 1)
	accepted(t, ann)(w.bearer(token))
	w.clock.Advance(1)
	refused(t, identity.ErrUnavailable)(w.bearer(token))
}

// A change of the keys is logged, and not each time that they are read.
func TestTheLogSaysWhenKeysChange(t *testing.T) {
	s, unknown := newSigner(t, "k1", "ES256"), newSigner(t, "x", "ES256")
	e := newEndpoint(t, s.jwk())
	w := e.session(t)
	for i := range 5 {
		unknown.id = fmt.Sprint(i)
		refused(t, identity.ErrUnauthenticated)(w.bearer(unknown.token(t, claims())))
		w.clock.Advance(time.Minute)
	}
	_ = w.Close()
	if n := strings.Count(w.log.String(), "the keys of tokens were read"); n != 1 || e.count() != 5 {
		t.Errorf("%d lines for %d fetches: %s", n, e.count(), w.log)
	}
}

// An error names the server of the keys, but not the rest of the URL.
func TestKeyServerNamed(t *testing.T) {
	c := newEndpoint(t).config()
	c.JWT.JWKSURL = "https://login.test/jwks?key=canary"
	w := newSession(t, c, testworld.Answer(func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }))
	err := w.Ready(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the server of the keys (login.test)") || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
}

// The list of keys has the time at which each key was first read. A key with another ID, algorithm or value is another key.
func TestWhenKeysWereFirstRead(t *testing.T) {
	same, replaced, renamed, narrowed := newSigner(t, "same", "ES256"), newSigner(t, "replaced", "ES256"), newSigner(t, "old", "ES256"), newSigner(t, "narrowed", "ES256")
	e := newEndpoint(t, replaced.jwk(), renamed.jwk(), narrowed.jwk(), same.jwk())
	w := e.session(t)
	accepted(t, ann)(w.bearer(same.token(t, claims())))
	e.publish(newSigner(t, "replaced", "ES256").jwk(), renamed.jwk(map[string]any{"kid": "new"}), narrowed.jwk(map[string]any{"alg": "ES256"}), same.jwk())
	w.clock.Advance(10 * time.Minute)
	accepted(t, ann)(w.bearer(same.token(t, claims())))
	first := map[string]time.Duration{}
	for _, k := range w.Keys().List {
		first[k.ID] = k.First.Sub(start)
	}
	if len(first) != 4 || first["same"] != 0 || first["replaced"] != 10*time.Minute || first["new"] != 10*time.Minute || first["narrowed"] != 10*time.Minute {
		t.Errorf("the keys were first read after %v", first)
	}
}

// The error says what is wrong with the answer to a request for the keys.
func TestAnswerErrors(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	for name, test := range map[string]struct {
		status int
		text   string
		want   string
	}{
		"a status":              {http.StatusServiceUnavailable, document(s.jwk()), "answers with status 503, 200 is wanted"},
		"metadata of an issuer": {http.StatusOK, `{"issuer": "https://login.test", "jwks_uri": "https://login.test/keys"}`, "the metadata of an issuer: remove jwks_url"},
		"another object":        {http.StatusOK, `{}`, "it has no member keys"},
		"keys, and a URL":       {http.StatusOK, strings.Replace(document(s.jwk()), "{", `{"jwks_uri": "https://login.test/keys", `, 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(t)
			e.set(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.text))
			})
			testworld.WantError(t, name, e.session(t).Ready(t.Context()), test.want)
		})
	}
}
