package secretstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/secretstore"
)

func TestTokenRenewal(t *testing.T) {
	f, value := newCRMVault(t)
	store := f.byAppRole()
	f.want(store, "crm", value)
	f.Advance(40*time.Minute - 1)
	f.want(store, "crm", value)
	f.wantAsked(0, renewal)
	f.Advance(1)
	f.want(store, "crm", value)
	f.wantAsked(1, renewal)
	for range 10 {
		f.Advance(50 * time.Minute)
		f.want(store, "crm", value)
	}
	f.wantAsked(11, renewal)
	f.wantAsked(1, appRoleLogin)
}

func TestLoginAfterToken(t *testing.T) {
	for _, tt := range []struct {
		name             string
		change           func(f *fakeVault)
		idle             time.Duration // time between two uses
		logins, renewals int
	}{
		{"it is not renewable", func(f *fakeVault) { f.renewable = false }, 50 * time.Minute, 2, 0},
		{"it has ended", func(*fakeVault) {}, 2 * time.Hour, 2, 0},
		{"renewing gives little", func(f *fakeVault) { f.max = 70 * time.Minute }, 50 * time.Minute, 2, 1},
		{"renewing is refused", func(f *fakeVault) {
			f.trouble = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/v1/auth/token/renew-self" {
					return false
				}
				fail(w, http.StatusForbidden, "permission denied")
				return true
			}
		}, 50 * time.Minute, 2, 1},
		{"the clock was set back", func(*fakeVault) {}, -24 * time.Hour, 2, 0}, // threats.md 33
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, value := newCRMVault(t)
			tt.change(f)
			store := f.byAppRole()
			f.want(store, "crm", value)
			f.Advance(tt.idle)
			f.want(store, "crm", value)
			f.wantAsked(tt.logins, appRoleLogin)
			f.wantAsked(tt.renewals, renewal)
		})
	}
}

// threats.md 33: the lifetime that a server sends for a token can neither overflow nor make it last forever.
func TestOddTimesOfTokens(t *testing.T) {
	for seconds, logins := range map[string]int{"0": 1, "1": 3, "-5": 1, "10000000000": 1, "9223372036854775807": 1} {
		t.Run(seconds, func(t *testing.T) {
			f, value := newCRMVault(t)
			token := f.token(0, true)
			f.trouble = answerAt("/v1/auth/approle/login", `{"auth":{"client_token":"`+token+`","lease_duration":`+seconds+`,"renewable":true}}`)
			store := f.byAppRole()
			for range 3 {
				f.want(store, "crm", value)
				f.Advance(time.Minute)
			}
			f.wantAsked(logins, appRoleLogin)
		})
	}
}

// answerAt returns a handler that responds with text at one path.
func answerAt(path, text string) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == path {
			fmt.Fprint(w, text)
		}
		return r.URL.Path == path
	}
}

// A proxy that mixes up answers does not give this node the token of another: a renewal has to be of the very token.
func TestRenewalOfOtherToken(t *testing.T) {
	f, value := newCRMVault(t)
	store := f.byAppRole()
	f.want(store, "crm", value)
	others := f.token(time.Hour, true)
	f.trouble = answerAt("/v1/auth/token/renew-self", `{"auth":{"client_token":"`+others+`","lease_duration":3600,"renewable":true}}`)
	f.Advance(50 * time.Minute)
	f.want(store, "crm", value)
	f.wantAsked(2, appRoleLogin)
}

func TestRevokedToken(t *testing.T) {
	f, value := newCRMVault(t)
	for name, store := range map[string]host.Secrets{
		appRoleLogin:                 f.byAppRole(),
		"POST auth/kubernetes/login": f.store(secretstore.VaultConfig{Kubernetes: f.kubernetes()}),
	} {
		f.want(store, "crm", value)
		f.Advance(time.Minute)
		f.revokeAll()
		f.want(store, "crm", value)
		f.wantAsked(2, name)
	}
}

// Lookups of a secret that the policy forbids do not cause a login for each 403.
func TestForbiddenPathLogins(t *testing.T) {
	f, value := newCRMVault(t)
	f.denied = "secret/data/other"
	store := f.byAppRole()
	f.want(store, "crm", value)
	for range 100 {
		f.wantFailure(store, "other", "vault refuses to read secret/data/other (403)")
		f.want(store, "crm", value)
		f.Advance(time.Second / 4)
	}
	f.wantAsked(3, appRoleLogin) // within 25 s
}

func TestRefusedLoginWait(t *testing.T) {
	f, value := newCRMVault(t)
	right := f.secretID
	f.rewrite("secret_id", f.Word("a secret"))
	store := f.byAppRole()
	for range 40 {
		f.wantFailure(store, "crm", "vault refuses the login at auth/approle/login: it answered 400: check role, credential and policy")
		f.Advance(time.Second / 4)
	}
	f.wantAsked(1, appRoleLogin)
	f.rewrite("secret_id", right)
	f.want(store, "crm", value)
}

func TestCredentialFileReads(t *testing.T) {
	f, value := newCRMVault(t)
	role := f.byAppRole()
	account := f.store(secretstore.VaultConfig{Kubernetes: f.kubernetes()})
	f.want(role, "crm", value)
	f.want(account, "crm", value)
	f.with(func() { f.secretID, f.jwt = f.Word("a secret"), f.Word("a secret") })
	f.rewrite("secret_id", f.secretID)
	f.rewrite("jwt", f.jwt)
	f.Advance(2 * time.Hour)
	f.want(role, "crm", value)
	f.want(account, "crm", value)

	for content, want := range map[string]string{"": "is empty", " \n": "must have one token", "two words": "must have one token", "a\x00b": "must have one token"} {
		f.rewrite("secret_id", content)
		f.Advance(2 * time.Hour)
		f.wantFailure(role, "crm", want)
	}
	f.rewrite("secret_id", f.secretID)
	f.want(role, "crm", value)
}

