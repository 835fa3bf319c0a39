package identity_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/identity"
)

func TestRotatedKeysCountAtOnceAndRemovedOnesNoLonger(t *testing.T) {
	old, fresh := newSigner(t, "old", "ES256"), newSigner(t, "fresh", "RS256")
	e := newEndpoint(t, old.jwk())
	w := e.session(t)
	accepted(t, ann)(w.bearer(old.token(t, claims())))

	e.publish(old.jwk(), fresh.jwk())
	w.clock.Advance(10 * time.Second) // since the last fetch
	accepted(t, ann)(w.bearer(fresh.token(t, claims())))
	accepted(t, ann)(w.bearer(old.token(t, claims())))

	e.publish(fresh.jwk())
	w.clock.Advance(10 * time.Minute) // without requests in between: the first one waits for newer keys
	refused(t, identity.ErrUnauthenticated)(w.bearer(old.token(t, claims())))
	accepted(t, ann)(w.bearer(fresh.token(t, claims())))
	if e.count() != 3 {
		t.Errorf("%d fetches, want 3", e.count())
	}
}

func TestKeyReplacedUnderID(t *testing.T) {
	old, fresh := newSigner(t, "k", "ES256"), newSigner(t, "k", "ES256")
	e := newEndpoint(t, old.jwk())
	w := e.session(t)
	accepted(t, ann)(w.bearer(old.token(t, claims())))
	e.publish(fresh.jwk())
	w.clock.Advance(10 * time.Second)
	accepted(t, ann)(w.bearer(fresh.token(t, claims())))
	refused(t, identity.ErrUnauthenticated)(w.bearer(old.token(t, claims())))
}

// threats.md 44 and 65: made-up key IDs cause at most one request to the issuer in ten seconds. Until the next one, an unknown
// key may be a new one.
func TestUnknownKeyRate(t *testing.T) {
	s, unknown := newSigner(t, "k1", "ES256"), newSigner(t, "x", "ES256")
	e := newEndpoint(t, s.jwk())
	w := e.session(t)
	accepted(t, ann)(w.bearer(s.token(t, claims())))
	w.clock.Advance(1)
	for second := range 61 {
		for i := range 20 {
			unknown.id = fmt.Sprintf("made-up-%d-%d", second, i)
			token := unknown.token(t, claims())
			want := identity.ErrUnavailable
			if second%10 == 0 && i == 0 {
				want = identity.ErrUnauthenticated // this key was looked for, and does not exist
			}
			refused(t, want, token)(w.bearer(token))
			w.clock.Advance(time.Microsecond)
		}
		accepted(t, ann)(w.bearer(s.token(t, claims())))
		w.clock.Advance(time.Second)
	}
	if e.count() != 8 { // the initial fetch, and those at 0, 10, …, 60 seconds
		t.Errorf("%d fetches in a minute", e.count())
	}
}

// threats.md 65: a token of a new key is accepted at once, even if the keys were read just before. If the key cannot be looked
// for yet, because a made-up one was, the error is ErrUnavailable and not ErrUnauthenticated.
func TestANewKeyCountsAtOnce(t *testing.T) {
	old, fresh, next, unknown := newSigner(t, "old", "ES256"), newSigner(t, "fresh", "ES256"), newSigner(t, "next", "ES256"), newSigner(t, "x", "ES256")
	e := newEndpoint(t, old.jwk())
	w := e.session(t)
	accepted(t, ann)(w.bearer(old.token(t, claims())))
	e.publish(old.jwk(), fresh.jwk())
	w.clock.Advance(1)
	accepted(t, ann)(w.bearer(fresh.token(t, claims())))

	w.clock.Advance(10 * time.Second)
	refused(t, identity.ErrUnauthenticated)(w.bearer(unknown.token(t, claims())))
	e.publish(old.jwk(), fresh.jwk(), next.jwk())
	w.clock.Advance(10*time.Second - 1)
	refused(t, identity.ErrUnavailable)(w.bearer(next.token(t, claims())))
	w.clock.Advance(1)
	accepted(t, ann)(w.bearer(next.token(t, claims())))
}

