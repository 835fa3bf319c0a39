package identity_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/identity"
)

func TestAFileOfKeys(t *testing.T) {
	old, fresh := newSigner(t, "old", "ES256"), newSigner(t, "fresh", "EdDSA")
	dir := t.TempDir()
	name := filepath.Join(dir, "jwks.json")
	write(t, name, document(old.jwk(map[string]any{"d": "AAAA"}))) // a file may hold private halves
	c := identity.Config{Mode: identity.ModeJWT, JWT: &identity.JWT{Bearer: true, JWKSFile: name, Issuer: issuer, Audiences: []string{audience}}}
	w := newWorld(t, c, nil)
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
	if _, err := identity.New(t.Context(), c, identity.Options{}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}
