package console_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/activity"
)

// manyConnectors returns a file with connectors. The first thousand have a secret each.
func manyConnectors(n int) string {
	var file strings.Builder
	file.WriteString("connectors:\n")
	for i := range n {
		auth := "{type: none}"
		if i < 1000 { // a file has 100,000 marks at most
			auth = fmt.Sprintf("{type: bearer, config: {token: \"{{ get_secret('s%d') }}\"}}", i)
		}
		fmt.Fprintf(&file, "  - {name: c%04d, url: 'https://api%d.example.com', auth: %s}\n", i, i, auth)
	}
	return file.String()
}

// manyWorld returns a world with connectors that are busy, of which each hundredth fails.
func manyWorld(t testing.TB, n int) *world {
	w := newWorld(t, manyConnectors(n))
	for i := range n {
		w.secrets[fmt.Sprintf("s%d", i)] = w.Word(fmt.Sprint("secret ", i))
		for minute := range 15 {
			e := gateway.Event{Connector: fmt.Sprintf("c%04d", i), ID: fmt.Sprintf("%032x", i), Status: 200, Began: w.clock.Now().Add(time.Duration(minute-14) * time.Minute), Total: time.Duration(i) * time.Millisecond}
			if i%100 == 7 {
				e.Status, e.Problem, e.Err, e.User, e.Tenant = 502, "upstream-failed", errors.New("dial tcp 10.0.0.1:443: connection refused"), fmt.Sprint("user-", minute), "acme"
			}
			w.recorder.Request(&e)
		}
	}
	return w
}

// The list shows those with trouble first, 50 on a page, and filters and sorts by links alone.
func TestManyConnectors(t *testing.T) {
	w := manyWorld(t, 300)
	delete(w.secrets, "s250")
	rows := func(path string, count int, first string) {
		t.Helper()
		page := w.get(path).body
		if got := strings.Count(page, `<th scope="row">`); got != count {
			t.Errorf("%s has %d rows, want %d", path, got, count)
		}
		if _, rest, _ := strings.Cut(page, `<th scope="row"><a href="/connectors/`); !strings.HasPrefix(rest, first+`"`) {
			t.Errorf("%s does not begin with %s, but with %.20s", path, first, rest)
		}
	}
	for !strings.Contains(plain(w.get("/").body), "trouble 4 all 300") { // the others are looked for with the next pages
	}
	w.shows("/", "trouble 4 all 300 quiet 0", "▲ failing since 10:06:30 c0007", "0 of 1 good", "15 × · 15 users of 1 tenant on a · last 00000000…")
	rows("/", 4, "c0250")
	rows("/?show=all", 50, "c0250")
	rows("/?show=all&sort=name", 50, "c0000")
	rows("/?show=all&sort=name&after=250", 50, "c0250")
	rows("/?show=all&sort=name&after=9999", 50, "c0250")
	rows("/?show=all&sort=name&after=x", 50, "c0000")
	rows("/?show=all&sort=p99", 50, "c0263") // of those within an eighth of the slowest, the first
	rows("/?q=API29", 11, "c0029")
	rows("/?q=API29&sort=p99", 11, "c0290")
	rows("/?show=trouble&q=c0107", 1, "c0107")
	rows("/?type=bearer&sort=name", 50, "c0000")
	w.shows("/?show=all&sort=name&after=100", "101–150 of 300 ‹ Previous Next ›")
	w.contains(w.get("/?show=all&sort=name&after=100"), `href="/?after=150&amp;show=all&amp;sort=name"`, `href="/?after=50&amp;show=all&amp;sort=name"`, `href="/?show=trouble&amp;sort=name"`)
	w.contains(w.get("/?q=<b>"), "None has that", "&lt;b&gt;")
	w.shows("/?show=quiet", "None.")
}

// A page of 5,000 connectors is small, whatever it shows. With its style and script it has less than 100 kB.
func TestLargeFile(t *testing.T) {
	w := manyWorld(t, 5_000)
	files := len(w.get("/console.css").body) + len(w.get("/console.js").body)
	for _, path := range []string{"/", "/?show=all", "/?show=all&sort=requests&after=4950", "/failures", "/secrets", "/nodes", "/connectors/c0007"} {
		if size := len(w.get(path).body); size+files > 100_000 {
			t.Errorf("%s has %d bytes, with its files %d", path, size, size+files)
		}
	}
}

