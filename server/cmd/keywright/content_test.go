package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/client"
	"github.com/keywright/keywright/server/internal/postgrestest"
)

// serving is a running process of keywright content serve, or of keywright serve.
type serving struct {
	t                  *testing.T
	command            *exec.Cmd
	callers, operators string
	said               chan string // the rest of its stdout, after its end
}

// serveContent starts a server of content, and waits until it listens.
func serveContent(t *testing.T, program string, env []string, args ...string) *serving {
	t.Helper()
	return startServing(t, program, env, append([]string{"content", "serve"}, args...)...)
}

// startServing starts a server with a command, and waits until it listens.
func startServing(t *testing.T, program string, env []string, args ...string) *serving {
	t.Helper()
	s := &serving{t: t, said: make(chan string, 1)}
	s.command = exec.Command(program, append(args, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")...)
	s.command.Env = append(os.Environ(), env...)
	out := testworld.Must(s.command.StdoutPipe())(t)
	var errs strings.Builder
	s.command.Stderr = &errs
	testworld.Check(t, s.command.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		name, url, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "callers":
			s.callers = strings.TrimSuffix(strings.TrimSuffix(url, "/articles"), "/connectors/")
		case "operators":
			s.operators = strings.TrimSuffix(url, "/readyz")
		}
		if s.operators != "" {
			break
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, out)
		_ = s.command.Wait()
		s.said <- errs.String()
	}()
	t.Cleanup(func() { _ = s.command.Process.Kill() })
	if s.operators == "" {
		t.Fatalf("it does not listen: %s", <-s.said)
	}
	return s
}

// end sends SIGTERM, and returns what the server wrote to stderr.
func (s *serving) end() string {
	s.t.Helper()
	testworld.Check(s.t, s.command.Process.Signal(syscall.SIGTERM))
	said := <-s.said
	if code := s.command.ProcessState.ExitCode(); code != exitOK {
		s.t.Errorf("exit %d: %s", code, said)
	}
	return said
}

func (s *serving) get(path string, headers ...string) (status int, body string) {
	s.t.Helper()
	r := testworld.Must(http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.callers+path, nil))(s.t)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response := testworld.Must(http.DefaultClient.Do(r))(s.t)
	defer response.Body.Close()
	text := testworld.Must(io.ReadAll(response.Body))(s.t)
	return response.StatusCode, string(text)
}

// Each command that content serve --demo suggests works.
func TestContentServeDemo(t *testing.T) {
	out, errs, end := serveUntil(t, noEnvironment, "Ctrl-C", "content", "serve", "--demo")
	lines := 0
	for line := range strings.Lines(out.text.String()) {
		if !strings.HasPrefix(line, "  curl ") {
			continue
		}
		lines++
		if strings.Contains(line, "resolveEmbeds") {
			continue // sends a request to a provider
		}
		want := http.StatusOK
		if strings.Contains(line, "curl -i") {
			want = http.StatusNotFound
		}
		if status, _, answer := curl(t, strings.ReplaceAll(line, "'", "")); status != want {
			t.Errorf("%s is answered %d: %s", strings.TrimSpace(line), status, answer)
		}
	}
	if lines != 8 {
		t.Errorf("%d lines to try: %s", lines, out.text.String())
	}
	if code := end(); code != exitOK || besidesWaiting(errs.text.String()) != "" {
		t.Errorf("exit %d, stderr %s", code, errs.text.String())
	}
}

