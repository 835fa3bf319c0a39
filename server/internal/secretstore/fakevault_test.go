package secretstore_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// fakeVault implements the part of Vault's HTTP API that a store needs, as documented and as the tests in server/test/vault
// see it on a real server: over TLS, with tokens that expire, are renewed up to a limit, and are revoked.
type fakeVault struct {
	*canaries
	*testworld.Clock
	server *httptest.Server
	dir    string

	state     sync.Mutex
	namespace string
	mounts    []string                  // paths of key-value engines
	secrets   map[string]map[string]any // by mount/path; nil if it was deleted
	denied    string                    // a path that the policy does not allow
	tokens    map[string]*fakeToken
	roleID    string
	secretID  string
	jwt       string
	ttl, max  time.Duration // of tokens from a login
	renewable bool
	requests  []string // method and path
	trouble   func(w http.ResponseWriter, r *http.Request) bool
}

type fakeToken struct {
	ends, last time.Time // zero for never
	ttl        time.Duration
	renewable  bool
	silent     bool // the token must not look itself up
}

func newFakeVault(t *testing.T) *fakeVault {
	t.Helper()
	f := &fakeVault{
		canaries: newCanaries(t), Clock: newClock(), dir: t.TempDir(), mounts: []string{"secret"},
		secrets: map[string]map[string]any{}, tokens: map[string]*fakeToken{},
		ttl: time.Hour, max: 24 * time.Hour, renewable: true,
	}
	f.roleID, f.secretID, f.jwt = f.Word("a secret"), f.Word("a secret"), f.Word("a secret")
	f.server = httptest.NewUnstartedServer(f)
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0) // some tests make handshakes fail
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	for name, content := range map[string]string{"ca.pem": string(ca), "secret_id": f.secretID + "\n", "jwt": f.jwt} {
		write(t, f.file(name), []byte(content), 0o600)
	}
	return f
}

// newCRMVault returns a server with the secret crm, and its value.
func newCRMVault(t *testing.T) (f *fakeVault, value string) {
	t.Helper()
	f = newFakeVault(t)
	value = f.Secret("a secret")
	f.put("crm", map[string]any{"value": value})
	return f, value
}

func (f *fakeVault) file(name string) string { return filepath.Join(f.dir, name) }

// with runs a change of the server's state under its lock.
func (f *fakeVault) with(change func()) {
	f.state.Lock()
	defer f.state.Unlock()
	change()
}

// put writes a secret, by its path below the mount secret.
func (f *fakeVault) put(path string, fields map[string]any) {
	f.with(func() { f.secrets["secret/"+path] = fields })
}

func (f *fakeVault) asked(request string) (times int) {
	f.with(func() {
		for _, r := range f.requests {
			if r == request {
				times++
			}
		}
	})
	return times
}

// wantAsked checks the number of times that a request was received.
func (f *fakeVault) wantAsked(times int, request string) {
	f.t.Helper()
	if got := f.asked(request); got != times {
		f.t.Errorf("%s was asked %d times, want %d; there were %q", request, got, times, f.requests)
	}
}

// token creates a token without a login.
func (f *fakeVault) token(ttl time.Duration, renewable bool) string {
	token := f.Hide("a secret", "hvs."+f.Word("a secret"))
	f.with(func() { f.add(token, ttl, renewable) })
	return token
}

// tokenFile writes a token into a file, and returns its path.
func (f *fakeVault) tokenFile(token string) string {
	f.rewrite("token", token)
	return f.file("token")
}

func (f *fakeVault) add(token string, ttl time.Duration, renewable bool) {
	made := &fakeToken{ttl: ttl, renewable: renewable}
	if ttl > 0 {
		made.ends, made.last = f.Now().Add(ttl), f.Now().Add(f.max)
	}
	f.tokens[token] = made
}

func (f *fakeVault) revokeAll() { f.with(func() { clear(f.tokens) }) }