// A list can show the connectors of one file of a directory.
func TestFilesOfConnectors(t *testing.T) {
	dir := t.TempDir()
	testworld.Check(t, os.Mkdir(filepath.Join(dir, "teams"), 0o700))
	for _, name := range []string{"a", "b"} {
		text := "connectors:\n  - {name: Of " + name + ", permalink: of-" + name + ", url: 'https://api.example.com', auth: {type: none}}\n"
		testworld.Check(t, os.WriteFile(filepath.Join(dir, "teams", "team-"+name+".yaml"), []byte(text), 0o600))
	}
	w := newWorld(t, "connectors_dir: "+filepath.Join(dir, "teams")+"\nconnectors:\n  - {name: Own, url: 'https://api.example.com', auth: {type: none}}\n")
	w.contains(w.get("/"), "<option>team-a.yaml</option>", "/connectors/own")
	w.shows("/", "of-b none · team-b.yaml")
	if page := w.get("/?file=team-b.yaml"); strings.Contains(page.body, "/connectors/of-a") || !strings.Contains(page.body, "/connectors/of-b") {
		t.Errorf("the page of one file is %s", page.body)
	}
}

// Pages are compressed for who takes that.
func TestCompressedPages(t *testing.T) {
	w := manyWorld(t, 100)
	for _, path := range []string{"/?show=all", "/console.css"} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody)
		r.Header.Set("Accept-Encoding", "gzip")
		compressed := w.ask(r)
		if compressed.header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s has the coding %q", path, compressed.header.Get("Content-Encoding"))
		}
		text := testworld.Must(io.ReadAll(testworld.Must(gzip.NewReader(strings.NewReader(compressed.body)))(t)))(t)
		if plain := w.get(path).body; string(text) != plain || len(compressed.body) > len(plain)/3 {
			t.Errorf("%s has %d bytes, %d compressed", path, len(plain), len(compressed.body))
		}
	}
}

// A connector is slow if its API takes more than half of the timeout, which is 15 seconds.
func TestSlow(t *testing.T) {
	w := newWorld(t, withToken)
	crm := testworld.Must(w.state.Set.Find("crm"))(t)
	answered := func(in time.Duration) {
		w.recorder.Request(&gateway.Event{Connector: "crm", Status: 200, UpstreamStatus: 200, Began: now, API: in, Served: crm})
	}
	answered(7 * time.Second)
	w.shows("/?show=all", "crm", "● working")
	answered(8 * time.Second)
	w.shows("/", "crm", "◐ slow")
	w.shows("/", "half of the timeout of 15s")
}

// Equal failures are one cause, with its users, tenants and examples.
func TestCauses(t *testing.T) {
	w := newWorld(t, withToken)
	w.failed(errors.New("key"), "sign", func(e *gateway.Event) { e.ID = strings.Repeat("1", 32) })
	for i := range 70 {
		w.clock.Advance(time.Second)
		w.failed(errors.New("fuel"), "plugin", func(e *gateway.Event) {
			e.ID, e.User, e.Tenant, e.Began = fmt.Sprintf("%032x", i), fmt.Sprint("user-", i), fmt.Sprint("tenant-", i%9), w.clock.Now()
		})
	}
	w.shows("/connectors/crm", "70 × 10:20:31 – 10:21:40 at request (plugin) more than 64 users of 9 tenants: tenant-0, tenant-1, tenant-2, tenant-3, tenant-4, tenant-5, tenant-6, tenant-7 and 1 more on a",
		"3 examples with the way", "1 × 10:20:30 at request (sign)", "The key cannot sign", "24 hours, the present one on the right: 70")
	w.shows("/failures", "crm 10:21:40 00000000… 70 70 more than 64 users of 9 tenants on a connector \"crm\" (): plugin: fuel", "crm 10:20:30 11111111… 1 1 on a The key")
	w.shows("/failures?connector=orders", "None.")
	w.shows("/failures?show=now", "All times", "crm 10:21:40")
	w.clock.Advance(20 * time.Minute)
	w.shows("/failures?show=now", "All times", "None.")
	w.shows("/failures", "Only the last 15 minutes", "crm 10:21:40")
	for _, path := range []string{"/", "/connectors/crm", "/failures"} {
		if page := w.get(path).body; strings.Contains(page, "user-6") {
			t.Errorf("%s names a user:\n%s", path, page)
		}
	}
}

