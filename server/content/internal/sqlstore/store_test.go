package sqlstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/internal/sqlstore"
)

// A record is read with every field as it was written.
func TestRecordsComeBack(t *testing.T) {
	update := content.ProductUpdate{
		ID: "u1", Title: "Größe \u0000 \u2028 <b>&amp;</b> '\" \\ \x7f 🙂", Body: strings.Repeat("<p>long</p>", 10_000), CreatedAt: "2026-03-01T09:30:00.120+05:30",
		Counts: content.Counts{ReplyCount: 9007199254740993, TotalReplyCount: -1}, Tags: content.List[string]{"", "ü"},
		ProductAreas: content.List[content.ProductArea]{{ID: "p", Name: "Product"}}, LastEdit: content.LastEdit{EditedAt: true},
	}
	a := content.Article{ID: "a1", Links: content.Links{Self: `{"href":"/x","href":"/y"}`}, Poll: content.List[string]{"yes", "no"}, ScheduledAt: "2026-03-01T09:30:00+00:00"}
	r := content.Reply{ID: "r1", Reported: true, ReportedContent: content.List[content.Report]{{ID: "x", ReportedBy: content.Author{Username: "somebody"}}}}
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		write(t, store, content.Record{ProductUpdate: &update}, content.Record{Article: &a}, content.Record{Reply: &r, ArticleID: "a1"})
		gotUpdate, err := store.ProductUpdate(t.Context(), "u1", content.Everybody)
		if err != nil || text(t, gotUpdate) != text(t, update) {
			t.Errorf("%v\n%.300s\nis not\n%.300s", err, text(t, gotUpdate), text(t, update))
		}
		page, err := store.Articles(t.Context(), 0, 2)
		if err != nil || len(page) != 1 || text(t, page[0]) != text(t, a) {
			t.Errorf("%v\n%s\nis not\n%s", err, text(t, page), text(t, a))
		}
		gotReply, err := store.Reply(t.Context(), "a1", "r1", content.Everybody)
		if err != nil || text(t, gotReply) != text(t, r) {
			t.Errorf("%v\n%s\nis not\n%s", err, text(t, gotReply), text(t, r))
		}
	})
}

// Articles are sorted as in specification.md "last activity" and "order of articles".
func TestArticleOrder(t *testing.T) {
	hidden := reply("b", "hidden", "2026-12-31T00:00:00+00:00")
	hidden.Reply.Spam = true
	trashed := article("trashed", "2026-12-30T00:00:00+00:00")
	trashed.Article.Trashed = true
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		write(t, store,
			article("never1", ""), article("never2", ""), article("Z", "2026-03-01T09:30:00+00:00"),
			// The same instant with three offsets.
			article("a", "2026-03-01T10:30:00+01:00"), article("ä", "2026-03-01T09:30:00.000+00:00"), article("b", "2026-03-01T04:30:00-05:00"),
			article("later", "2026-03-01T09:30:00.000000001+00:00"), article("earlier", "2026-03-01T23:59:59+14:30"),
			hidden, trashed,
		)
		if got, want := ids(t, store, 0, 100), "later ä b a Z earlier never2 never1"; got != want {
			t.Errorf("the articles are %s, not %s", got, want)
		}
		for i, want := range []string{"later ä", "b a", "Z earlier", "never2 never1", "", ""} {
			if got := ids(t, store, int64(i)*2, 2); got != want {
				t.Errorf("page %d is %q, not %q", i+1, got, want)
			}
		}
		if got := ids(t, store, 1<<62, 25); got != "" {
			t.Errorf("past the end there is %s", got)
		}
		if got := ids(t, store, 0, 0); got != "" {
			t.Errorf("no articles are %s", got)
		}
		if _, err := store.Articles(t.Context(), -1, 1); err == nil {
			t.Error("a negative number is skipped")
		}
		db.checkChunks(t, 500, 64)
	})
}

