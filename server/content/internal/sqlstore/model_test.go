//go:build !race

// Under the race detector these tests take minutes, and they run nothing concurrently.

package sqlstore_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/internal/sqlstore"
)

// model is the simplest possible store.
type model struct {
	updates  map[string]content.ProductUpdate
	articles map[string]content.Article
	replies  map[[2]string]content.Reply
}

func newModel() *model {
	return &model{map[string]content.ProductUpdate{}, map[string]content.Article{}, map[[2]string]content.Reply{}}
}

func (m *model) write(records []content.Record) {
	for _, r := range records {
		switch {
		case r.Deleted:
			m.remove(r)
		case r.ProductUpdate != nil:
			m.updates[r.ProductUpdate.ID] = *r.ProductUpdate
		case r.Article != nil:
			m.articles[r.Article.ID] = *r.Article
		case r.Reply != nil:
			m.replies[[2]string{r.ArticleID, r.Reply.ID}] = *r.Reply
		}
	}
}

func (m *model) remove(r content.Record) {
	switch {
	case r.ProductUpdate != nil:
		delete(m.updates, r.ProductUpdate.ID)
	case r.Article != nil:
		delete(m.articles, r.Article.ID)
		maps.DeleteFunc(m.replies, func(key [2]string, _ content.Reply) bool { return key[0] == r.Article.ID })
	case r.Reply != nil:
		delete(m.replies, [2]string{r.ArticleID, r.Reply.ID})
	}
}

// activity returns the last activity in nanoseconds, or -1 if there is none.
func (m *model) activity(a content.Article) int64 {
	last := int64(-1)
	at := func(t content.Timestamp) {
		if instant, ok := t.Instant(); ok {
			last = max(last, instant.UnixNano())
		}
	}
	at(a.LastActivityAt)
	for key, r := range m.replies {
		if key[0] == a.ID && !r.Trashed && !r.Spam && !r.PendingApproval {
			at(r.RepliedAt)
		}
	}
	return last
}

func (m *model) list() []content.Article {
	var all []content.Article
	for _, a := range m.articles {
		if last := m.activity(a); !a.Trashed {
			if at, ok := a.LastActivityAt.Instant(); last >= 0 && (!ok || last > at.UnixNano()) { // a reply is newer
				a.LastActivityAt = content.Timestamp(time.Unix(0, last).UTC().Format("2006-01-02T15:04:05.999999999+00:00"))
			}
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b content.Article) int {
		return -cmp.Or(cmp.Compare(m.activity(a), m.activity(b)), cmp.Compare(a.ID, b.ID))
	})
	return all
}

var (
	someIDs   = rapid.SampledFrom([]string{"a", "b", "B", "ä", "a'", "a%", "10", "9", "🙂", "a b", "\uffff", "~"})
	moreIDs   = rapid.OneOf(someIDs, rapid.StringMatching(`[a-f][0-9]`))
	someTimes = rapid.SampledFrom([]content.Timestamp{
		"", "", "2026-03-01T00:00:00+00:00", "2026-03-01T01:00:00+01:00", "2026-03-01T00:00:00.5+00:00", "2026-03-01T00:00:00.50+00:00",
		"2026-02-28T23:59:59.999999999+00:00", "2026-03-01T00:00:01+00:00", "1969-12-31T23:59:59-01:00", "2026-03-02T00:00:00+00:00",
	})
	someRecords = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) content.Record {
		often := rapid.IntRange(0, 3)
		at, title := someTimes.Draw(t, "time"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "title")
		hidden := func(what string) bool { return often.Draw(t, what) == 0 }
		deleted := hidden("deleted")
		switch rapid.IntRange(0, 9).Draw(t, "type") {
		case 0:
			return content.Record{Deleted: deleted, ProductUpdate: &content.ProductUpdate{ID: someIDs.Draw(t, "id"), Title: title, Trashed: hidden("trashed")}}
		case 1, 2, 3:
			return content.Record{Deleted: deleted, ArticleID: moreIDs.Draw(t, "article"), Reply: &content.Reply{
				ID: someIDs.Draw(t, "id"), Content: title, RepliedAt: at, Trashed: hidden("trashed"), Spam: hidden("spam"), PendingApproval: hidden("pending"),
			}}
		default:
			return content.Record{Deleted: deleted, Article: &content.Article{ID: moreIDs.Draw(t, "id"), Title: title, LastActivityAt: at, Trashed: hidden("trashed")}}
		}
	}), 0, 60)
)

// After any writes, the store returns the same as the model.
func TestStoreMatchesModel(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		store.SmallChunks()
		rapid.Check(t, func(t *rapid.T) {
			db.clear(t)
			m := newModel()
			for i := range rapid.IntRange(1, 3).Draw(t, "writes") {
				records := someRecords.Draw(t, "records")
				if i == 0 { // many articles, so that there are several sections
					for n := range rapid.IntRange(0, 80).Draw(t, "articles") {
						records = append(records, article(fmt.Sprintf("%c%d", 'a'+n%7, n/7), someTimes.Draw(t, "time")))
					}
				}
				testworld.Check(t, store.Write(context.Background(), records))
				m.write(records)
				db.checkChunks(t, 6, 4)
				comparePages(t, store, m)
				compareCrawl(t, store, m)
			}
			compareRecords(t, store, m)
			db.compareRemoved(t, m)
		})
	})
}