// A failure is found by its request id, here or in the store.
func TestRequestID(t *testing.T) {
	w := newWorld(t, withToken)
	id := strings.Repeat("0a", 16)
	w.failed(errors.New("key"), "sign", func(e *gateway.Event) { e.ID = id })
	for text, want := range map[string]string{id: "/requests/" + id, " request_id=" + strings.ToUpper(id) + ",": "/requests/" + id, "a/b c": "/requests/a%2Fb%20c", "": "/requests/none"} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/requests", http.NoBody)
		r.URL.RawQuery = "id=" + strings.ReplaceAll(strings.ReplaceAll(text, " ", "+"), "=", "%3D")
		if got := w.ask(r); got.status != http.StatusSeeOther || got.header.Get("Location") != want {
			t.Errorf("%q leads to %d %s, want %s", text, got.status, got.header.Get("Location"), want)
		}
	}
	w.shows("/requests/"+id, "Request "+id, "failed at request (sign) 2026-05-04T10:20:30Z on a answered 502", "The key cannot sign", "✗ request (sign) failed", "failures with the same cause")
	unknown := strings.Repeat("f", 32)
	if got := w.get("/requests/" + unknown); got.status != http.StatusNotFound || !strings.Contains(plain(got.body), "there is no failure with this id in 7 days: the request succeeded") || !strings.Contains(got.body, "request_id="+unknown) {
		t.Errorf("the page of an unknown id is %d %s", got.status, plain(got.body))
	}
	w.find = func(_ context.Context, id string) (*activity.Failure, error) {
		if id == unknown {
			return &activity.Failure{RequestID: id, Connector: "crm", Node: "b", Place: "api", Cause: "of another node", Time: now}, nil
		}
		return nil, errors.New("connection refused")
	}
	w.shows("/requests/"+unknown, "on b", "of another node")
	if got := w.get("/requests/other"); got.status != http.StatusServiceUnavailable || !strings.Contains(plain(got.body), "the store does not answer: connection refused") {
		t.Errorf("without a store, the page is %d %s", got.status, plain(got.body))
	}
}

// Every page says how many nodes there are, and whether they use one file.
func TestNodes(t *testing.T) {
	w := newWorld(t, oneKey)
	w.note = "figures of this process only"
	head := func(path string) string {
		page, _, _ := strings.Cut(w.get(path).body, "<main")
		return plain("<main " + page)
	}
	if text := head("/secrets"); !strings.Contains(text, "a 1 node , one file") || !strings.Contains(text, w.note) {
		t.Errorf("the head of one node is %s", text)
	}
	second := activity.New(activity.Config{Clock: w.clock.Now, Node: "b"})
	for range 4 {
		second.Request(&gateway.Event{Connector: "orders", Status: 503, Began: now})
	}
	report := second.Report(w.clock.Now())
	report.Version, report.SHA256, report.Started, report.Offset, report.Store = "v2", "0123456789abcdef", now.Add(-time.Hour), -3*time.Minute, "does not answer"
	w.nodes, w.note = []*activity.Report{report}, ""
	if text := head("/secrets"); !strings.Contains(text, "a 2 nodes , ▲ they use 2 different files ▲ clock of b: 3 min behind") {
		t.Errorf("the head of two nodes is %s", text)
	}
	w.shows("/nodes", "b v2 01234567 1 h 4, 4 failed ▲ 3 min behind does not answer")
	w.shows("/connectors/orders", "▲ failing", "Fails on b")

	second = activity.New(activity.Config{Clock: w.clock.Now, Node: "b"})
	second.Request(&gateway.Event{Connector: "orders", Status: 200, Began: now})
	report = second.Report(w.clock.Now())
	report.Differences = []activity.Difference{{Connector: "orders", Members: []string{"paths", "url"}}}
	w.nodes = []*activity.Report{report}
	w.shows("/", "◐ another file orders", "On b, paths, url are defined otherwise.")
	w.shows("/nodes", "▲ other orders (paths, url)")
	w.shows("/connectors/orders", "on b , with 1 of the last minute's requests, paths, url is not that of most nodes")
}

// A secret of many connectors is one row.
func TestSharedSecret(t *testing.T) {
	w := newWorld(t, sharedBy(300))
	w.shows("/secrets", "shared ✗ the secret is not found 300 connectors", "The first 20: keywright plugin audit lists all.", "The next request has the new value")
	page := w.get("/secrets")
	if n := strings.Count(page.body, "/connectors/c"); n > 22 {
		t.Errorf("the page names %d connectors", n)
	}
}

// sharedBy returns a file with connectors that share a secret.
func sharedBy(n int) string {
	var file strings.Builder
	file.WriteString("connectors:\n")
	for i := range n {
		fmt.Fprintf(&file, "  - {name: C %d, permalink: c%d, url: 'https://api.example.com', auth: {type: bearer, config: {token: \"{{ get_secret('shared') }}\"}}}\n", i, i)
	}
	return file.String()
}

func BenchmarkLargeFile(b *testing.B) {
	w := manyWorld(b, 5_000)
	for _, path := range []string{"/", "/?show=all", "/failures", "/secrets"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				w.console.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody))
			}
		})
	}
}
