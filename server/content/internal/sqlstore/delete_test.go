package sqlstore_test

import (
	"fmt"
	"testing"

	"github.com/keywright/keywright/server/content"
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
					if got.moderator, err = store.Moderator(t.Context(), "m"); err != nil {
						t.Fatal(err)
					}
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

// A reply that is removed no longer moves its article.
func TestARemovedReplyMovesItsArticle(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		newest := reply("x", "r", "2026-03-03T00:00:00+00:00")
		write(t, store, article("x", "2026-03-01T00:00:00+00:00"), article("y", "2026-03-02T00:00:00+00:00"), newest)
		if got := ids(t, store, 0, 10); got != "x y" {
			t.Fatalf("the articles are %s", got)
		}
		write(t, store, deleted(newest))
		if got := ids(t, store, 0, 10); got != "y x" {
			t.Errorf("the articles are %s, want y x", got)
		}
		db.checkChunks(t, 500, 64)
	})
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
