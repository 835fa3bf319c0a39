package login_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

func hashOf(token string) string { return fmt.Sprintf("sha256:%x\n", sha256.Sum256([]byte(token))) }

// Each token of the directory has its name, its rights and its tenant, and a file that was removed or changed counts at once (threats.md 583).
func TestNamedTokens(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) {
		t.Helper()
		testworld.Check(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	file("ci", hashOf("the token of ci 1")+"check\nread\n")
	file("support", hashOf("the token of support")+"read\npeople\ntenant:acme\n")
	file(".hidden", "no token")
	l := testworld.Must(login.New(login.Config{TokensDir: dir, Logger: slog.New(slog.DiscardHandler)}))(t)
	guarded := l.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := login.OperatorOf(r.Context())
		_, _ = fmt.Fprint(w, o.Name)
		for _, right := range []login.Right{login.Read, login.Test, login.Check, login.People, login.Act} {
			if o.Allows(right) {
				_, _ = fmt.Fprint(w, " ", right)
			}
		}
		_, _ = fmt.Fprint(w, " ", o.AllowsIn(login.People, "acme"), o.AllowsIn(login.People, "other"))
	}))
	get := func(path, token string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		bearer(token)(r)
		recorded := httptest.NewRecorder()
		guarded.ServeHTTP(recorded, r)
		return recorded.Code, recorded.Body.String()
	}
	for token, want := range map[string]string{
		"the token of ci 1": "ci read check false false", "the token of support": "support read people true false",
	} {
		if status, got := get("/", token); status != http.StatusOK || got != want {
			t.Errorf("%s: %d %s, want %s", token, status, got, want)
		}
		if status, _ := get("/debug/pprof/heap", token); status != http.StatusForbidden {
			t.Errorf("%s: a profile is answered %d", token, status)
		}
	}
	for _, short := range []string{"", "a short token"} { // threats.md 598
		file("mistake", hashOf(short)+"read\n")
		if status, _ := get("/", short); status != http.StatusUnauthorized {
			t.Errorf("the short token %q is answered %d", short, status)
		}
	}
	file("mistake", "sha256:"+strings.Repeat("0", 64)+"\nread\n")
	if status, _ := get("/", ""); status != http.StatusUnauthorized {
		t.Errorf("no token, and a hash of zeros: %d", status)
	}
	recorded := httptest.NewRecorder()
	guarded.ServeHTTP(recorded, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if recorded.Code == http.StatusServiceUnavailable {
		t.Error("a bad file keeps those who have no token yet from the login")
	}
	testworld.Check(t, os.Remove(filepath.Join(dir, "mistake")))
	testworld.Check(t, os.Remove(filepath.Join(dir, "ci")))
	if status, _ := get("/", "the token of ci 1"); status != http.StatusUnauthorized {
		t.Errorf("a token that was taken away: %d", status)
	}
	if status, _ := get("/", "sha256"); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", status)
	}
	for content, want := range map[string]string{
		"the token itself, in clear\nread\n": "does not belong there", hashOf("x") + "admin\n": `"admin" is no right`, hashOf("x"): "has no right", "": "first line",
		hashOf("x") + "test\ntenant:acme\n": "of any tenant", // threats.md 597
	} {
		file("bad", content)
		_, err := login.New(login.Config{TokensDir: dir})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "in clear") {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
	testworld.Check(t, os.Chmod(filepath.Join(dir, "support"), 0o666)) //nolint:gosec // the test is about such a mode
	testworld.Check(t, os.Remove(filepath.Join(dir, "bad")))
	if _, err := login.New(login.Config{TokensDir: dir}); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("a file that others may write: %v", err)
	}
}

// fragileRecords are those of a store that may fail.
type fragileRecords struct {
	statedb.Records
	down bool
}

func (f *fragileRecords) Record(ctx context.Context, name statedb.RecordName) (statedb.Record, bool, error) {
	if f.down {
		return statedb.Record{}, false, errors.New("down")
	}
	return f.Records.Record(ctx, name)
}

func (f *fragileRecords) DeleteRecord(ctx context.Context, name statedb.RecordName) error {
	if f.down {
		return errors.New("down")
	}
	return f.Records.DeleteRecord(ctx, name)
}

// shareSessions returns a store, and an option that lets it have the sessions.
func shareSessions(t *testing.T) (*fragileRecords, func(*guard, *login.Config)) {
	db := testworld.Must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), sqlite.Options{}))(t)
	state := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: db, Keys: [][]byte{[]byte("a state key of 32 bytes, for all")}}))(t)
	t.Cleanup(func() { _ = errors.Join(state.Close(context.Background()), db.Close()) })
	shared := &fragileRecords{Records: db}
	return shared, func(_ *guard, c *login.Config) { c.Sessions = &records.Store{Records: shared, State: state} }
}

// A session of all nodes ends at its time, also if somebody has made its row longer (threats.md 594).
func TestSessionEnd(t *testing.T) {
	shared, with := shareSessions(t)
	first := newGuard(t, with)
	second := newGuard(t, with, func(_ *guard, c *login.Config) { c.TokenFile = first.file })
	session := first.logIn()
	row := testworld.Must(shared.ListRecords(t.Context(), statedb.List{Kind: statedb.KindSession, Limit: 1}))(t)[0]
	row.Lifetime = 1000 * time.Hour
	testworld.Check(t, shared.PutRecords(t.Context(), row))
	second.gets("a session", http.StatusOK, cookie(session))
	second.now = second.now.Add(8 * time.Hour)
	second.gets("a session after its end", http.StatusUnauthorized, cookie(session))
}

// A session of one node is one of all nodes with a store, until it ends at any of them. While the store fails, its own node knows it.
func TestSessionOfAllNodes(t *testing.T) {
	shared, with := shareSessions(t)
	first := newGuard(t, with)
	second := newGuard(t, with, func(_ *guard, c *login.Config) { c.TokenFile = first.file })
	session := first.logIn()
	second.gets("a session of another node", http.StatusOK, cookie(session))
	shared.down = true
	first.gets("a session of this node, without the store", http.StatusOK, cookie(session))
	second.gets("a session of another node, without the store", http.StatusUnauthorized, cookie(session))
	shared.down = false
	second.do(http.MethodPost, "/logout", url.Values{}.Encode(), cookie(session))
	first.gets("a session that ended at another node", http.StatusUnauthorized, cookie(session))
	last := first.logIn() // threats.md 593: the answer says so, and the browser can end it later
	shared.down = true
	if got := second.do(http.MethodPost, "/logout", url.Values{}.Encode(), cookie(last)); got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Set-Cookie") != "" {
		t.Errorf("a logout without the store: %d %v", got.StatusCode, got.Header)
	}
	shared.down = false
	second.do(http.MethodPost, "/logout", url.Values{}.Encode(), cookie(last))
	first.gets("a session that ended later", http.StatusUnauthorized, cookie(last))
}
