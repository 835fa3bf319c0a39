package bench

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/httpapi"
	"github.com/keywright/keywright/server/content/importer"
	"github.com/keywright/keywright/server/content/postgres"
	"github.com/keywright/keywright/server/content/sqlite"
	"github.com/keywright/keywright/server/internal/serve/httpserver"
)

// A contentServer is a database with a community, and the server that "keywright content serve" runs for it, without its log and metrics. Both are created
// for the first row that needs them, and end with the test of all rows.
type contentServer struct {
	testing.TB
	engine    string
	community community
	// run fills the database, starts the server, and returns its URL. The note describes how the database was filled.
	run  func() (address string)
	note string
}

const (
	pageSize   = 25
	writeBatch = 1000 // records, as in the importer
)

// newContents returns the servers of both databases.
func newContents(t testing.TB, articles int) (all []*contentServer) {
	for _, engine := range engines {
		s := &contentServer{TB: t, engine: engine, community: community{articles}}
		s.run = sync.OnceValue(func() string { return s.serve(s.fill()) })
		all = append(all, s)
	}
	return all
}

// openContent opens the content in a database.
func openContent(t testing.TB, address string) content.Database {
	t.Helper()
	if file, ok := strings.CutPrefix(address, "sqlite:"); ok {
		return testworld.Must(sqlite.Open(t.Context(), file))(t)
	}
	return testworld.Must(postgres.Open(t.Context(), address, postgres.Options{}))(t)
}

// settle does the maintenance that a server would do some minutes after a database was filled, and returns the size of the
// database in bytes. The database must not be open.
func settle(t testing.TB, address string) (octets float64) {
	t.Helper()
	if file, ok := strings.CutPrefix(address, "sqlite:"); ok {
		info := testworld.Must(os.Stat(file))(t)
		return float64(info.Size())
	}
	db := testworld.Must(sql.Open("pgx", address))(t)
	defer db.Close()
	for _, statement := range []string{`VACUUM ANALYZE`, `CHECKPOINT`} {
		testworld.Must(db.ExecContext(t.Context(), statement))(t)
	}
	testworld.Check(t, db.QueryRowContext(t.Context(), `SELECT pg_database_size(current_database())`).Scan(&octets))
	return octets
}

// fill creates and fills a database, and returns its address.
func (server *contentServer) fill() (address string) {
	_, _ = fmt.Fprintf(server.Output(), "%s: writing %s articles and what belongs to them\n", server.engine, thousands(server.community.articles))
	address = newDatabase(server, server.engine)
	store := openContent(server, address)
	begin, written := time.Now(), 0
	for records := range batches(server.community, writeBatch) {
		testworld.Check(server, store.Write(server.Context(), records))
		written += len(records)
	}
	took := time.Since(begin)
	testworld.Check(server, store.Close())
	server.note = fmt.Sprintf("%s: %s records were written in %.0f s. With what belongs to them, a million articles take %.0f MiB.",
		server.engine, thousands(written), took.Seconds(), settle(server, address)/(1<<20)*1e6/float64(server.community.articles))
	_, _ = fmt.Fprintln(server.Output(), server.note)
	return address
}

