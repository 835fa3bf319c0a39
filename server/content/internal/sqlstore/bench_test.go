package sqlstore_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
)

var benchArticles = flag.Int("articles", 100_000, "how many articles the benchmarks have in the database")

// generated returns article i, which is like one of a real community and always the same.
func generated(i int) content.Record {
	r := rand.New(rand.NewPCG(uint64(i), 0))
	start := time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(days int) content.Timestamp {
		return content.Timestamp(start.Add(time.Duration(r.Int64N(int64(days) * 24 * int64(time.Hour)))).Format("2006-01-02T15:04:05+00:00"))
	}
	body := make([]byte, 600+r.IntN(600))
	for j := range body {
		body[j] = " etaoinshrdlucmfwyp"[r.IntN(19)]
	}
	return content.Record{Article: &content.Article{
		ID: fmt.Sprint(1_000_000 + i), PublicID: fmt.Sprint(i), Title: "Article " + fmt.Sprint(i), Body: "<p>" + string(body) + "</p>",
		CategoryID: fmt.Sprint(r.IntN(50)), Author: content.Author{ID: fmt.Sprint(r.IntN(10_000)), Username: "somebody", Avatar: "https://community.test/avatar.png"},
		CreatedAt: at(3000), PublishedAt: at(3000), LastActivityAt: at(3600), Tags: content.List[string]{"tag", "other"}, Status: "published",
		SEOCommunityURL: fmt.Sprintf("https://community.test/articles/article-%d", i),
	}}
}

// fill writes articles, and for every hundredth a reply and a product update, in batches like those of an import.
func fill(b *testing.B, store content.Writer, articles int) {
	begin := time.Now()
	var batch []content.Record
	for i := range articles {
		batch = append(batch, generated(i))
		if i%100 == 0 {
			id := fmt.Sprint(i)
			batch = append(batch, reply(batch[len(batch)-1].Article.ID, id, "2025-12-31T00:00:00+00:00"), content.Record{ProductUpdate: &content.ProductUpdate{ID: id, Body: "<p>New.</p>"}})
		}
		if len(batch) >= 1000 || i == articles-1 {
			testworld.Check(b, store.Write(b.Context(), batch))
			batch = batch[:0]
		}
	}
	b.Logf("%d articles written, %.0f a second", articles, float64(articles)/time.Since(begin).Seconds())
}

// BenchmarkStore measures the operations of a store. The flag -articles sets its size, as in
// go test -bench . -articles 1000000 -timeout 30m.
func BenchmarkStore(b *testing.B) {
	for _, name := range []string{"sqlite", "postgres"} {
		b.Run(name, func(b *testing.B) {
			db := empty(b, name)
			store := db.open(b)
			fill(b, store, *benchArticles)
			if info, err := os.Stat(db.address); err == nil {
				b.Logf("the file has %d MB", info.Size()/1_000_000)
			}
			last := int64(*benchArticles) - 25
			for _, page := range []struct {
				name string
				skip int64
			}{{"first", 0}, {"middle", last / 2}, {"last", last}} {
				b.Run("page="+page.name, func(b *testing.B) {
					measure(b, func(ctx context.Context, _ int) error {
						articles, err := store.Articles(ctx, page.skip, 25)
						if err == nil && len(articles) != 25 {
							b.Errorf("%d articles", len(articles))
						}
						return err
					})
				})
			}
			b.Run("productUpdate", func(b *testing.B) {
				measure(b, func(ctx context.Context, i int) error {
					_, err := store.ProductUpdate(ctx, fmt.Sprint(i*100%*benchArticles), content.Everybody)
					return err
				})
			})
			b.Run("reply", func(b *testing.B) {
				measure(b, func(ctx context.Context, i int) error {
					i = i * 100 % *benchArticles
					_, err := store.Reply(ctx, fmt.Sprint(1_000_000+i), fmt.Sprint(i), content.Everybody)
					return err
				})
			})
			b.Run("write", func(b *testing.B) {
				measure(b, func(ctx context.Context, i int) error {
					n := i * 7919 % *benchArticles
					return store.Write(ctx, []content.Record{reply(fmt.Sprint(1_000_000+n), fmt.Sprint("new", i), "2026-01-01T00:00:00+00:00")})
				})
			})
		})
	}
}

// measure reports the median and the 99th percentile of the durations of f.
func measure(b *testing.B, f func(ctx context.Context, i int) error) {
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		testworld.Check(b, f(b.Context(), i))
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
