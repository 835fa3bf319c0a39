package bench

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
)

var crawls = flag.Int("crawls", 20, "the crawls of each database, while 200 replies a second arrive")

// A crawl by cursor of "keywright content serve" sees each article that exists all the time exactly once, while replies arrive and
// articles come and go.
func TestCrawls(t *testing.T) {
	for _, c := range newContents(t, 300) {
		t.Run(c.engine, func(t *testing.T) {
			c.TB = t
			address := c.fill()
			articles, _ := start(t, keywright(t, "content", "serve", "--db", address, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
			store := openContent(t, address)
			defer store.Close()
			writing, end := context.WithCancel(t.Context())
			replies := make(chan int, 1)
			go func() { replies <- reply(writing, store, c.community.articles) }()
			began, wrong := time.Now(), 0
			for n := range *crawls {
				seen := crawl(t, articles)
				for i := range c.community.articles {
					if id := articleID(i); seen[id] != 1 {
						wrong++
						t.Errorf("crawl %d has seen article %s %d times", n, id, seen[id])
					}
				}
			}
			took := time.Since(began)
			end()
			written := <-replies
			if written == 0 {
				t.Error("no reply was written")
			}
			t.Logf("%d crawls of %d articles in %.0f s, while %d replies arrived: %d times an article was not seen exactly once",
				*crawls, c.community.articles, took.Seconds(), written, wrong)
		})
	}
}

// crawl follows the cursors of articles, and counts how often it sees each.
func crawl(t *testing.T, articles string) (seen map[string]int) {
	t.Helper()
	seen = map[string]int{}
	origin, _, _ := strings.Cut(articles, "/articles")
	for next := articles + "?cursor="; next != ""; {
		response := testworld.Must(http.Get(next))(t)
		var page struct{ Result []content.Article }
		err := json.NewDecoder(response.Body).Decode(&page)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: response.Status = %s, err = %v", next, response.Status, err)
		}
		for _, a := range page.Result {
			seen[a.ID]++
		}
		path, found := strings.CutSuffix(strings.TrimPrefix(response.Header.Get("Link"), "<"), `>; rel="next"`)
		if next = origin + path; !found {
			next = ""
		}
	}
	return seen
}

// reply writes 200 replies a second, and with each an article that comes or goes, until ctx ends. It returns their number.
func reply(ctx context.Context, store content.Writer, articles int) (written int) {
	tick := time.NewTicker(time.Second / 200)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return written
		case now := <-tick.C:
			var records []content.Record
			for i := written; i < int(now.Sub(began)/(time.Second/200)); i++ {
				records = append(records,
					content.Record{Reply: &content.Reply{ID: fmt.Sprint("late-", i), RepliedAt: timestamp(now.UTC())}, ArticleID: articleID(i * 7 % articles)},
					content.Record{Article: &content.Article{ID: fmt.Sprint(firstArticle, "-", i/2%50)}, Deleted: i%2 > 0})
			}
			if store.Write(ctx, records) == nil {
				written += len(records) / 2
			}
		}
	}
}