// Replies change the last activity of their article as in specification.md "last activity" and "reply without its article".
func TestRepliesMoveTheirArticle(t *testing.T) {
	const first, second, third = "2026-03-01T00:00:00+00:00", "2026-03-02T00:00:00+00:00", "2026-03-03T00:00:00+00:00"
	with := func(r content.Record, change func(*content.Reply)) content.Record {
		changed := *r.Reply
		change(&changed)
		return content.Record{ArticleID: r.ArticleID, Reply: &changed}
	}
	newest := reply("x", "r", third)
	gone := article("x", first)
	gone.Article.Trashed = true
	steps := []struct {
		name   string
		writes []content.Record
		order  string
	}{
		{"to begin with", []content.Record{article("x", first), article("y", second), article("z", "")}, "y x z"},
		{"a reply moves its article", []content.Record{newest}, "x y z"},
		{"a trashed one does not", []content.Record{with(newest, func(r *content.Reply) { r.Trashed = true })}, "y x z"},
		{"nor spam", []content.Record{with(newest, func(r *content.Reply) { r.Spam = true })}, "y x z"},
		{"nor one that waits for approval", []content.Record{with(newest, func(r *content.Reply) { r.PendingApproval = true })}, "y x z"},
		{"a reported one does", []content.Record{with(newest, func(r *content.Reply) { r.Reported = true })}, "x y z"},
		{"an article keeps its newest reply", []content.Record{article("x", first)}, "x y z"},
		{"a trashed article is not listed", []content.Record{gone}, "y z"},
		{"and a reply does not bring it back", []content.Record{reply("x", "r2", third)}, "y z"},
		{"it comes back where its reply was", []content.Record{article("x", "")}, "x y z"},
		{"a reply without a time moves nothing", []content.Record{reply("z", "r", "")}, "x y z"},
		{"nor one of an article that is not there", []content.Record{reply("new", "r", third)}, "x y z"},
		{"until that is there", []content.Record{article("new", second)}, "x new y z"},
		{"both in one", []content.Record{reply("w", "r", "2026-03-04T00:00:00+00:00"), article("w", first)}, "w x new y z"},
		{"the last of two counts", []content.Record{article("w", third), reply("w", "r", third), reply("w", "r", ""), article("w", "")}, "x new y z w"},
		{"removed ones do not any more", []content.Record{deleted(newest), deleted(reply("x", "r2", third))}, "new y z x w"},
	}
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		for _, step := range steps {
			write(t, store, step.writes...)
			if got := ids(t, store, 0, 10); got != step.order {
				t.Errorf("%s: the articles are %s, not %s", step.name, got, step.order)
			}
			db.checkChunks(t, 500, 64)
		}
	})
}

// Only moderators see hidden records: threats.md 53, specification.md "visible reply" and "reply without its article".
func TestModeratorsSeeHidden(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		trashed := article("trashed", "")
		trashed.Article.Trashed = true
		write(t, store, article("a", ""), trashed, content.Record{Moderator: &content.Moderator{ID: "mod"}}, content.Record{Moderator: &content.Moderator{ID: "mod"}},
			content.Record{ProductUpdate: &content.ProductUpdate{ID: "seen"}}, content.Record{ProductUpdate: &content.ProductUpdate{ID: "trashed", Trashed: true}},
			reply("a", "seen", ""), reply("trashed", "of a trashed one", ""), reply("missing", "of none", ""))
		for name, r := range map[string]content.Reply{"trashed": {Trashed: true}, "spam": {Spam: true}, "pending": {PendingApproval: true}} {
			r.ID = name
			write(t, store, content.Record{ArticleID: "a", Reply: &r})
		}
		update := func(id string, audience content.Audience) error {
			got, err := store.ProductUpdate(t.Context(), id, audience)
			if err == nil && got.ID != id {
				t.Errorf("the product update %s has the id %s", id, got.ID)
			}
			return err
		}
		replyOf := func(articleID, id string, audience content.Audience) error {
			got, err := store.Reply(t.Context(), articleID, id, audience)
			if err == nil && got.ID != id {
				t.Errorf("the reply %s has the id %s", id, got.ID)
			}
			return err
		}
		for _, err := range []error{
			update("seen", content.Everybody), update("seen", content.Moderators), update("trashed", content.Moderators),
			replyOf("a", "seen", content.Everybody), replyOf("a", "seen", content.Moderators), replyOf("trashed", "of a trashed one", content.Moderators),
			replyOf("a", "trashed", content.Moderators), replyOf("a", "spam", content.Moderators), replyOf("a", "pending", content.Moderators),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		notFound(t, "a trashed product update", update("trashed", content.Everybody))
		for _, name := range []string{"trashed", "spam", "pending"} {
			notFound(t, name, replyOf("a", name, content.Everybody))
		}
		notFound(t, "a reply of a trashed article", replyOf("trashed", "of a trashed one", content.Everybody))
		for _, audience := range []content.Audience{content.Everybody, content.Moderators} {
			notFound(t, "a reply without its article", replyOf("missing", "of none", audience))
			notFound(t, "a reply of another article", replyOf("trashed", "seen", audience))
			notFound(t, "no product update", update("a", audience))
		}
		for id, want := range map[string]bool{"mod": true, "MOD": false, "mo": false, "": false, "a": false, "mo%": false} {
			if got, err := store.Moderator(t.Context(), id); got != want || err != nil {
				t.Errorf("%q is a moderator: %t, %v", id, got, err)
			}
		}
	})
}

