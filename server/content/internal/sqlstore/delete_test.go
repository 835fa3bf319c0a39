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

// deleted returns the record that removes another one.
func deleted(r content.Record) content.Record {
	r.Deleted = true
	return r
}

// What is removed is for nobody, and removing it again is no error. With an article its replies go, also those that come
// before it in one call: specification.md "deleting an article", threats.md 191.
func TestRemovedRecords(t *testing.T) {
	const at = "2026-03-01T00:00:00+00:00"
	update := content.Record{ProductUpdate: &content.ProductUpdate{ID: "u"}}
	moderator := content.Record{Moderator: &content.Moderator{ID: "m"}}
	all := []content.Record{update, moderator, article("a", at), article("b", at), reply("a", "1", at), reply("a", "2", at), reply("b", "1", at)}
	type found struct{ update, moderator, a1, a2, b1 bool }
	for _, c := range []struct {
		name    string
		removes []content.Record
		want    found
		order   string
	}{
		{"a product update", []content.Record{deleted(update)}, found{false, true, true, true, true}, "b a"},
		{"a moderator", []content.Record{deleted(moderator)}, found{true, false, true, true, true}, "b a"},
		{"a reply", []content.Record{deleted(reply("a", "1", at))}, found{true, true, false, true, true}, "b a"},
		{"an article", []content.Record{deleted(article("a", ""))}, found{true, true, false, false, true}, "b"},
		{"an article that comes again", []content.Record{deleted(article("a", "")), article("a", at)}, found{true, true, false, false, true}, "b a"},
		{"and a reply to it", []content.Record{deleted(article("a", "")), reply("a", "2", at), article("a", at)}, found{true, true, false, true, true}, "b a"},
		{"a new one and its replies", []content.Record{reply("c", "1", at), article("c", at), reply("c", "2", at), deleted(article("c", ""))}, found{true, true, true, true, true}, "b a"},
		{"nothing that is there", []content.Record{deleted(article("x", "")), deleted(reply("a", "3", at)), deleted(reply("x", "1", at))}, found{true, true, true, true, true}, "b a"},
		{"all", []content.Record{deleted(update), deleted(moderator), deleted(article("a", "")), deleted(article("b", ""))}, found{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, db database) {
				store := db.open(t)
				write(t, store, all...)
				for range 2 {
					write(t, store, c.removes...)
					var got found
					_, err := store.ProductUpdate(t.Context(), "u", content.Moderators)
					got.update = err == nil
					got.moderator = testworld.Must(store.Moderator(t.Context(), "m"))(t)
					for id, there := range map[[2]string]*bool{{"a", "1"}: &got.a1, {"a", "2"}: &got.a2, {"b", "1"}: &got.b1} {
						_, err := store.Reply(t.Context(), id[0], id[1], content.Moderators)
						*there = err == nil
					}
					if got != c.want {
						t.Errorf("there are %+v, want %+v", got, c.want)
					}
					if got := ids(t, store, 0, 10); got != c.order {
						t.Errorf("the articles are %s, want %s", got, c.order)
					}
					db.checkChunks(t, 500, 64)
				}
				// The replies of a removed article are not those of another one with its id.
				write(t, store, article("c", at))
				if _, err := store.Reply(t.Context(), "c", "1", content.Moderators); err == nil {
					t.Error("a reply has outlived its article")
				}
			})
		})
	}
}

// Pages stay right while articles are removed until none is left.
func TestPagesAfterRemoval(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		store.SmallChunks()
		const articles = 60
		var all []content.Record
		for i := range articles {
			all = append(all, article(fmt.Sprintf("%02d", i), ""))
		}
		write(t, store, all...)
		for left := articles - 7; left > 0; left -= 7 {
			var gone []content.Record
			for i := range 7 {
				gone = append(gone, deleted(all[(left+i)*11%articles]))
			}
			write(t, store, gone...)
			db.checkChunks(t, 6, 4)
		}
		for _, a := range all {
			write(t, store, deleted(a))
		}
		db.checkChunks(t, 6, 4)
		if got := ids(t, store, 0, 10); got != "" {
			t.Errorf("there is %s left", got)
		}
		if got := len(db.spans(t, "article_chunks")); got != 1 {
			t.Errorf("of no articles there are %d chunks", got)
		}
	})
}

// A record without an id cannot be removed, as it cannot be written.
func TestRemoveErrors(t *testing.T) {
	store := empty(t, "sqlite").open(t)
	for _, r := range []content.Record{
		{Deleted: true},
		{Deleted: true, Article: &content.Article{}},
		{Deleted: true, Reply: &content.Reply{ID: "1"}},
		{Deleted: true, Reply: &content.Reply{}, ArticleID: "1"},
		{Deleted: true, Moderator: &content.Moderator{ID: "\x00"}},
	} {
		if err := store.Write(t.Context(), []content.Record{r}); err == nil {
			t.Errorf("%+v is removed", r)
		}
	}
}

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

// threats.md 76: no row of a hidden record is read, so a request for it takes as long as for an absent one.
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
			if got := plan(t, db, statement, "x", "y"); !slices.Equal(got, want) {
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
func plan(t *testing.T, db database, statement string, arguments ...any) (steps []string) {
	t.Helper()
	rows := testworld.Must(db.raw.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement, arguments...))(t)
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
			"DROP INDEX product_updates_shown", "DROP INDEX articles_shown", "DROP INDEX replies_shown", "DELETE FROM content_migrations WHERE version_id > 1", "ALTER TABLE content_migrations DROP COLUMN oldest",
		} {
			testworld.Must(db.raw.ExecContext(t.Context(), statement))(t)
		}
		store = db.open(t)
		testworld.Must(store.Reply(t.Context(), "a", "seen", content.Everybody))(t)
		testworld.Must(store.ProductUpdate(t.Context(), "hidden1", content.Moderators))(t)
		// The index exists, or it could not be dropped.
		testworld.Must(db.raw.ExecContext(t.Context(), "DROP INDEX replies_shown"))(t)
	})
}

// BenchmarkHidden compares the durations of requests for hidden and for absent records, in random order. An observer
// could notice a difference of the means of more than about 4 standard errors.
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
