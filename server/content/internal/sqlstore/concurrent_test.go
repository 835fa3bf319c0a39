package sqlstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/internal/sqlstore"
	"github.com/keywright/keywright/server/content/postgres"
	"github.com/keywright/keywright/server/content/sqlite"
)

const (
	ringSize = 97 // a prime
	rounds   = 30
)

// ring returns all articles as round r of the import writes them. Their titles are the number of the round, and each
// round has another order.
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
	open := sqlite.Open
	if name == "postgres" {
		open = func(ctx context.Context, address string) (content.Database, error) {
			return postgres.Open(ctx, address, postgres.Options{})
		}
	}
	store, err := open(context.Background(), address)
	if err != nil {
		return err
	}
	store.(*sqlstore.Store).SmallChunks()
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
				if _, err := store.Reply(t.Context(), "shared", fmt.Sprint(n, "-", i), content.Everybody); err != nil {
					t.Error(n, i, err)
				}
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
