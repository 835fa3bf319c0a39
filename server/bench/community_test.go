package bench

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
)

// A community has the records that docs/benchmarks.md describes, and those that the requests ask for.
func TestCommunity(t *testing.T) {
	c := community{articles: 10_000}
	listed, trashed, updates, replies, octets := 0, 0, 0, 0, 0
	activities := map[content.Timestamp]int{}
	ids := map[string]bool{}
	for r := range c.records() {
		switch {
		case r.Article != nil && r.Article.Trashed:
			trashed++
		case r.Article != nil:
			listed++
			text := testworld.Must(json.Marshal(r.Article))(t)
			octets += len(text)
			activities[r.Article.LastActivityAt]++
		case r.ProductUpdate != nil:
			updates++
			ids[r.ProductUpdate.ID] = true
		default:
			replies++
			ids[r.ArticleID+" "+r.Reply.ID] = true
		}
	}
	if listed != 10_000 || trashed != 100 || updates != 1000 || replies != 2000 {
		t.Errorf("%d articles, %d trashed ones, %d product updates, %d replies", listed, trashed, updates, replies)
	}
	if mean := octets / listed; mean < 1900 || mean > 2300 {
		t.Errorf("an article has %d bytes", mean)
	}
	if equal := activities[timestamp(born)]; equal < 1000 || equal > 2500 {
		t.Errorf("%d have the activity of those that were moved", equal)
	}
	for n := range c.articles {
		if article, reply := c.replyOf(n); !ids[article+" "+reply] {
			t.Fatalf("there is no reply %s of article %s", reply, article)
		}
	}
	for n := range c.updates() {
		if !ids[updateID(n)] {
			t.Fatalf("there is no product update %s", updateID(n))
		}
	}
}

func TestCommunityRepeats(t *testing.T) {
	c := community{articles: 500}
	first := slices.Collect(c.records())
	if again := slices.Collect(c.records()); !reflect.DeepEqual(first, again) {
		t.Error("it differs")
	}
	n := 0
	for batch := range batches(c, 100) {
		for _, r := range batch {
			if !reflect.DeepEqual(r, first[n]) {
				t.Fatalf("record %d of the batches is another", n)
			}
			n++
		}
	}
	if n != len(first) {
		t.Errorf("the batches have %d records of %d", n, len(first))
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 40_000: "40,000", 1_234_567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
}