// threats.md 65: a session whose key was removed by the issuer is refused at once, whatever other keys are looked for. An
// expired one does not cause a fetch.
func TestSessionsOfRemovedKey(t *testing.T) {
	old, fresh, unknown := newSigner(t, "old", "ES256"), newSigner(t, "fresh", "ES256"), newSigner(t, "x", "ES256")
	e := newEndpoint(t, fresh.jwk())
	w := e.session(t)
	gone := old.token(t, claims())
	refused(t, identity.ErrUnauthenticated)(w.bearer(gone))
	for range 3 {
		for range 9 {
			w.clock.Advance(time.Second)
			refused(t, identity.ErrUnauthenticated)(w.bearer(gone))
		}
		w.clock.Advance(2 * time.Second)
		refused(t, identity.ErrUnauthenticated)(w.bearer(unknown.token(t, claims()))) // the keys are read again, and have not changed
		refused(t, identity.ErrUnauthenticated)(w.bearer(gone))
	}
	before := e.count()
	w.clock.Advance(time.Minute)
	unknown.id = "another"
	for _, c := range []map[string]any{{"exp": start.Add(-time.Hour).Unix()}, {"iss": "https://other.example.com"}, {"aud": "other"}} {
		refused(t, identity.ErrUnauthenticated)(w.bearer(unknown.token(t, claims(c))))
	}
	if e.count() != before {
		t.Error("keys were read for tokens that no key could make good")
	}
}

func TestKeyRefresh(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	e := newEndpoint(t, s.jwk())
	w := e.session(t)
	for range 30 {
		accepted(t, ann)(w.bearer(s.token(t, claims())))
		w.clock.Advance(10*time.Second - time.Millisecond)
	}
	if e.count() != 1 {
		t.Errorf("%d fetches in five minutes, want 1", e.count())
	}
	w.clock.Advance(time.Second)
	accepted(t, ann)(w.bearer(s.token(t, claims()))) // does not wait for the fetch that it starts
	for end := time.Now().Add(time.Minute); e.count() != 2; {
		if time.Now().After(end) {
			t.Fatalf("%d fetches, want 2", e.count())
		}
	}
}

func TestClockSetBack(t *testing.T) {
	s, fresh := newSigner(t, "k1", "ES256"), newSigner(t, "k2", "ES256")
	e := newEndpoint(t, s.jwk())
	w := e.session(t)
	back := map[string]any{"iat": start.Add(-200 * time.Hour).Unix()}
	accepted(t, ann)(w.bearer(s.token(t, claims())))
	e.publish(s.jwk(), fresh.jwk())
	w.clock.Advance(-48 * time.Hour)
	accepted(t, ann)(w.bearer(fresh.token(t, claims(back))))
	for range 100 {
		accepted(t, ann)(w.bearer(s.token(t, claims(back))))
	}
	if e.count() != 2 {
		t.Errorf("%d fetches, want 2", e.count())
	}
	next := newSigner(t, "k3", "ES256")
	e.publish(s.jwk(), fresh.jwk(), next.jwk())
	w.clock.Advance(-48 * time.Hour) // so the last fetch for an unknown key is in the future
	accepted(t, ann)(w.bearer(next.token(t, claims(back))))
}

