package sqlstore_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/importer"
	"github.com/keywright/keywright/server/content/internal/sqlstore"
	community "github.com/keywright/keywright/server/content/sample"
	"github.com/keywright/keywright/server/internal/postgrestest"
)

const (
	ringSize = 97 // a prime
	rounds   = 30
)

// ring returns all articles as round r of the import writes them, with r as titles and in an order of its own.
func ring(r int) []content.Record {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	records := make([]content.Record, ringSize)
	for i := range records {
		at := start.Add(time.Duration(placeInRing(r, i)) * time.Second)
		records[i] = article(fmt.Sprint(i), content.Timestamp(at.Format("2006-01-02T15:04:05+00:00")))
		records[i].Article.Title = strconv.Itoa(r)
	}
	return records
}

func placeInRing(r, i int) int { return i * (r + 1) % ringSize }

// importEnv is the environment variable that makes the test binary run importRing.
const importEnv = "CONTENT_TEST_IMPORT"

func importRing(name, address string) error {
	store, err := database{name: name, address: address}.store(context.Background())
	if err != nil {
		return err
	}
	store.SmallChunks()
	for r := range rounds {
		if err := store.Write(context.Background(), ring(r)); err != nil {
			return err
		}
	}
	return store.Close()
}

// While another process imports, two stores read without errors, and each page shows one state between two batches.
func TestReadersSeeNoTornPages(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		stores := []*sqlstore.Store{db.open(t), db.open(t)}
		stores[0].SmallChunks()
		write(t, stores[0], ring(0)...)
		command := exec.CommandContext(t.Context(), os.Args[0])
		command.Env = append(os.Environ(), importEnv+"="+db.name, importEnv+"_ADDRESS="+db.address)
		command.Stderr = os.Stderr
		testworld.Check(t, command.Start())
		ended := make(chan struct{})
		var readers sync.WaitGroup
		seen := make([]map[string]bool, 4)
		for n := range seen {
			seen[n] = map[string]bool{}
			readers.Go(func() {
				for i := n; ; i++ {
					checkRing(t, stores[n%2], i%8*13, seen[n])
					select {
					case <-ended:
						return
					default:
					}
				}
			})
		}
		if err := command.Wait(); err != nil {
			t.Error("the import:", err)
		}
		close(ended)
		readers.Wait()
		if len(seen[0]) < 3 {
			t.Errorf("the readers saw only %d states", len(seen[0]))
		}
		db.checkChunks(t, 6, 4)
	})
}

// checkRing reads a page and checks that all of it is from one round.
func checkRing(t *testing.T, store *sqlstore.Store, skip int, seen map[string]bool) {
	page, err := store.Articles(context.Background(), int64(skip), 13)
	if err != nil || len(page) != min(13, ringSize-skip) {
		t.Errorf("after %d: %d articles, %v", skip, len(page), err)
		return
	}
	seen[page[0].Title] = true
	round, _ := strconv.Atoi(page[0].Title)
	for n, a := range page {
		i, _ := strconv.Atoi(a.ID)
		if a.Title != page[0].Title || placeInRing(round, i) != ringSize-1-skip-n {
			t.Errorf("after %d, of round %d, article %d is %s of round %s", skip, round, n, a.ID, a.Title)
		}
	}
}

// Concurrent writers lose no record, and their counts are right.
func TestWritersWaitForEachOther(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		write(t, db.open(t), article("shared", ""))
		var writers sync.WaitGroup
		for n := range 4 {
			store := db.open(t)
			store.SmallChunks()
			writers.Go(func() {
				for i := range 15 {
					at := func(day int) content.Timestamp {
						return content.Timestamp(fmt.Sprintf("2026-03-%02dT00:00:00+00:00", day))
					}
					var records []content.Record
					for j := range 5 {
						records = append(records, article(fmt.Sprint(n, "-", i, "-", j), at(1+i+j)))
					}
					if i%3 == n%3 { // the other calls write different articles, but the same counts
						records = append(records, reply("shared", fmt.Sprint(n, "-", i), at(15+i)))
					}
					if err := store.Write(context.Background(), records); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		store := db.open(t)
		page, err := store.Articles(t.Context(), 0, 1000)
		if err != nil || len(page) != 4*15*5+1 || page[0].ID != "shared" {
			t.Errorf("%d articles, %v", len(page), err)
		}
		for n := range 4 {
			for i := n % 3; i < 15; i += 3 {
				testworld.Must(store.Reply(t.Context(), "shared", fmt.Sprint(n, "-", i), content.Everybody))(t)
			}
		}
		db.checkChunks(t, 6, 4)
	})
}

// An empty database can be opened several times at once.
func TestManyOpenAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		var opens sync.WaitGroup
		for n := range 6 {
			opens.Go(func() {
				store := db.open(t)
				if err := store.Write(context.Background(), []content.Record{article(fmt.Sprint(n), "")}); err != nil {
					t.Error(err)
				}
			})
		}
		opens.Wait()
		if got := ids(t, db.open(t), 0, 10); got != "5 4 3 2 1 0" {
			t.Errorf("there are %s", got)
		}
	})
}

