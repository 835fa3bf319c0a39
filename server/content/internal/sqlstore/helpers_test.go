package sqlstore_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/internal/sqlstore"
	"github.com/keywright/keywright/server/content/postgres"
	"github.com/keywright/keywright/server/content/sqlite"
	"github.com/keywright/keywright/server/internal/postgrestest"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(importEnv); name != "" {
		if err := importRing(name, os.Getenv(importEnv+"_ADDRESS")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(postgrestest.Main(m))
}

// database is a database of SQLite or PostgreSQL.
type database struct {
	name    string
	address string
	raw     *sql.DB // for statements that a store does not have
	options postgres.Options
}

// onBoth runs a test with an empty SQLite database, and with an empty PostgreSQL database.
func onBoth(t *testing.T, test func(t *testing.T, db database)) {
	t.Helper()
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) { test(t, empty(t, name)) })
	}
}

func empty(t testing.TB, name string) database {
	t.Helper()
	db := database{name: name}
	driver := "sqlite"
	if name == "postgres" {
		db.address, driver = postgrestest.Database(t), "pgx"
	} else {
		db.address = filepath.Join(t.TempDir(), "content.db")
	}
	db.raw = testworld.Must(sql.Open(driver, db.address))(t)
	t.Cleanup(func() { _ = db.raw.Close() })
	return db
}

func (db database) open(t testing.TB) *sqlstore.Store {
	t.Helper()
	store := testworld.Must(db.store(t.Context()))(t)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func (db database) store(ctx context.Context) (*sqlstore.Store, error) {
	var store content.Database
	var err error
	if db.name == "postgres" {
		store, err = postgres.Open(ctx, db.address, db.options)
	} else {
		store, err = sqlite.Open(ctx, db.address)
	}
	if err != nil {
		return nil, err
	}
	return store.(*sqlstore.Store), nil
}

func write(t testing.TB, store content.Writer, records ...content.Record) {
	t.Helper()
	testworld.Check(t, store.Write(t.Context(), records))
}

func article(id string, activity content.Timestamp) content.Record {
	return content.Record{Article: &content.Article{ID: id, Title: "Article " + id, LastActivityAt: activity}}
}

func reply(articleID, id string, at content.Timestamp) content.Record {
	return content.Record{ArticleID: articleID, Reply: &content.Reply{ID: id, RepliedAt: at}}
}

// ids returns the ids of a page, separated by spaces.
func ids(t testing.TB, store content.Store, skip int64, limit int) string {
	t.Helper()
	page := testworld.Must(store.Articles(t.Context(), skip, limit))(t)
	var all []string
	for _, a := range page {
		all = append(all, a.ID)
	}
	return strings.Join(all, " ")
}

func text(t testing.TB, record any) string {
	t.Helper()
	b := testworld.Must(json.Marshal(record))(t)
	return string(b)
}

func notFound(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, content.ErrNotFound) {
		t.Errorf("%s: %v, not ErrNotFound", what, err)
	}
}

// fatal is the part of testing.TB that *rapid.T implements, too.
type fatal interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// checkChunks compares the counts of chunks and sections with the table of articles and with the limits.
func (db database) checkChunks(t fatal, articles int64, chunks int) {
	t.Helper()
	counts := db.spans(t, "article_chunks")
	ends := slices.SortedFunc(maps.Keys(counts), compareEnds)
	for end, count := range counts {
		if count < 0 || count > articles {
			t.Errorf("the chunk that ends with %s has %d articles", end, count)
		}
	}
	last := -1
	for _, end := range slices.SortedFunc(maps.Keys(db.spans(t, "article_sections")), compareEnds) {
		i, ok := slices.BinarySearchFunc(ends, end, compareEnds)
		if !ok {
			t.Errorf("a section ends with %s, but no chunk does", end)
		}
		if i-last > chunks {
			t.Errorf("the section that ends with %s has %d chunks", end, i-last)
		}
		last = i
	}
}

func compareEnds(a, b [2]string) int { return slices.Compare(a[:], b[:]) }

// spans checks the counts of a table of spans and returns them by the ends of the spans.
func (db database) spans(t fatal, table string) map[[2]string]int64 {
	t.Helper()
	rows := testworld.Must(db.raw.QueryContext(context.Background(), `
SELECT s.activity, s.id, s.articles, (SELECT count(*) FROM articles a WHERE NOT a.trashed AND (a.activity, a.id) <= (s.activity, s.id))
FROM `+table+` s ORDER BY s.activity, s.id`))(t)
	defer rows.Close()
	all := map[[2]string]int64{}
	var sum, upTo, count int64
	var end [2]string
	for rows.Next() {
		testworld.Check(t, rows.Scan(&end[0], &end[1], &count, &upTo))
		if sum += count; sum != upTo {
			t.Errorf("up to %s there are %d articles, but %s counts %d", end, upTo, table, sum)
		}
		all[end] = count
	}
	testworld.Check(t, rows.Err())
	if end[0] != "~" {
		t.Errorf("the last row of %s ends with %s", table, end)
	}
	return all
}