func TestEndpointOutage(t *testing.T) {
	s, fresh := newSigner(t, "k1", "ES256"), newSigner(t, "k2", "ES256")
	for name, down := range failures(s) {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(t)
			e.set(down)
			w := e.session(t)
			for range 3 {
				refused(t, identity.ErrUnavailable)(w.bearer(s.token(t, claims())))
			}
			if err := w.Ready(t.Context()); !errors.Is(err, identity.ErrUnavailable) {
				t.Errorf("ready: %v", err)
			}
			if e.count() != 1 {
				t.Errorf("%d fetches in one second, want 1", e.count())
			}

			e.publish(s.jwk())
			w.clock.Advance(time.Second)
			accepted(t, ann)(w.bearer(s.token(t, claims())))
			if err := w.Ready(t.Context()); err != nil {
				t.Errorf("ready: %v", err)
			}

			// The endpoint is down again: known keys stay valid, and for unknown ones the error is ErrUnavailable.
			e.set(down)
			w.clock.Advance(30 * time.Minute)
			_ = w.Ready(t.Context())
			later := claims(map[string]any{"exp": start.Add(100 * time.Hour).Unix()})
			for range 3 {
				accepted(t, ann)(w.bearer(s.token(t, later)))
				refused(t, identity.ErrUnavailable)(w.bearer(fresh.token(t, later)))
				refused(t, identity.ErrUnauthenticated)(w.bearer(flip(s.token(t, later))))
				w.clock.Advance(10 * time.Second)
			}
			w.clock.Advance(24 * time.Hour)
			refused(t, identity.ErrUnavailable)(w.bearer(s.token(t, later)))

			e.publish(fresh.jwk())
			w.clock.Advance(10 * time.Second)
			accepted(t, ann)(w.bearer(fresh.token(t, later)))

			_ = w.Close()
			var said []string
			for line := range strings.Lines(w.log.String()) {
				if _, what, found := strings.Cut(line, "the keys of tokens cannot be read: "); found {
					what, _, _ = strings.Cut(what, `"`)
					said = append(said, what)
				}
			}
			if want := []string{"there are none, and requests are refused", "the last good ones are used"}; !slices.Equal(said, want) {
				t.Errorf("the log has %q, want %q", said, want)
			}
		})
	}
}