// threats.md 52: ids that contain SQL or unusual bytes find only their own record.
func TestOddIDs(t *testing.T) {
	odd := []string{"' OR '1'='1", `"; DROP TABLE articles; --`, "%", "_", "../../etc/passwd", "a", "A", "á", "a\u0301", " a", "a ", "$1", "?", "\\", "\\x00", "🙂", "~", "\U0010ffff", strings.Repeat("x", 255)}
	refused := []string{"", "\x00", "a\x00b", "\xff", strings.Repeat("x", 256), strings.Repeat("x", 10_000), "a\nb"}
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		for _, id := range odd {
			_, err := store.ProductUpdate(t.Context(), id, content.Moderators)
			notFound(t, id, err)
			write(t, store, article(id, ""), reply(id, id, ""), content.Record{ProductUpdate: &content.ProductUpdate{ID: id}}, content.Record{Moderator: &content.Moderator{ID: id}})
		}
		for _, id := range odd {
			if p, err := store.ProductUpdate(t.Context(), id, content.Everybody); err != nil || p.ID != id {
				t.Errorf("%q: p = %v, err = %v", id, p, err)
			}
			if r, err := store.Reply(t.Context(), id, id, content.Everybody); err != nil || r.ID != id {
				t.Errorf("%q: r = %v, err = %v", id, r, err)
			}
			if ok, err := store.Moderator(t.Context(), id); err != nil || !ok {
				t.Errorf("%q: ok = %v, err = %v", id, ok, err)
			}
		}
		if page, err := store.Articles(t.Context(), 0, 100); err != nil || len(page) != len(odd) || page[0].ID != "🙂" && page[0].ID != "\U0010ffff" {
			t.Errorf("%d articles, %v", len(page), err)
		}
		for _, id := range refused {
			_, err := store.ProductUpdate(t.Context(), id, content.Moderators)
			notFound(t, id, err)
			_, err = store.Reply(t.Context(), id, "a", content.Moderators)
			notFound(t, id, err)
			_, err = store.Reply(t.Context(), "a", id, content.Moderators)
			notFound(t, id, err)
			if ok, err := store.Moderator(t.Context(), id); ok || err != nil {
				t.Errorf("%q: ok = %v, err = %v", id, ok, err)
			}
			for _, r := range []content.Record{article(id, ""), reply(id, "a", ""), reply("a", id, ""), {ProductUpdate: &content.ProductUpdate{ID: id}}, {Moderator: &content.Moderator{ID: id}}} {
				if err := store.Write(t.Context(), []content.Record{r}); err == nil {
					t.Errorf("%q is written", id)
				}
			}
		}
	})
}

// A failed call of Write writes none of its records.
func TestAtomicWrite(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		for name, bad := range map[string]content.Record{
			"an empty record":   {},
			"no id":             article("", ""),
			"no timestamp":      article("x", "yesterday"),
			"an object that is": {Article: &content.Article{ID: "x", Links: content.Links{Self: "[]"}}},
		} {
			testworld.WantError(t, name, store.Write(t.Context(), []content.Record{article("good", ""), bad}), "record 2 of 2")
		}
		testworld.Must(db.raw.ExecContext(t.Context(), `DROP TABLE article_chunks`))(t)
		if err := store.Write(t.Context(), []content.Record{{ProductUpdate: &content.ProductUpdate{ID: "u"}}, article("good", "")}); err == nil {
			t.Error("there is no error")
		}
		_, err := store.ProductUpdate(t.Context(), "u", content.Moderators)
		notFound(t, "a product update that was not written", err)
	})
}

// SQLite searches the index by activity and id, so that a page among many articles of the same activity is found as
// fast as others. It does not look at a bound LIMIT while it plans, which would have it plan each page again.
func TestSQLiteFindsPagesByActivityAndID(t *testing.T) {
	if strings.Contains(sqlstore.SelectArticles, "LIMIT $") {
		t.Error("LIMIT is a bound value by itself")
	}
	db := empty(t, "sqlite")
	db.open(t)
	plan := plan(t, db, sqlstore.SelectArticles, 0, 25)
	for _, table := range []string{"articles", "article_chunks"} {
		if !slices.ContainsFunc(plan, func(step string) bool {
			return strings.HasPrefix(step, "SEARCH "+table+" ") && strings.HasSuffix(step, "((activity,id)<(?,?))")
		}) {
			t.Errorf("%s is not searched by both:\n%s", table, strings.Join(plan, "\n"))
		}
	}
}

// The connections for reading cannot change the database with any statement.
func TestReadersDoNotWrite(t *testing.T) {
	store := empty(t, "sqlite").open(t)
	write(t, store, content.Record{Moderator: &content.Moderator{ID: "m"}})
	if _, err := store.Reads().ExecContext(t.Context(), `DELETE FROM moderators`); err == nil {
		t.Error("a reader may write")
	}
	if ok, err := store.Moderator(t.Context(), "m"); !ok || err != nil {
		t.Errorf("ok = %t, err = %v", ok, err)
	}
}

