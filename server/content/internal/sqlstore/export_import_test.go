package sqlstore_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/importer"
	community "github.com/keywright/keywright/server/content/sample"
	"github.com/keywright/keywright/server/internal/postgrestest"
)

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

// A reader that goes on after the last id of each page sees each article that exists all the time exactly once, while replies arrive and
// articles come and go.
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