// failures returns endpoints with invalid responses. Most of these contain a valid key.
func failures(s *signer) map[string]func(http.ResponseWriter, *http.Request) {
	text := func(s string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
	}
	return map[string]func(http.ResponseWriter, *http.Request){
		"status 500": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, document(s.jwk()))
		},
		"cut off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut off in the middle": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"keys":[`)
			panic(http.ErrAbortHandler)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "//"+r.Host+"/elsewhere")
			if r.URL.Path != "/elsewhere" {
				w.WriteHeader(http.StatusTemporaryRedirect)
			}
			_, _ = io.WriteString(w, document(s.jwk()))
		},
		"HTML":               text("<html>Sign in</html>"),
		"nothing":            text(""),
		"no keys":            text(`{}`),
		"keys are null":      text(`{"keys":null}`),
		"keys twice":         text(`{"keys":[],"keys":[]}`),
		"keys of other kind": text(`{"keys":[{"kty":"oct","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"},{"kty":"RSA"},1,{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`),
		"101 keys":           text(document(append(slices.Repeat([]map[string]any{{"kty": "RSA"}}, 100), s.jwk())...)),
		"without end":        text(document(s.jwk()) + strings.Repeat(" ", 300<<10)),
	}
}

func TestAnIssuerCanRevokeAllItsKeys(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	e := newEndpoint(t, s.jwk())
	w := e.session(t)
	accepted(t, ann)(w.bearer(s.token(t, claims())))
	e.publish()
	w.clock.Advance(10 * time.Minute)
	refused(t, identity.ErrUnauthenticated)(w.bearer(s.token(t, claims())))
}

// Keys of an endpoint with a private half, and HMAC keys, are not used.
func TestPrivateKeysOfEndpoint(t *testing.T) {
	s, leaked, secret := newSigner(t, "k1", "ES256"), newSigner(t, "leaked", "ES256"), newSigner(t, "h", "HS256")
	e := newEndpoint(t, s.jwk(), leaked.jwk(map[string]any{"d": "cHJpdmF0ZS1jYW5hcnk"}), secret.jwk())
	w := e.session(t)
	for _, bad := range []*signer{leaked, secret} {
		refused(t, identity.ErrUnauthenticated)(w.bearer(bad.token(t, claims())))
	}
	accepted(t, ann)(w.bearer(s.token(t, claims())))
	_ = w.Close()
	if log := w.log.String(); !strings.Contains(log, "keys[1] holds its private half") || !strings.Contains(log, "keys[2] is symmetric") || strings.Contains(log, "canary") || strings.Contains(log, "cHJpdmF0") {
		t.Errorf("the log: %s", log)
	}
}

func TestEndpointRequest(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	e := newEndpoint(t)
	var got *http.Request
	e.set(func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = io.WriteString(w, document(s.jwk()))
	})
	w := e.session(t)
	r := request("Authorization", "Bearer "+s.token(t, claims()), "Cookie", "a=b", "Traceparent", "00-1-2-3")
	accepted(t, ann)(w.User(r))
	if got.Method != http.MethodGet || got.URL.Path != "/jwks.json" || got.Header.Get("Authorization")+got.Header.Get("Cookie")+got.Header.Get("Traceparent") != "" {
		t.Errorf("got.Method = %s got.URL = %s got.Header = %v", got.Method, got.URL, got.Header)
	}
}

func TestSymmetricKeys(t *testing.T) {
	secret, s := newSigner(t, "h", "HS256"), newSigner(t, "k", "ES256")
	c := config(t, secret.jwk(), s.jwk())
	refused(t, identity.ErrUnauthenticated)(newSession(t, c, nil).bearer(secret.token(t, claims())))
	c.JWT.Algorithms = []string{"HS256"}
	accepted(t, ann)(newSession(t, c, nil).bearer(secret.token(t, claims())))
}

func answer(text string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text))}
}

// hang never responds: it returns an error when the context ends.
func hang(ctx context.Context) (*http.Response, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAFileOfKeys(t *testing.T) {
	old, fresh := newSigner(t, "old", "ES256"), newSigner(t, "fresh", "EdDSA")
	dir := t.TempDir()
	name := filepath.Join(dir, "jwks.json")
	write(t, name, document(old.jwk(map[string]any{"d": "AAAA"}))) // a file may hold private halves
	c := identity.Config{Mode: identity.ModeJWT, JWT: &identity.JWT{Bearer: true, JWKSFile: name, Issuer: issuer, Audiences: []string{audience}}}
	w := newSession(t, c, nil)
	accepted(t, ann)(w.bearer(old.token(t, claims())))

	write(t, filepath.Join(dir, "next"), document(fresh.jwk()))
	testworld.Check(t, os.Rename(filepath.Join(dir, "next"), name))
	w.clock.Advance(time.Second)
	refused(t, identity.ErrUnauthenticated)(w.bearer(old.token(t, claims())))
	accepted(t, ann)(w.bearer(fresh.token(t, claims())))

	for _, broken := range []string{"", `{"keys":[`, document(map[string]any{"kty": "RSA"})} {
		write(t, name, broken)
		w.clock.Advance(time.Second)
		accepted(t, ann)(w.bearer(fresh.token(t, claims())))
		refused(t, identity.ErrUnavailable)(w.bearer(old.token(t, claims())))
	}
	_ = os.Remove(name)
	w.clock.Advance(time.Second)
	accepted(t, ann)(w.bearer(fresh.token(t, claims())))
	refused(t, identity.ErrUnavailable)(w.bearer(old.token(t, claims())))
	write(t, name, document(old.jwk()))
	w.clock.Advance(time.Second)
	accepted(t, ann)(w.bearer(old.token(t, claims())))
}

func TestUnusableFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"missing": "", "empty": "", "json": "{}", "large": strings.Repeat(" ", 300<<10), "none": `{"keys":[{"kty":"RSA"}]}`} {
		file := filepath.Join(dir, name)
		if name != "missing" {
			write(t, file, text)
		}
		c := config(t)
		c.JWT.JWKSFile = file
		if _, err := identity.New(t.Context(), c, identity.Options{}); !errors.Is(err, identity.ErrUnavailable) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
	c := config(t)
	c.JWT.JWKSFile = dir
	testworld.Fails(identity.New(t.Context(), c, identity.Options{}))(t, "no regular file")
}

// slowWorld returns a world with the clock of a synctest bubble.
func slowWorld(t *testing.T, f testworld.Answer) *session {
	t.Helper()
	i := testworld.Must(identity.New(t.Context(), identity.Config{Mode: identity.ModeJWT, JWT: &identity.JWT{
		Bearer: true, JWKSURL: "https://login.test/jwks", Issuer: issuer, Audiences: []string{audience},
	}}, identity.Options{Transport: f}))(t)
	t.Cleanup(func() { _ = i.Close() })
	return &session{Identifier: i}
}

// forever returns claims that are valid at any time of the bubble.
func forever() map[string]any {
	return claims(map[string]any{"exp": 4_000_000_000, "iat": 0})
}