// store returns a store for the server. c only needs a way to log in.
func (f *fakeVault) store(c secretstore.VaultConfig) host.Secrets {
	f.t.Helper()
	c.Clock = f.Now
	if c.Address == "" {
		c.Address = f.server.URL
	}
	if c.Transport == nil && c.CAFile == "" {
		c.CAFile = f.file("ca.pem")
	}
	store, err := secretstore.Vault(c)
	f.OutError("an error", err)
	testworld.Check(f.t, err)
	return store
}

// byAppRole returns a store that logs in with an AppRole.
func (f *fakeVault) byAppRole() host.Secrets {
	f.t.Helper()
	return f.store(secretstore.VaultConfig{AppRole: f.appRole()})
}

func (f *fakeVault) appRole() *secretstore.VaultAppRole {
	return &secretstore.VaultAppRole{RoleID: f.roleID, SecretIDFile: f.file("secret_id")}
}

func (f *fakeVault) kubernetes() *secretstore.VaultJWT {
	return &secretstore.VaultJWT{Role: "gateway", TokenFile: f.file("jwt")}
}

const appRoleLogin, renewal, lookup = "POST auth/approle/login", "POST auth/token/renew-self", "GET auth/token/lookup-self"

func (f *fakeVault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.state.Lock()
	defer f.state.Unlock()
	path, versioned := strings.CutPrefix(r.URL.Path, "/v1/")
	f.requests = append(f.requests, r.Method+" "+path)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case f.trouble != nil && f.trouble(w, r):
	case !versioned || r.Header.Get("X-Vault-Request") != "true":
		fail(w, http.StatusPreconditionFailed, "missing X-Vault-Request header")
	case r.Header.Get("X-Vault-Namespace") != f.namespace:
		fail(w, http.StatusForbidden, "permission denied")
	case strings.HasSuffix(path, "/login"):
		f.login(w, r, path)
	default:
		f.authenticated(w, r, path)
	}
}

func fail(w http.ResponseWriter, status int, errors ...string) {
	w.WriteHeader(status)
	if errors == nil {
		errors = []string{}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": errors})
}

func (f *fakeVault) login(w http.ResponseWriter, r *http.Request, path string) {
	var body map[string]string
	_ = json.NewDecoder(r.Body).Decode(&body)
	switch {
	case r.Method != http.MethodPost:
		fail(w, http.StatusMethodNotAllowed, "unsupported operation")
	case path == "auth/approle/login" && body["role_id"] == f.roleID && body["secret_id"] == f.secretID,
		path == "auth/kubernetes/login" && body["role"] == "gateway" && body["jwt"] == f.jwt:
		token := f.Hide("a secret", "hvs."+f.Word("a secret"))
		f.add(token, f.ttl, f.renewable)
		f.auth(w, token)
	case path == "auth/approle/login":
		fail(w, http.StatusBadRequest, "invalid role or secret ID: "+body["secret_id"])
	default:
		fail(w, http.StatusForbidden, "permission denied: "+body["jwt"])
	}
}

func (f *fakeVault) auth(w http.ResponseWriter, token string) {
	t := f.tokens[token]
	_ = json.NewEncoder(w).Encode(map[string]any{"request_id": "1", "lease_id": "", "data": nil, "auth": map[string]any{
		"client_token": token, "accessor": "x", "policies": []string{"default"}, "metadata": nil, "token_type": "service",
		"lease_duration": f.left(t), "renewable": t.renewable,
	}})
}

func (f *fakeVault) left(t *fakeToken) int64 {
	if t.ends.IsZero() {
		return 0
	}
	return int64(t.ends.Sub(f.Now()) / time.Second)
}

func (f *fakeVault) authenticated(w http.ResponseWriter, r *http.Request, path string) {
	token := r.Header.Get("X-Vault-Token")
	t := f.tokens[token]
	if t == nil || !t.ends.IsZero() && !f.Now().Before(t.ends) {
		fail(w, http.StatusForbidden, "permission denied: "+token) // Vault does not quote the token, another server might
		return
	}
	mount, rest, _ := strings.Cut(path, "/data/")
	switch {
	case path == f.denied || path == "auth/token/lookup-self" && t.silent:
		fail(w, http.StatusForbidden, "1 error occurred:\n\t* permission denied\n\n")
	case path == "auth/token/lookup-self" && r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"id": token, "ttl": f.left(t), "renewable": t.renewable}})
	case path == "auth/token/renew-self" && r.Method == http.MethodPost && !t.renewable:
		fail(w, http.StatusBadRequest, "lease is not renewable")
	case path == "auth/token/renew-self" && r.Method == http.MethodPost:
		if t.ends = f.Now().Add(t.ttl); t.ends.After(t.last) {
			t.ends = t.last
		}
		f.auth(w, token)
	case r.Method == http.MethodGet && strings.Contains(strings.Join(f.mounts, " "), mount):
		f.read(w, mount+"/"+rest)
	default:
		fail(w, http.StatusNotFound, fmt.Sprintf("no handler for route %q. route entry not found.", path))
	}
}

