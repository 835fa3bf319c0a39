package identity_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	issuer   = "https://login.test/"
	audience = "keywright"
)

// start is the time at which tests begin.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// ann is the user of the claims of [claims].
var ann = host.User{ID: "u-1", Email: "ann@example.com", Username: "ann", FirstName: "Ann", LastName: "Ürün"}

func claims(changes ...map[string]any) map[string]any {
	all := map[string]any{
		"iss": issuer, "aud": audience, "exp": start.Add(time.Hour).Unix(), "iat": start.Unix(), "sub": "u-1",
		"email": "ann@example.com", "preferred_username": "ann", "given_name": "Ann", "family_name": "Ürün",
	}
	for _, change := range changes {
		maps.Copy(all, change)
		for name, value := range change {
			if value == gone {
				delete(all, name)
			}
		}
	}
	return all
}

// gone as a claim's value removes the claim.
const gone = "\x00gone"

// A signer is a key of an issuer.
type signer struct {
	id, algorithm string
	private       any // crypto.Signer, or []byte
}

func newSigner(t testing.TB, id, algorithm string) *signer {
	t.Helper()
	s := &signer{id: id, algorithm: algorithm}
	var err error
	switch algorithm {
	case "ES256":
		s.private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		s.private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		s.private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA":
		_, s.private, err = ed25519.GenerateKey(rand.Reader)
	case "HS256", "HS384", "HS512":
		s.private = bytes.Repeat([]byte("hmac-key"), 8)
	default:
		s.private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// jwk returns the public half as a JWK, with changes to its members.
func (s *signer) jwk(changes ...map[string]any) map[string]any {
	k := map[string]any{"kid": s.id, "use": "sig"}
	if secret, ok := s.private.([]byte); ok {
		k["kty"], k["k"] = "oct", base64url(secret)
	} else {
		switch public := s.private.(crypto.Signer).Public().(type) {
		case *rsa.PublicKey:
			k["kty"], k["n"], k["e"] = "RSA", base64url(public.N.Bytes()), base64url(big.NewInt(int64(public.E)).Bytes())
		case *ecdsa.PublicKey:
			point, _ := public.Bytes()
			half := len(point) / 2
			k["kty"], k["crv"], k["x"], k["y"] = "EC", public.Params().Name, base64url(point[1:1+half]), base64url(point[1+half:])
		case ed25519.PublicKey:
			k["kty"], k["crv"], k["x"] = "OKP", "Ed25519", base64url(public)
		}
	}
	for _, change := range changes {
		maps.Copy(k, change)
	}
	return k
}

func document(keys ...map[string]any) string {
	if keys == nil {
		keys = []map[string]any{}
	}
	b, _ := json.Marshal(map[string]any{"keys": keys})
	return string(b)
}

// token signs claims.
func (s *signer) token(t testing.TB, c map[string]any) string {
	t.Helper()
	payload := testworld.Must(json.Marshal(c))(t)
	return s.raw(t, fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"JWT"}`, s.algorithm, s.id), string(payload))
}

// raw signs a header and a payload without changing them.
func (s *signer) raw(t testing.TB, header, payload string) string {
	t.Helper()
	signed := base64url([]byte(header)) + "." + base64url([]byte(payload))
	signature := testworld.Must(jwt.GetSigningMethod(s.algorithm).Sign(signed, s.private))(t)
	return signed + "." + base64url(signature)
}

// endpoint serves the JWK Set of an issuer over TLS.
type endpoint struct {
	*httptest.Server
	mu      sync.Mutex
	answer  func(http.ResponseWriter, *http.Request)
	fetches int
}

func newEndpoint(t *testing.T, keys ...map[string]any) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.publish(keys...)
	e.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.fetches++
		answer := e.answer
		e.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) publish(keys ...map[string]any) {
	e.set(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(document(keys...))) })
}

func (e *endpoint) set(answer func(http.ResponseWriter, *http.Request)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func (e *endpoint) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.fetches
}

// session holds an Identifier and all that it uses.
type session struct {
	*identity.Identifier
	clock *testworld.Clock
	log   *bytes.Buffer
}

func newSession(t testing.TB, c identity.Config, transport http.RoundTripper) *session {
	t.Helper()
	w := &session{clock: testworld.NewClock(start), log: &bytes.Buffer{}}
	i := testworld.Must(identity.New(t.Context(), c, identity.Options{
		Transport: transport, Clock: w.clock.Now, Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	}))(t)
	t.Cleanup(func() { _ = i.Close() })
	w.Identifier = i
	return w
}

// config returns the configuration of most tests: a Bearer token, and the keys in a file.
func config(t testing.TB, keys ...map[string]any) identity.Config {
	t.Helper()
	name := filepath.Join(t.TempDir(), "jwks.json")
	write(t, name, document(keys...))
	return identity.Config{Mode: identity.ModeJWT, JWT: &identity.JWT{
		Bearer: true, JWKSFile: name, Issuer: issuer, Audiences: []string{audience},
	}}
}

func (e *endpoint) config() identity.Config {
	return identity.Config{Mode: identity.ModeJWT, JWT: &identity.JWT{
		Bearer: true, JWKSURL: e.URL + "/jwks.json", Issuer: issuer, Audiences: []string{audience},
	}}
}

func (e *endpoint) session(t *testing.T) *session {
	t.Helper()
	return newSession(t, e.config(), e.Client().Transport)
}

func write(t testing.TB, name, text string) {
	t.Helper()
	testworld.Check(t, os.WriteFile(name, []byte(text), 0o600))
}

// request returns a request to a connector, with pairs of header names and values.
func request(pairs ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "https://gateway.test/connectors/crm/", nil)
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	return r
}

func (w *session) bearer(token string) (host.User, error) {
	return w.User(request("Authorization", "Bearer "+token))
}

// outcome returns a function that checks that there is this user, or if kind is not nil what refused checks.
func outcome(t *testing.T, want host.User, kind error, canaries ...string) func(host.User, error) {
	return func(u host.User, err error) {
		t.Helper()
		if kind == nil {
			accepted(t, want)(u, err)
		} else {
			refused(t, kind, canaries...)(u, err)
		}
	}
}

// refused returns a function that checks that there is no user, and an error of a kind that does not contain the canaries, and has no
// challenge unless another session could help. The function returns the error.
func refused(t *testing.T, kind error, canaries ...string) func(host.User, error) error {
	return func(u host.User, err error) error {
		t.Helper()
		if !errors.Is(err, kind) || u != (host.User{}) {
			t.Errorf("got %+v, %v; want %v", u, err, kind)
			return err
		}
		var detail *identity.Error
		if !errors.As(err, &detail) {
			t.Errorf("%T is not an *Error", err)
			return err
		}
		if detail.Challenge != "" && errors.Is(kind, identity.ErrUnavailable) {
			t.Errorf("WWW-Authenticate is %q while keys are unavailable, want none", detail.Challenge)
		}
		for _, canary := range canaries {
			for part := range strings.SplitSeq(canary, ".") {
				if len(part) > 8 && strings.Contains(fmt.Sprintf("%v %+v %#v", err, detail, detail), part) {
					t.Errorf("the error holds what the request held: %v", err)
				}
			}
		}
		return err
	}
}

// accepted returns a function that checks that there is this user.
func accepted(t *testing.T, want host.User) func(host.User, error) {
	return func(u host.User, err error) {
		t.Helper()
		if err != nil || u != want {
			t.Errorf("got %+v, %v; want %+v", u, err, want)
		}
	}
}