// An authenticated caller can read. With the permission moderate and a moderatorId, a caller can also read hidden content.
func TestContentServe(t *testing.T) {
	program := build(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		testworld.Check(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const readerKey, moderatorKey = "reader-Vl2bq8ZxJ0c5oTn7", "moderator-B0InW6eXk2rVtQ"
	write("reader", readerKey)
	write("moderator", moderatorKey+"\n")
	records := write("records.ndjson", `{"type":"productUpdate","id":"1","title":"One"}
{"type":"productUpdate","id":"2","trashed":true}
{"type":"moderator","id":"m1"}
`)
	db := "sqlite:" + filepath.Join(dir, "content.db")
	if code, out, errs := keywright(t.Context(), "content", "import", "--db", db, records); code != exitOK {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	s := serveContent(t, program, []string{contentDB + "=" + db}, "--base", "/community/v1", "--secrets-dir", dir, "--key", "reader", "--moderator-key", "moderator", "--access-log")
	if !strings.HasSuffix(s.callers, "/community/v1") {
		t.Errorf("the URL is %s", s.callers)
	}
	for _, c := range []struct {
		path, key string
		want      int
	}{
		{"/productUpdates/1", "", 401},
		{"/productUpdates/1", "reader-Vl2bq8ZxJ0c5oTn8", 401},
		{"/productUpdates/1", readerKey, 200},
		{"/productUpdates/2", readerKey, 404},
		{"/productUpdates/2?moderatorId=m1", readerKey, 404},
		{"/productUpdates/2?moderatorId=m1", moderatorKey, 200},
		{"/productUpdates/2?moderatorId=m2", moderatorKey, 404},
		{"/openapi.json", "", 200},
	} {
		if status, body := s.get(c.path, "X-API-Key", c.key); status != c.want {
			t.Errorf("%s with %q: %d %s", c.path, c.key, status, body)
		}
	}
	base := s.callers
	for _, path := range []string{"/healthz", "/readyz"} {
		s.callers = s.operators
		if status, body := s.get(path); status != http.StatusOK {
			t.Errorf("%s: status = %d body = %s", path, status, body)
		}
	}
	if _, page := s.get("/metrics"); !strings.Contains(page, `keywright_content_requests_total{operation="productUpdate",problem="not-found",status="404"} 3`) {
		t.Errorf("the metrics are %s", page)
	}
	s.callers = base
	said := s.end()
	if strings.Count(said, `"msg":"request"`) != 8 || !strings.Contains(said, `"caller":"moderator"`) {
		t.Errorf("the log is %s", said)
	}
	for _, private := range []string{readerKey, moderatorKey, "m1"} {
		if strings.Contains(said, private) {
			t.Errorf("the log has %q: %s", private, said)
		}
	}
}

// Without keys and tokens, callers must be on this machine, and pages of other sites must not call from a browser.
// specification.md "open on loopback only".
func TestContentServeWithoutKeys(t *testing.T) {
	db := "sqlite:" + filepath.Join(t.TempDir(), "content.db")
	if code, _, errs := keywright(t.Context(), "content", "import", "--db", db, "/dev/null"); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	exitsWith(t, exitFailure, "have to prove themselves", "content", "serve", "--db", db, "--listen", "0.0.0.0:0", "--admin", "127.0.0.1:0")
	exitsWith(t, exitFailure, "operators from other machines have to log in: name a file with a token in --admin-token-file", "content", "serve", "--db", db, "--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0") // threats.md 156
	s := serveContent(t, build(t), nil, "--db", db)
	for name, c := range map[string]struct {
		headers []string
		want    int
	}{
		"here":                           {nil, 200},
		"a page of another site":         {[]string{"Origin", "https://evil.example"}, 403},
		"a page's request for a picture": {[]string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		if status, body := s.get("/articles", c.headers...); status != c.want {
			t.Errorf("%s: status = %d body = %s", name, status, body)
		}
	}
	r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.callers+"/articles", nil))(t)
	r.Host = "evil.example" // whose address is that of the loopback now
	response := testworld.Must(http.DefaultClient.Do(r))(t)
	if _ = response.Body.Close(); response.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("under another name: %d", response.StatusCode)
	}
	s.end()
}

func TestContentServeMisuse(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", exitUsage, "without --db"},
		{"--demo --db sqlite:x", exitUsage, "leave --db out"},
		{"--demo --jwks keys.json", exitUsage, "go together"},
		{"--demo --moderate-claim scope=x", exitUsage, "is about tokens"},
		{"--demo --jwks k --issuer i --audience a --moderate-claim scope", exitUsage, "CLAIM=VALUE"},
		{"--demo --tls-cert c", exitUsage, "go together"},
		{"--demo --listen 8090", exitUsage, "--listen wants host:port"},
		{"--demo --admin localhost", exitUsage, "--admin wants host:port"},
		{"--demo --jwks http://login.test/jwks --issuer i --audience a", exitFailure, "bearer tokens: jwt.jwks_url is plain http"},
		{"--demo --key none", exitFailure, `API key "none"`},
		{"--demo --base community", exitUsage, "--base: this is no path such as /community/v1"},
		{"--db sqlite:none.db", exitFailure, "there is no database none.db"},
		{"--db mysql://localhost/x", exitFailure, "no URL of a database"},
	} {
		exitsWith(t, c.code, c.want, append([]string{"content", "serve"}, strings.Fields(c.args)...)...)
	}
}