func (db database) clear(t fatal) {
	for _, statement := range []string{
		`DELETE FROM product_updates`, `DELETE FROM articles`, `DELETE FROM replies`, `DELETE FROM article_chunks WHERE activity <> '~'`, `UPDATE article_chunks SET articles = 0`,
		`DELETE FROM article_sections WHERE activity <> '~'`, `UPDATE article_sections SET articles = 0`,
	} {
		testworld.Must(db.raw.ExecContext(context.Background(), statement))(t)
	}
}

func comparePages(t *rapid.T, store *sqlstore.Store, m *model) {
	want := m.list()
	for _, size := range []int{11, 1000} {
		for skip := 0; skip < len(want)+size; skip += size {
			got := testworld.Must(store.Articles(context.Background(), int64(skip), size))(t)
			page := want[min(skip, len(want)):min(skip+size, len(want))]
			if summary(got) != summary(page) {
				t.Fatalf("%d after %d are\n%s\nnot\n%s", size, skip, summary(got), summary(page))
			}
		}
	}
}

// compareCrawl compares the pages after the last id of the page before.
func compareCrawl(t *rapid.T, store *sqlstore.Store, m *model) {
	want := m.list()
	slices.SortFunc(want, func(a, b content.Article) int { return cmp.Compare(a.ID, b.ID) })
	var got []content.Article
	for last := ""; ; last = got[len(got)-1].ID {
		page := testworld.Must(store.ArticlesAfter(context.Background(), last, 7))(t)
		if got = append(got, page...); len(page) < 7 {
			break
		}
	}
	if summary(got) != summary(want) {
		t.Fatalf("by id there are\n%s\nnot\n%s", summary(got), summary(want))
	}
}

func summary(articles []content.Article) string {
	var s string
	for _, a := range articles {
		s += fmt.Sprintf("%q %q %s\n", a.ID, a.Title, a.LastActivityAt)
	}
	return s
}

// compareRemoved compares the numbers of rows, to see that what the model has removed is not in the store.
func (db database) compareRemoved(t *rapid.T, m *model) {
	for table, want := range map[string]int{"product_updates": len(m.updates), "articles": len(m.articles), "replies": len(m.replies)} {
		var got int
		testworld.Check(t, db.raw.QueryRowContext(context.Background(), `SELECT count(*) FROM `+table).Scan(&got))
		if got != want {
			t.Fatalf("there are %d %s, not %d", got, table, want)
		}
	}
}

func compareRecords(t *rapid.T, store *sqlstore.Store, m *model) {
	compare := func(name string, got any, err error, want any, seen bool) {
		switch {
		case !seen && !errors.Is(err, content.ErrNotFound):
			t.Fatalf("%s: %v, %v, not ErrNotFound", name, got, err)
		case seen && err != nil:
			t.Fatalf("%s: err = %v", name, err)
		case seen:
			g, _ := json.Marshal(got)
			w, _ := json.Marshal(want)
			if string(g) != string(w) {
				t.Fatalf("%s is %s, not %s", name, g, w)
			}
		}
	}
	for id, want := range m.updates {
		for _, audience := range []content.Audience{content.Everybody, content.Moderators} {
			got, err := store.ProductUpdate(context.Background(), id, audience)
			compare("product update "+id, got, err, want, bool(audience) || !want.Trashed)
		}
	}
	for key, want := range m.replies {
		article, there := m.articles[key[0]]
		for _, audience := range []content.Audience{content.Everybody, content.Moderators} {
			got, err := store.Reply(context.Background(), key[0], key[1], audience)
			hidden := article.Trashed || want.Trashed || want.Spam || want.PendingApproval
			compare("reply "+key[1]+" of "+key[0], got, err, want, there && (bool(audience) || !hidden))
		}
	}
}

// Thousands of articles with the same activity each appear on one page, also after they have moved.
func TestManyArticlesOfOneActivity(t *testing.T) {
	const count = 3000
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		var all []content.Record
		for i := range count {
			all = append(all, article(fmt.Sprintf("%05d", i), "2026-03-01T00:00:00+00:00"))
		}
		write(t, store, all...)
		check := func(from, to int) {
			t.Helper()
			db.checkChunks(t, 500, 64)
			for skip := 0; skip <= to-from; skip += 500 {
				var want []string
				for i := to - 1 - skip; i >= from && len(want) < 25; i-- {
					want = append(want, fmt.Sprintf("%05d", i))
				}
				if got := ids(t, store, int64(skip), 25); got != strings.Join(want, " ") {
					t.Errorf("after %d there is %s, not %s", skip, got, want)
				}
			}
		}
		check(0, count)
		for _, r := range all[:count/2] {
			r.Article.LastActivityAt = "2026-02-01T00:00:00+00:00" // they are the last ones already, so the order does not change
		}
		write(t, store, all[:count/2]...)
		check(0, count)
		for _, r := range all[100:] {
			r.Article.Trashed = true
		}
		write(t, store, all[100:]...)
		check(0, 100)
		var chunks int
		if err := db.raw.QueryRowContext(t.Context(), `SELECT count(*) FROM article_chunks`).Scan(&chunks); err != nil || chunks != 1 {
			t.Errorf("there are %d chunks for a hundred articles, %v", chunks, err)
		}
	})
}