// batches returns the records of a community in batches of size.
func batches(c community, size int) iter.Seq[[]content.Record] {
	return func(yield func([]content.Record) bool) {
		var batch []content.Record
		for record := range c.records() {
			if batch = append(batch, record); len(batch) == size {
				if !yield(batch) {
					return
				}
				batch = nil
			}
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

// serve runs the server of a database, and checks that the pages that are measured are full and have no article twice.
func (server *contentServer) serve(database string) (address string) {
	store := openContent(server, database)
	server.Cleanup(func() { testworld.Check(server, store.Close()) })
	config := httpserver.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Handler: testworld.Must(httpapi.New(httpapi.Config{Store: store}))(server), Local: true,
		Logger: slog.New(slog.DiscardHandler),
	}
	address, _, _ = testworld.Serve(server, &config.Started, func(ctx context.Context) error { return httpserver.Run(ctx, config) })
	seen := map[string]bool{}
	for _, number := range []int{1, server.lastPage() / 2, server.lastPage()} {
		var body bytes.Buffer
		testworld.Check(server, fetch(server.Context(), newClient(server), page(address, number)(), &body))
		var answer struct{ Result []content.Article }
		testworld.Check(server, json.Unmarshal(body.Bytes(), &answer))
		for _, article := range answer.Result {
			seen[article.ID] = true
		}
	}
	if len(seen) != 3*pageSize {
		server.Fatalf("three pages have %d articles", len(seen))
	}
	return address
}

// lastPage returns the number of the last page.
func (server *contentServer) lastPage() int { return server.community.articles / pageSize }

func page(address string, number int) target {
	return always(address + "/articles?page=" + strconv.Itoa(number))
}

// contentRows returns the rows of the content interface: the time of a page by its position, that of the first page,
// and imports. Pages are read over HTTP, with one client, in the server's process.
func contentRows(servers []*contentServer) (all []row) {
	for _, c := range servers {
		name := func(number int) string {
			return fmt.Sprintf("%s: page %s of %d", c.engine, thousands(number), pageSize)
		}
		for _, number := range []int{c.lastPage() / 2, c.lastPage()} {
			all = append(all, row{
				work: name(number) + ": p50", against: "page 1", unit: nanoseconds, goal: 3,
				measure: func(s session) result {
					return s.byTurns(1, [2]target{page(c.run(), number), page(c.run(), 1)}, load.p50)
				},
			})
		}
		all = append(all, row{
			work: name(1) + ": p99 ÷ 5 ms", against: "5 ms", unit: nanoseconds, goal: 1,
			measure: func(s session) result {
				client, first := newClient(s), page(c.run(), 1)
				return s.bound(float64(5*time.Millisecond), func() float64 { return s.drive(client, first, 1, s.slice).p99() })
			},
		}, c.importRow())
		for _, number := range []int{1, c.lastPage() / 2, c.lastPage()} {
			all = append(all, row{work: name(number), measure: func(s session) result { return c.figures(s, page(c.run(), number)) }})
		}
		all = append(all, row{work: c.engine + ": one product update", measure: func(s session) result {
			return c.figures(s, func() string { return c.run() + "/productUpdates/" + updateID(rand.IntN(c.community.updates())) })
		}}, row{work: c.engine + ": one reply", measure: func(s session) result {
			return c.figures(s, func() string {
				article, reply := c.community.replyOf(rand.IntN(c.community.articles))
				return c.run() + "/articles/" + article + "/replies/" + reply
			})
		}})
	}
	return all
}

// figures measures requests without a comparison.
func (server *contentServer) figures(s session, to target) result {
	client := newClient(s)
	to() // runs the server
	var p50, p99, busy []float64
	for range s.count {
		runtime.GC()
		one, many := s.drive(client, to, 1, s.slice), s.drive(client, to, loadClients, s.slice)
		p50, p99, busy = append(p50, one.p50()), append(p99, one.p99()), append(busy, float64(time.Second)/many.each())
	}
	return result{p50: median(p50), p99: median(p99), busy: median(busy), note: server.note}
}

// importRow returns the row for importing a file into an empty database. The goal is a minute for 100,000 records. There are three
// rounds at most, because each is long.
func (server *contentServer) importRow() row {
	records := server.community.articles / 10
	most := float64(time.Minute) * float64(records) / 100_000
	bound := nanoseconds.format(most)
	return row{
		work: fmt.Sprintf("import of %s records into %s: time ÷ %s", thousands(records), server.engine, bound), against: bound, unit: nanoseconds, goal: 1,
		measure: func(s session) result {
			s.count = min(s.count, 3)
			path := filepath.Join(s.TempDir(), "records.ndjson")
			writeRecords(s, path, server.community, records)
			measured := s.bound(most, func() float64 { return importTime(s, server.engine, path, records) })
			measured.note = fmt.Sprintf("%s records a second, in %d rounds.", thousands(int(float64(records)/measured.ours*float64(time.Second))), s.count)
			return measured
		},
	}
}

// importTime imports a file into a new database. It returns the time of the import alone.
func importTime(s session, engine, path string, records int) float64 {
	store := openContent(s, newDatabase(s, engine))
	defer store.Close()
	file := testworld.Must(os.Open(path))(s)
	defer file.Close()
	begin := time.Now()
	imported, err := importer.Import(s.Context(), store, path, file, importer.Options{})
	took := time.Since(begin)
	if err != nil || imported.Written() != records || imported.Problems > 0 {
		s.Fatalf("of %d records, %d were imported, with %d problems, err = %v", records, imported.Written(), imported.Problems, err)
	}
	return float64(took)
}

// writeRecords writes the first records of a community, as NDJSON.
func writeRecords(t testing.TB, path string, c community, records int) {
	t.Helper()
	file := testworld.Must(os.Create(path))(t)
	buffered := bufio.NewWriter(file)
	lines, n := json.NewEncoder(buffered), 0
	for record := range c.records() {
		if n++; n > records {
			break
		}
		testworld.Check(t, lines.Encode(importable(record)))
	}
	testworld.Check(t, buffered.Flush())
	testworld.Check(t, file.Close())
}

// importable returns a record with its type, in the form that the importer reads.
func importable(r content.Record) any {
	type typed struct {
		Type      string `json:"type"`
		ArticleID string `json:"articleId,omitempty"`
	}
	switch {
	case r.ProductUpdate != nil:
		return struct {
			typed
			*content.ProductUpdate
		}{typed{Type: "productUpdate"}, r.ProductUpdate}
	case r.Article != nil:
		return struct {
			typed
			*content.Article
		}{typed{Type: "article"}, r.Article}
	}
	return struct {
		typed
		*content.Reply
	}{typed{"reply", r.ArticleID}, r.Reply}
}

var crawls = flag.Int("crawls", 20, "the crawls of each database, while 200 replies a second arrive")

// A crawl by cursor sees each article that stays exactly once, while replies arrive and articles come and go.
func TestCrawls(t *testing.T) {
	for _, c := range newContents(t, 300) {
		t.Run(c.engine, func(t *testing.T) {
			c.TB = t
			address := c.fill()
			articles, _ := start(t, keywright(t, "content", "serve", "--db", address, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
			store := openContent(t, address)
			defer store.Close()
			writing, end := context.WithCancel(t.Context())
			replies := make(chan int, 1)
			go func() { replies <- reply(writing, store, c.community.articles) }()
			began, wrong := time.Now(), 0
			for n := range *crawls {
				seen := crawl(t, articles)
				for i := range c.community.articles {
					if id := articleID(i); seen[id] != 1 {
						wrong++
						t.Errorf("crawl %d has seen article %s %d times", n, id, seen[id])
					}
				}
			}
			took := time.Since(began)
			end()
			written := <-replies
			if written == 0 {
				t.Error("no reply was written")
			}
			t.Logf("%d crawls of %d articles in %.0f s, while %d replies arrived: %d times an article was not seen exactly once",
				*crawls, c.community.articles, took.Seconds(), written, wrong)
		})
	}
}

// crawl follows the cursors of articles, and counts how often it sees each.
func crawl(t *testing.T, articles string) (seen map[string]int) {
	t.Helper()
	seen = map[string]int{}
	origin, _, _ := strings.Cut(articles, "/articles")
	for next := articles + "?cursor="; next != ""; {
		response := testworld.Must(http.Get(next))(t)
		var page struct{ Result []content.Article }
		err := json.NewDecoder(response.Body).Decode(&page)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: response.Status = %s, err = %v", next, response.Status, err)
		}
		for _, a := range page.Result {
			seen[a.ID]++
		}
		path, found := strings.CutSuffix(strings.TrimPrefix(response.Header.Get("Link"), "<"), `>; rel="next"`)
		if next = origin + path; !found {
			next = ""
		}
	}
	return seen
}

// reply writes 200 replies a second, and with each an article that comes or goes, until ctx ends. It returns their number.
func reply(ctx context.Context, store content.Writer, articles int) (written int) {
	tick := time.NewTicker(time.Second / 200)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return written
		case now := <-tick.C:
			var records []content.Record
			for i := written; i < int(now.Sub(began)/(time.Second/200)); i++ {
				records = append(records,
					content.Record{Reply: &content.Reply{ID: fmt.Sprint("late-", i), RepliedAt: timestamp(now.UTC())}, ArticleID: articleID(i * 7 % articles)},
					content.Record{Article: &content.Article{ID: fmt.Sprint(firstArticle, "-", i/2%50)}, Deleted: i%2 > 0})
			}
			if store.Write(ctx, records) == nil {
				written += len(records) / 2
			}
		}
	}
}
