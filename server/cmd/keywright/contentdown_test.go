package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
)

// While PostgreSQL is down, the answer is 503 with Retry-After, and /readyz fails. When it is up again, so is the interface,
// without a restart: threats.md 192.
func TestContentWithoutDatabase(t *testing.T) {
	database := testworld.Must(postgrestest.Start())(t)
	t.Cleanup(func() { _ = database.Stop() })
	address := testworld.Must(database.Database(t.Context()))(t)
	importing := strings.NewReader(`{"type":"article","id":"1"}` + "\n" + `{"type":"moderator","id":"m"}`)
	if code := run(t.Context(), []string{"content", "import", "--db", address, "-"}, importing, io.Discard, io.Discard, noEnvironment); code != exitOK {
		t.Fatalf("exit %d", code)
	}
	s := serveContent(t, build(t), nil, "--db", address)
	paths := []string{"/articles", "/articles/1/replies/1", "/productUpdates/1", "/productUpdates/1?moderatorId=m"}
	ask := func(url string) (status int, header http.Header) {
		t.Helper()
		status, header, _ = curl(t, url)
		return status, header
	}
	if got, _ := ask(s.callers + "/articles"); got != http.StatusOK {
		t.Fatalf("before: %d", got)
	}
	if err := database.Restart(func() {
		for range 2 {
			for _, path := range paths {
				if got, header := ask(s.callers + path); got != http.StatusServiceUnavailable || header.Get("Retry-After") != "5" || header.Get("Cache-Control") != "no-store" {
					t.Errorf("%s: got = %d, header = %v", path, got, header)
				}
			}
		}
		if _, body := s.get("/articles"); !strings.Contains(body, `"urn:keywright:problem:store-unavailable"`) || strings.Contains(body, "postgres") {
			t.Errorf("the answer is %s", body)
		}
		if got, _ := ask(s.operators + "/readyz"); got != http.StatusServiceUnavailable {
			t.Errorf("/readyz: %d", got)
		}
		if got, _ := ask(s.operators + "/healthz"); got != http.StatusOK {
			t.Errorf("/healthz: %d", got)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{200, 404, 404, 404} {
		if got, _ := ask(s.callers + paths[i]); got != want {
			t.Errorf("%s afterwards: %d", paths[i], got)
		}
	}
	if got, _ := ask(s.operators + "/readyz"); got != http.StatusOK {
		t.Errorf("/readyz afterwards: %d", got)
	}
	if said := s.end(); !strings.Contains(said, "the database is not available") {
		t.Errorf("the log is %s", said)
	}
}
