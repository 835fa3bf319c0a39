package console_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/login"
)

// post sends a form to the page of connections.
func (w *world) post(form url.Values, change func(*http.Request)) answer {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost/connections", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if change != nil {
		change(r)
	}
	return w.ask(r)
}

// connect connects an account of a user to the calendar.
func (w *world) connect(user string) {
	w.t.Helper()
	u := host.User{ID: user, TenantID: "acme", Email: user + "@acme.test"}
	testworld.Check(w.t, w.connections.Connected(w.t.Context(), u, "calendar", gateway.Account{Label: user + "@calendar.test", Since: now}))
}

// The page counts connections by connector, names nobody, and finds those of a user whom a form names exactly. Each look is an act.
func TestConnectionsShown(t *testing.T) {
	w := newWorld(t, several)
	w.connect("ann")
	w.connect("bob<script>")
	page := w.get("/connections")
	w.contains(page, `<a href="/connectors/calendar">calendar</a>`)
	w.shows("/connections", "calendar 2 0 0 0")
	if strings.Contains(page.body, "ann") || strings.Contains(page.body, "acme") {
		t.Errorf("the page names a user:\n%s", page.body)
	}
	w.contains(w.post(url.Values{"user": {"ann"}}, nil), "1 found", "ann@calendar.test")
	w.contains(w.post(url.Values{"email": {"ann@acme.test"}}, nil), "1 found")
	w.contains(w.post(url.Values{"tenant": {"acme"}}, nil), "2 found", "bob&lt;script&gt;")
	w.contains(w.post(url.Values{"user": {"an"}}, nil), "0 found")
	w.shows("/acts", "local 192.0.2.1 look connections done")
	if got := w.post(url.Values{"user": {"ann"}}, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }).status; got != http.StatusForbidden { // threats.md 151
		t.Errorf("a form of another site is answered %d", got)
	}
	if got := w.post(url.Values{"user": {strings.Repeat("x", 3000)}}, nil).status; got != http.StatusBadRequest {
		t.Errorf("a long ID is answered %d", got)
	}
}

// The end of a connection is one of the acts, and the connection is gone.
func TestConnectionEnds(t *testing.T) {
	w := newWorld(t, several)
	w.connect("ann")
	id := regexp.MustCompile(`name="end" value="([0-9a-f]{32})"`).FindStringSubmatch(w.post(url.Values{"user": {"ann"}}, nil).body)
	if id == nil {
		t.Fatal("the page has no form to end the connection")
	}
	w.contains(w.post(url.Values{"user": {"ann"}, "end": {id[1]}}, nil), "The connection of ann to calendar has ended.", "0 found")
	w.shows("/acts?act=end", "local 192.0.2.1 end calendar "+id[1]+" done")
	if got := w.post(url.Values{"end": {id[1]}}, nil).status; got != http.StatusNotFound {
		t.Errorf("a second end is answered %d", got)
	}
	if page := w.get("/acts").body; strings.Contains(page, "ann") {
		t.Errorf("the acts name a user:\n%s", page)
	}
}

// Acts are listed newest first, page by page, and one without an outcome says so.
func TestActsShown(t *testing.T) {
	w := newWorld(t, oneKey)
	for i := range 60 {
		w.clock.Advance(time.Second)
		w.acts.Note(t.Context(), acts.Act{Who: "ci", Act: "check", Target: strings.Repeat("x", i%2), Outcome: acts.Done})
	}
	var page answer
	testworld.Check(t, w.acts.Do(t.Context(), acts.Act{Who: "<b>", Act: "reload"}, func() error {
		page = w.get("/acts")
		return nil
	}))
	w.contains(page, "&lt;b&gt;", "not known: the process ended", "Next ›")
	next := regexp.MustCompile(`href="(/acts\?after=[^"]+)"`).FindStringSubmatch(page.body)
	if next == nil {
		t.Fatal("there is no next page")
	}
	if rows := strings.Count(w.get(next[1]).body, "<tr>"); rows != 1+11 {
		t.Errorf("the second page has %d rows", rows)
	}
}

// A page for an operator without the right people names no user and no tenant, neither in acts nor in causes (threats.md 591).
func TestPagesWithoutPeople(t *testing.T) {
	w := newWorld(t, withToken)
	w.failed(errors.New("the secret tenants/acme/crm is missing, also in users/ann/crm"), "template", func(e *gateway.Event) {
		e.ID, e.Tenant, e.User = strings.Repeat("0a", 16), "acme", "ann"
	})
	w.failed(errors.New("lookup blue.example.com: no such host"), "", func(e *gateway.Event) {
		e.Problem, e.Host, e.Tenant = "upstream-failed", "blue.example.com", "acme"
	})
	w.acts.Note(t.Context(), acts.Act{Who: "ann", Address: "192.0.2.9", Act: "set", Target: "tenant acme/secret crm", Outcome: acts.Done})
	dir, token := t.TempDir(), "a token that may read, and no more"
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "ci"), fmt.Appendf(nil, "sha256:%x\nread\n", sha256.Sum256([]byte(token))), 0o600))
	guarded := testworld.Must(login.New(login.Config{TokensDir: dir, Logger: slog.New(slog.DiscardHandler)}))(t).Guard(w.console)
	for _, path := range []string{"/", "/connectors/crm", "/failures", "/requests/" + strings.Repeat("0a", 16), "/acts"} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		page := httptest.NewRecorder()
		guarded.ServeHTTP(page, r)
		for _, name := range []string{"acme", "ann", "blue", "192.0.2.9"} {
			if text := plain(page.Body.String()); page.Code != http.StatusOK || regexp.MustCompile(`\b`+name+`\b`).MatchString(text) {
				t.Errorf("%s is %d and names %s: %s", path, page.Code, name, text)
			}
		}
	}
}