// Two processes serve one PostgreSQL database while a third one imports. Each page shows one state of the database, and no
// request fails.
func TestServeWhileImporting(t *testing.T) {
	const rounds, articles = 25, 1000 // the number of records that the importer writes at once
	program, db := build(t), postgrestest.Database(t)
	file := filepath.Join(t.TempDir(), "rounds.ndjson")
	var text strings.Builder
	for round := range rounds {
		for i := range articles {
			minute := i
			if round%2 == 1 {
				minute = articles - i // in reverse order
			}
			fmt.Fprintf(&text, `{"type":"article","id":"%d","title":"%d","lastActivityAt":"2026-03-01T%02d:%02d:00Z"}`+"\n", i, round, minute/60, minute%60)
		}
	}
	testworld.Check(t, os.WriteFile(file, []byte(text.String()), 0o600))
	imports := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), program, append([]string{"content", "import", "--db", db}, args...)...)
		c.Stderr = os.Stderr
		return c
	}
	first := imports("-")
	first.Stdin = strings.NewReader(strings.Join(strings.SplitAfterN(text.String(), "\n", articles+1)[:articles], ""))
	testworld.Check(t, first.Run())
	servers := []*serving{serveContent(t, program, nil, "--db", db), serveContent(t, program, nil, "--db", db)}
	var imported atomic.Bool
	var all sync.WaitGroup
	seen, pages := map[string]bool{}, 0
	var mu sync.Mutex
	for _, s := range servers {
		for page := range 2 {
			all.Go(func() {
				c, err := client.New(s.callers, nil)
				if err != nil {
					t.Error(err)
					return
				}
				for last := false; !last; {
					last = imported.Load()
					got, err := c.Articles(t.Context(), page*9+1, 100)
					if err != nil {
						t.Error(err)
						return
					}
					if wrong := torn(got); wrong != "" {
						t.Errorf("page %d is torn: %s", page*9+1, wrong)
						return
					}
					mu.Lock()
					seen[got[0].Title] = true
					pages++
					mu.Unlock()
				}
			})
		}
	}
	testworld.Check(t, imports(file).Run())
	imported.Store(true)
	all.Wait()
	for _, s := range servers {
		var last struct{ Result []content.Article }
		_, body := s.get("/articles?pageSize=1")
		if err := json.Unmarshal([]byte(body), &last); err != nil || last.Result[0].Title != fmt.Sprint(rounds-1) {
			t.Errorf("in the end: %s", body)
		}
		if said := s.end(); besidesWaiting(said) != "" {
			t.Errorf("the log is %s", said)
		}
	}
	if len(seen) < 3 {
		t.Errorf("%d pages are of only %d of %d states: nobody read during the import", pages, len(seen), rounds)
	}
}

// torn returns why a page of 100 articles does not show one state, or "".
func torn(page []content.Article) string {
	if len(page) != 100 {
		return fmt.Sprintf("it has %d articles", len(page))
	}
	for i, a := range page {
		if a.Title != page[0].Title {
			return "it has articles of rounds " + page[0].Title + " and " + a.Title
		}
		if i > 0 && a.LastActivityAt >= page[i-1].LastActivityAt {
			return "its order is wrong at " + a.ID
		}
	}
	return ""
}

// scratch is a directory that all tests share, with the binary and with the code of plugins that commands have compiled.
var scratch string

// TestMain keeps commands of tests out of the cache of who runs them.
func TestMain(m *testing.M) {
	os.Exit(testworld.InSharedDir(&scratch, func() int {
		if err := os.Setenv(codeCacheVariable, filepath.Join(scratch, "code")); err != nil {
			panic(err)
		}
		return postgrestest.Main(m)
	}))
}

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