// A cancelled call returns an error, and the store remains usable.
func TestCancelledCalls(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		write(t, store, article("a", ""))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := store.Articles(ctx, 0, 1); err == nil {
			t.Error("a page is read")
		}
		if err := store.Write(ctx, []content.Record{article("b", "")}); err == nil {
			t.Error("an article is written")
		}
		if got := ids(t, store, 0, 10); got != "a" {
			t.Errorf("there are %s", got)
		}
	})
}

// exportOf returns what a store exports.
func exportOf(t *testing.T, store content.Database) (string, content.Status) {
	t.Helper()
	var text bytes.Buffer
	status := testworld.Must(store.Export(t.Context(), &text))(t)
	return text.String(), status
}

// An export is a backup, and the way from one database to another: after an import of it, the other one exports the same bytes.
func TestAnExportImportsAgain(t *testing.T) {
	odd := []content.Record{
		{Moderator: &content.Moderator{ID: `{"<&>`}},
		article("ä\u2028", "2026-03-01T09:30:00.5+01:00"), reply("nowhere", `"`, "2026-03-02T00:00:00+00:00"),
		{ArticleID: "ä\u2028", Reply: &content.Reply{ID: "hidden", Spam: true, Content: "<p>\u0000</p>"}},
		reply("ä\u2028", "new", "2027-01-01T00:00:00+00:00"),
	}
	stores := map[string]content.Database{}
	others := []string{"postgres", "postgres behind a pooler", "sqlite again"}
	for _, name := range append(others, "sqlite") {
		db := empty(t, strings.Fields(name)[0])
		if strings.HasSuffix(name, "pooler") {
			db.address, db.options.Pooler = postgrestest.Pooler(t, db.address), true
		}
		stores[name] = db.open(t)
	}
	write(t, stores["sqlite"], odd...)
	testworld.Must(importer.Import(t.Context(), stores["sqlite"], community.Name, community.Records(), importer.Options{}))(t)
	want, status := exportOf(t, stores["sqlite"])
	if status.Moderators != 4 || status.Replies != 283 || status.Newest != "2027-01-01T00:00:00+00:00" {
		t.Errorf("the status is %+v", status)
	}
	for _, name := range others {
		result, err := importer.Import(t.Context(), stores[name], "export", strings.NewReader(want), importer.Options{})
		if err != nil || result.Problems > 0 || int64(result.Written()) != status.Moderators+status.ProductUpdates+status.Articles+status.Replies {
			t.Fatalf("result = %+v, err = %v", result, err)
		}
		got, again := exportOf(t, stores[name])
		if got != want {
			t.Errorf("%s exports %d bytes, not the %d that were imported", name, len(got), len(want))
		}
		if counted, err := stores[name].Status(t.Context()); err != nil || counted != status || again != status {
			t.Errorf("%s has %+v and %+v, %v, want %+v", name, counted, again, err, status)
		}
	}
}

// A reader that goes on after the last id sees each article that stays exactly once, while others come and go.
func TestACrawlWhileRepliesArrive(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		var records []content.Record
		for i := range 500 {
			records = append(records, article(fmt.Sprintf("a%03d", i), "2026-03-01T00:00:00+00:00"))
		}
		write(t, store, records...)
		ctx, cancel := context.WithCancel(t.Context())
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_ = store.Write(ctx, []content.Record{
					reply(fmt.Sprintf("a%03d", i*7%500), fmt.Sprint(i), content.Timestamp(fmt.Sprintf("2026-04-01T00:%02d:%02d+00:00", i/60%60, i%60))),
					article(fmt.Sprintf("b%03d", i%500), ""),
					{Deleted: true, Article: &content.Article{ID: fmt.Sprintf("b%03d", (i+250)%500)}},
				}) // it fails at the end, when ctx is cancelled
			}
		})
		for range 20 {
			seen, last := map[string]int{}, ""
			for {
				page := testworld.Must(store.ArticlesAfter(t.Context(), last, 25))(t)
				for _, a := range page {
					seen[a.ID]++
					last = a.ID
				}
				if len(page) < 25 {
					break
				}
			}
			for i := range 500 {
				if id := fmt.Sprintf("a%03d", i); seen[id] != 1 {
					t.Fatalf("%s was seen %d times", id, seen[id])
				}
			}
		}
		cancel()
		writer.Wait()
	})
}
