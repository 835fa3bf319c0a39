package sqlstore_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/internal/sqlstore"
)

// withHidden writes a few visible records, and n hidden ones of each kind, hidden0 to hidden<n-1>.
func withHidden(t testing.TB, store content.Writer, n int) {
	t.Helper()
	hidden := article("gone", "")
	hidden.Article.Trashed = true
	records := []content.Record{article("a", ""), hidden, reply("a", "seen", ""), {ProductUpdate: &content.ProductUpdate{ID: "seen"}}}
	body := strings.Repeat("<p>hidden</p>", 500)
	for i := range n {
		id := fmt.Sprint("hidden", i)
		records = append(records, content.Record{ProductUpdate: &content.ProductUpdate{ID: id, Trashed: true, Body: body}},
			content.Record{ArticleID: "a", Reply: &content.Reply{ID: id, Spam: true, Content: body}},
			content.Record{ArticleID: "gone", Reply: &content.Reply{ID: id, Content: body}})
	}
	write(t, store, records...)
}

// threats.md 76: the database reads no row of a hidden record, so a request for it takes as long as for one that does
// not exist.
func TestHiddenRowsUnread_threats_76(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		db := empty(t, "sqlite")
		withHidden(t, db.open(t), 100)
		for statement, want := range map[string][]string{
			sqlstore.SelectShownProductUpdate: {"SEARCH product_updates USING INDEX product_updates_shown (<expr>=?)"},
			sqlstore.SelectShownReply: {
				"SEARCH replies USING INDEX replies_shown (<expr>=? AND id=?)", "SCALAR SUBQUERY 1", "SEARCH articles USING INDEX articles_shown (<expr>=?)",
			},
		} {
			if got := plan(t, db, statement); !slices.Equal(got, want) {
				t.Errorf("the plan of %s\nis     %q\nand not %q", statement, got, want)
			}
		}
	})
	t.Run("postgres", func(t *testing.T) {
		store := empty(t, "postgres").open(t)
		connection := store.OneConnection() // other connections would report their statistics later
		withHidden(t, store, 100)
		fetched := func() (rows int) {
			t.Helper()
			testworld.Must(connection.ExecContext(t.Context(), `SELECT pg_stat_force_next_flush()`))(t)
			testworld.Check(t, connection.QueryRowContext(t.Context(), `SELECT sum(idx_tup_fetch + seq_tup_read) FROM pg_stat_user_tables WHERE relname IN ('product_updates', 'articles', 'replies')`).Scan(&rows))
			return rows
		}
		before := fetched()
		for i := range 100 {
			id := fmt.Sprint("hidden", i)
			_, err := store.ProductUpdate(t.Context(), id, content.Everybody)
			notFound(t, "a hidden product update", err)
			_, err = store.Reply(t.Context(), "gone", id, content.Everybody)
			notFound(t, "a reply of a hidden article", err)
		}
		if after := fetched(); after != before {
			t.Errorf("%d rows were read of records that nobody may see", after-before)
		}
		for range 10 {
			testworld.Must(store.ProductUpdate(t.Context(), "seen", content.Everybody))(t)
		}
		if after := fetched(); after != before+10 {
			t.Errorf("%d rows were read of 10 records that all may see", after-before)
		}
	})
}

// plan returns the steps of SQLite's plan of a statement.
func plan(t *testing.T, db database, statement string) (steps []string) {
	t.Helper()
	rows := testworld.Must(db.raw.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement, "x", "y"))(t)
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		testworld.Check(t, rows.Scan(&id, &parent, &unused, &step))
		steps = append(steps, step)
	}
	testworld.Check(t, rows.Err())
	return steps
}

// Opening a database of the first schema version creates the missing indexes and keeps the records.
func TestMigrationFromFirstVersion(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		withHidden(t, store, 3)
		testworld.Check(t, store.Close())
		for _, statement := range []string{
			"DROP INDEX product_updates_shown", "DROP INDEX articles_shown", "DROP INDEX replies_shown", "DELETE FROM content_migrations WHERE version_id = 2",
		} {
			testworld.Must(db.raw.ExecContext(t.Context(), statement))(t)
		}
		store = db.open(t)
		if _, err := store.Reply(t.Context(), "a", "seen", content.Everybody); err != nil {
			t.Error(err)
		}
		if _, err := store.ProductUpdate(t.Context(), "hidden1", content.Moderators); err != nil {
			t.Error(err)
		}
		// The index exists, or it could not be dropped.
		if _, err := db.raw.ExecContext(t.Context(), "DROP INDEX replies_shown"); err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkHidden compares the durations of requests for hidden and for absent records, in random order. It reports the
// difference of the means, in nanoseconds and in standard errors. An observer could notice a difference of more than
// about 4 standard errors.
func BenchmarkHidden(b *testing.B) {
	for _, name := range []string{"sqlite", "postgres"} {
		b.Run(name, func(b *testing.B) {
			store := empty(b, name).open(b)
			const n = 1000
			withHidden(b, store, n)
			for what, read := range map[string]func(kind int, id string) error{
				"productUpdate": func(_ int, id string) error {
					_, err := store.ProductUpdate(b.Context(), id, content.Everybody)
					return err
				},
				"reply": func(_ int, id string) error {
					_, err := store.Reply(b.Context(), "a", id, content.Everybody)
					return err
				},
				"article": func(kind int, id string) error {
					_, err := store.Reply(b.Context(), []string{"gone", "none"}[kind], id, content.Everybody)
					return err
				},
			} {
				b.Run(what, func(b *testing.B) {
					random := rand.New(rand.NewPCG(1, 2))
					var took [2][]float64
					for b.Loop() {
						kind := random.IntN(2)
						id := fmt.Sprint([]string{"hidden", "absent"}[kind], random.IntN(n))
						begin := time.Now()
						err := read(kind, id)
						took[kind] = append(took[kind], float64(time.Since(begin).Nanoseconds()))
						if !errors.Is(err, content.ErrNotFound) {
							b.Fatal(err)
						}
					}
					hidden, absent := sample(took[0]), sample(took[1])
					b.ReportMetric(hidden.mean-absent.mean, "ns-apart")
					b.ReportMetric(math.Abs(hidden.mean-absent.mean)/math.Sqrt(hidden.variance+absent.variance), "standard-errors")
				})
			}
		})
	}
}

// moments holds a mean and the variance of that mean.
type moments struct{ mean, variance float64 }

// sample returns the moments of all but the slowest tenth, which are likely to have been interrupted.
func sample(all []float64) (m moments) {
	slices.Sort(all)
	all = all[:len(all)*9/10]
	for _, x := range all {
		m.mean += x / float64(len(all))
	}
	for _, x := range all {
		m.variance += (x - m.mean) * (x - m.mean) / float64(len(all)) / float64(len(all))
	}
	return m
}