func (f *fakeVault) read(w http.ResponseWriter, path string) {
	fields, there := f.secrets[path]
	if !there {
		fail(w, http.StatusNotFound)
		return
	}
	metadata := map[string]any{"created_time": "2026-05-04T12:00:00Z", "deletion_time": "", "destroyed": false, "version": 3, "custom_metadata": nil}
	if fields == nil {
		metadata["deletion_time"] = "2026-05-04T13:00:00Z"
		w.WriteHeader(http.StatusNotFound)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"request_id": "1", "lease_id": "", "renewable": false, "lease_duration": 0, "warnings": nil, "auth": nil,
		"data": map[string]any{"data": fields, "metadata": metadata},
	})
}

// rewrite replaces the file of a credential.
func (f *fakeVault) rewrite(name, content string) {
	f.t.Helper()
	if err := os.Remove(f.file(name)); err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	write(f.t, f.file(name), []byte(content), 0o600)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClock() *testworld.Clock {
	return testworld.NewClock(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))
}

// canaries are random secrets, which no error may hold in any form: threats.md 18, 19 and 20.
type canaries struct {
	*testworld.Canaries
	t *testing.T
}

func newCanaries(t *testing.T) *canaries { return &canaries{testworld.NewCanaries(t), t} }

// want checks that a store has a secret.
func (c *canaries) want(store host.Secrets, name, value string) {
	c.t.Helper()
	got, err := store.Secret(c.t.Context(), name)
	c.OutError("an error", err)
	if err != nil || got != value {
		c.t.Fatalf("secret %q is %q, %v; want %q", name, got, err, value)
	}
}

// wantMissing checks that a store does not have a secret, and that the error contains words.
func (c *canaries) wantMissing(store host.Secrets, name, words string) {
	c.t.Helper()
	c.wantError(store, name, words, true)
}

// wantFailure checks that a lookup fails with another error than ErrSecretNotFound, which contains words.
func (c *canaries) wantFailure(store host.Secrets, name, words string) {
	c.t.Helper()
	c.wantError(store, name, words, false)
}

func (c *canaries) wantError(store host.Secrets, name, words string, missing bool) {
	c.t.Helper()
	got, err := store.Secret(c.t.Context(), name)
	c.OutError("an error", err)
	if err == nil || got != "" {
		c.t.Fatalf("secret %q is %q, %v; want an error", name, got, err)
	}
	if !strings.Contains(err.Error(), words) {
		c.t.Errorf("the error is %q, want it to say %q", err, words)
	}
	if errors.Is(err, host.ErrSecretNotFound) != missing {
		c.t.Errorf("the error is %q; is it ErrSecretNotFound? want %t", err, missing)
	}
}

type storeFunc func(context.Context, string) (string, error)

func (f storeFunc) Secret(ctx context.Context, name string) (string, error) { return f(ctx, name) }

// write replaces a file by renaming a new one.
func write(t *testing.T, name string, content []byte, mode os.FileMode) {
	t.Helper()
	fresh := filepath.Join(filepath.Dir(name), ".new")
	testworld.Check(t, os.WriteFile(fresh, content, 0o600))
	testworld.Check(t, os.Chmod(fresh, mode))
	testworld.Check(t, os.Rename(fresh, name))
}