func TestChangedTokenFile(t *testing.T) {
	f, value := newCRMVault(t)
	first, second, third := f.token(time.Hour, true), f.token(time.Hour, true), f.token(0, false)
	f.rewrite("token", first)
	store := f.store(secretstore.VaultConfig{TokenFile: f.file("token")})
	f.want(store, "crm", value)

	f.rewrite("token", second)
	f.want(store, "crm", value) // the first token is still valid
	f.with(func() { delete(f.tokens, first) })
	f.want(store, "crm", value) // after a 403, the file is read at once

	f.rewrite("token", third)
	f.Advance(time.Second)
	f.want(store, "crm", value)
	f.with(func() { delete(f.tokens, second) })
	f.wantAsked(3, lookup)

	f.rewrite("token", "")
	f.Advance(time.Second)
	f.want(store, "crm", value) // the file is being written, so the old token stays in use
	f.revokeAll()
	f.wantFailure(store, "crm", "the token must be valid")
	f.rewrite("token", f.token(time.Hour, true))
	f.want(store, "crm", value)
}

func TestGivenTokenRenewal(t *testing.T) {
	f, value := newCRMVault(t)
	store := f.store(secretstore.VaultConfig{TokenFile: f.tokenFile(f.token(time.Hour, true))})
	for range 5 {
		f.want(store, "crm", value)
		f.Advance(45 * time.Minute)
	}
	f.wantAsked(4, renewal)
	f.Advance(time.Hour)
	f.wantFailure(store, "crm", "the token must be valid")
}

func TestFailedRenewal(t *testing.T) {
	f, value := newCRMVault(t)
	store := f.byAppRole()
	f.want(store, "crm", value)
	f.with(func() {
		f.trouble = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				fail(w, http.StatusInternalServerError, "internal error")
			}
			return r.Method == http.MethodPost
		}
	})
	f.Advance(45 * time.Minute)
	for range 8 {
		f.want(store, "crm", value)
		f.Advance(time.Second)
	}
	f.wantAsked(1, renewal) // tried again after a while, not with each lookup
	f.Advance(30 * time.Second)
	f.want(store, "crm", value)
	f.wantAsked(2, renewal)
	f.with(func() { f.trouble = nil })
	f.Advance(30 * time.Second)
	f.want(store, "crm", value)
	f.Advance(35 * time.Minute)
	f.want(store, "crm", value)
	f.wantAsked(1+2, appRoleLogin)
}

// threats.md 30, 31: concurrent lookups cause one login.
func TestConcurrentLogin(t *testing.T) {
	f, value := newCRMVault(t)
	store := f.byAppRole()
	gone, leave := context.WithCancel(t.Context())
	begun, release := make(chan struct{}), make(chan struct{})
	f.trouble = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v1/auth/approle/login" {
			f.state.Unlock()
			close(begun)
			<-release
			f.state.Lock()
		}
		return false
	}
	first := make(chan error, 1)
	go func() {
		_, err := store.Secret(gone, "crm")
		first <- err
	}()
	<-begun
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) || errors.Is(err, host.ErrSecretNotFound) {
		t.Errorf("who went away got %v", err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			got, err := store.Secret(t.Context(), "crm")
			f.OutError("an error", err)
			if got != value || err != nil {
				t.Errorf("the secret is %q, %v", got, err)
			}
		})
	}
	close(release)
	wg.Wait()
	f.wantAsked(1, appRoleLogin)

	f.with(func() { f.trouble = nil })
	f.Advance(45 * time.Minute)
	for range 50 {
		wg.Go(func() { f.want(store, "crm", value) })
	}
	wg.Wait()
	f.wantAsked(1, renewal)
	f.revokeAll()
	for range 50 {
		wg.Go(func() { f.want(store, "crm", value) })
	}
	wg.Wait()
	f.wantAsked(2, appRoleLogin)
}

// threats.md 77: a credential file that everybody on the machine may read is not used, as for the identity of an age file.
func TestCredentialFileModes_threats_77(t *testing.T) {
	f, value := newCRMVault(t)
	f.rewrite("token", f.token(0, true))
	for name, config := range map[string]secretstore.VaultConfig{"token": {TokenFile: f.file("token")}, "secret_id": {AppRole: f.appRole()}} {
		for mode, open := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o400: false, 0o644: true, 0o660: true, 0o604: true} {
			testworld.Check(t, os.Chmod(f.file(name), mode))
			if store := f.store(config); open {
				f.wantFailure(store, "crm", "is open to others")
			} else {
				f.want(store, "crm", value)
			}
		}
	}
}

// If the tokens of two callers differ, the caller with the newer token does not get the same token again.
func TestForbiddenTokenReplaced(t *testing.T) {
	f := newFakeVault(t)
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		store := f.store(secretstore.VaultConfig{AppRole: f.appRole(), Transport: &inMemory{server: f}})
		got := secretstore.Refused(t.Context(), store, "older", "newer")
		if got[0] == "" || got[0] == "older" || got[1] == "" || got[1] == "newer" {
			t.Errorf("they got %q", got)
		}
	})
}