// The URL cannot set the isolation level: a writer has to see what the one before it wrote, to count chunks.
func TestTheURLDoesNotSetTheIsolationLevel(t *testing.T) {
	address := empty(t, "postgres").address + "&default_transaction_isolation=repeatable+read"
	store := database{name: "postgres", address: address}.open(t)
	var level string
	if err := store.OneConnection().QueryRowContext(t.Context(), `SHOW transaction_isolation`).Scan(&level); err != nil || level != "read committed" {
		t.Errorf("transactions are %q, %v", level, err)
	}
}

// While another process writes, a writer waits, also with records that the other one does not touch.
func TestWriterWaits(t *testing.T) {
	db := empty(t, "postgres")
	store := database{name: db.name, address: db.address + "&lock_timeout=1"}.open(t) // in milliseconds: the writer fails instead of waiting
	other := testworld.Must(db.raw.BeginTx(t.Context(), nil))(t)
	testworld.Must(other.ExecContext(t.Context(), `UPDATE article_chunks SET articles = articles`))(t)
	records := []content.Record{{Moderator: &content.Moderator{ID: "m"}}}
	testworld.WantError(t, "", store.Write(t.Context(), records), "55P03")
	testworld.Check(t, other.Rollback())
	write(t, store, records...)
}

// Close writes the log into the database file and removes it.
func TestClosedStoreFile(t *testing.T) {
	db := empty(t, "sqlite")
	store := db.open(t)
	write(t, store, article("a", "2026-01-01T00:00:00+00:00"))
	if _, err := os.Stat(db.address + "-wal"); err != nil {
		t.Fatalf("while it is open: %v", err)
	}
	testworld.Check(t, store.Close())
	if files, _ := filepath.Glob(db.address + "*"); len(files) != 1 {
		t.Errorf("there are %v", files)
	}
}

// While the file of SQLite is away, errors say so, and none is made in its place: threats.md 192.
func TestMissingFile(t *testing.T) {
	db := empty(t, "sqlite")
	store := db.open(t)
	write(t, store, article("a", ""))
	store.Reads().SetMaxIdleConns(0) // an open connection keeps the file
	path, aside := filepath.Dir(db.address), t.TempDir()+"/aside"
	testworld.Check(t, os.Rename(path, aside))
	testworld.Check(t, os.Mkdir(path, 0o700))
	if _, err := store.Articles(t.Context(), 0, 1); !errors.Is(err, content.ErrUnavailable) {
		t.Errorf("while it is away: %v", err)
	}
	if _, err := store.Reply(t.Context(), "a", "1", content.Everybody); !errors.Is(err, content.ErrUnavailable) {
		t.Errorf("while it is away: %v", err)
	}
	if files, err := os.ReadDir(path); err != nil || len(files) > 0 {
		t.Fatalf("files = %v, err = %v", files, err)
	}
	testworld.Check(t, errors.Join(os.Remove(path), os.Rename(aside, path)))
	if got := ids(t, store, 0, 10); got != "a" {
		t.Errorf("when it is back, the articles are %q", got)
	}
}

// Writing a batch does not read all articles, though PostgreSQL planned the statements for an empty table.
func TestBatchesDoNotReadAllArticles(t *testing.T) {
	store := empty(t, "postgres").open(t)
	connection := store.OneConnection()
	const batches, size = 20, 128
	var gone []content.Record
	for b := range batches {
		var records []content.Record
		for i := range size {
			id := fmt.Sprint(b*size + i)
			records = append(records, article(id, ""), reply(id, "r", "2026-03-01T00:00:00+00:00"))
		}
		gone = append(gone, deleted(records[0]), deleted(records[3]))
		write(t, store, records...)
		write(t, store, records...) // reads the articles of this batch
	}
	for _, r := range gone {
		write(t, store, r)
	}
	testworld.Must(connection.ExecContext(t.Context(), `SELECT pg_stat_force_next_flush()`))(t)
	var read int
	testworld.Check(t, connection.QueryRowContext(t.Context(), `SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'articles_pkey'`).Scan(&read))
	if read < batches*size || read > 4*batches*size {
		t.Errorf("to write %d articles twice, %d were read", batches*size, read)
	}
	var replies int
	testworld.Check(t, connection.QueryRowContext(t.Context(), `SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'replies_pkey'`).Scan(&replies))
	if replies > 4*batches*size {
		t.Errorf("to write %d replies twice, and to remove some, %d were read", batches*size, replies)
	}
	var scanned int
	testworld.Check(t, connection.QueryRowContext(t.Context(), `SELECT COALESCE(sum(seq_tup_read), 0) FROM pg_stat_user_tables WHERE relname IN ('articles', 'replies')`).Scan(&scanned))
	if scanned > 0 {
		t.Errorf("%d rows were read without an index", scanned)
	}
}
