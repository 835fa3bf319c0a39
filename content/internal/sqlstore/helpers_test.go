package sqlstore_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/content"
	"github.com/keywright/keywright/content/internal/sqlstore"
	"github.com/keywright/keywright/content/postgres"
	"github.com/keywright/keywright/content/sqlite"
	"github.com/keywright/keywright/internal/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// database is one of those that all tests run on.
type database struct {
	name    string
	address string
	raw     *sql.DB // for what a store does not show
}

// onBoth runs a test with an empty database of SQLite, and with one of PostgreSQL.
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
	var err error
	if db.raw, err = sql.Open(driver, db.address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.raw.Close() })
	return db
}

func (db database) open(t testing.TB) *sqlstore.Store {
	t.Helper()
	open := sqlite.Open
	if db.name == "postgres" {
		open = postgres.Open
	}
	store, err := open(t.Context(), db.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func write(t testing.TB, store content.Writer, records ...content.Record) {
	t.Helper()
	if err := store.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

func article(id string, activity content.Timestamp) content.Record {
	return content.Record{Article: &content.Article{ID: id, Title: "Article " + id, LastActivityAt: activity}}
}

func reply(articleID, id string, at content.Timestamp) content.Record {
	return content.Record{ArticleID: articleID, Reply: &content.Reply{ID: id, RepliedAt: at}}
}

// ids are those of a page, with a space between.
func ids(t testing.TB, store content.Store, skip int64, limit int) string {
	t.Helper()
	page, err := store.Articles(t.Context(), skip, limit)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, a := range page {
		all = append(all, a.ID)
	}
	return strings.Join(all, " ")
}

func text(t testing.TB, record any) string {
	t.Helper()
	b, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func notFound(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, content.ErrNotFound) {
		t.Errorf("%s: %v, not ErrNotFound", what, err)
	}
}

// checkChunks compares the counts of the stretches with the table that they count.
func (db database) checkChunks(t testing.TB) {
	t.Helper()
	rows, err := db.raw.QueryContext(t.Context(), `
SELECT c.activity, c.id, c.articles, (SELECT count(*) FROM articles a WHERE NOT a.trashed AND (a.activity, a.id) <= (c.activity, c.id))
FROM article_chunks c ORDER BY c.activity, c.id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var sum, upTo, count int64
	var activity, id string
	for rows.Next() {
		if err := rows.Scan(&activity, &id, &count, &upTo); err != nil {
			t.Fatal(err)
		}
		if sum += count; sum != upTo {
			t.Errorf("up to (%s, %s) there are %d articles, but the chunks count %d", activity, id, upTo, sum)
		}
		if count < 0 || count > 2000 {
			t.Errorf("the chunk that ends with (%s, %s) has %d articles", activity, id, count)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if activity != "~" {
		t.Errorf("the last chunk ends with (%s, %s)", activity, id)
	}
}
