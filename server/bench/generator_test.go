package bench

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
)

// A community is generated content, always the same for its size: ten years of articles of about 2 KB, more each year, and in
// addition a trashed one for every hundred. For every ten articles there are one product update and two replies.
type community struct {
	// articles is the number of articles in the list.
	articles int
}

const firstArticle = 1_000_000

func articleID(i int) string { return strconv.Itoa(firstArticle + i) }
func updateID(i int) string  { return strconv.Itoa(i + 1) }

// updates returns the number of product updates.
func (c community) updates() int { return c.articles / 10 }

// all returns the number of articles, including trashed ones.
func (c community) all() int { return c.articles + c.articles/100 }

// repliesOf returns the number of replies of an article. Most articles have no replies.
func (c community) repliesOf(i int) int {
	if i >= c.articles {
		return 0
	}
	return map[int]int{0: mostReplies, 10: 2, 20: 1, 30: 1}[i%50]
}

const mostReplies = 6

// replyOf returns the IDs of the n-th reply among those of the articles with mostReplies replies.
func (c community) replyOf(n int) (article, reply string) {
	i := n / mostReplies * 50 % c.articles
	return articleID(i), strconv.Itoa(n%mostReplies + 1)
}

// The community begins at born, and moves to this system at moved. Records from before have the time of the move, because a
// migration often does not preserve older times. So a fifth of the articles, and the last pages of the list, have the same time.
var (
	born  = time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC)
	moved = time.Date(2020, 6, 1, 0, 0, 0, 0, time.UTC)
	today = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// records returns the records in the order of an export: each article before its replies, with product updates in between.
func (c community) records() iter.Seq[content.Record] {
	return func(yield func(content.Record) bool) {
		g := generator{rand.New(rand.NewPCG(5, 2026))}
		for i := range c.all() {
			created := born.Add(time.Duration(float64(today.Sub(born)) * math.Sqrt(float64(i)/float64(c.all()))))
			if i%10 == 0 && i/10 < c.updates() && !yield(content.Record{ProductUpdate: g.update(i/10, created)}) {
				return
			}
			article := g.article(i, created)
			article.Trashed = i >= c.articles
			replies := c.repliesOf(i)
			article.ReplyCount, article.TotalReplyCount = int64(replies), int64(replies)
			if !yield(content.Record{Article: article}) {
				return
			}
			for j := range replies {
				if !yield(content.Record{Reply: g.reply(j+1, created), ArticleID: article.ID}) {
					return
				}
			}
		}
	}
}

type generator struct{ *rand.Rand }

func (g generator) article(i int, created time.Time) *content.Article {
	return &content.Article{
		ID: articleID(i), PublicID: g.publicID(), Title: g.title(), Body: g.body(500), CategoryID: strconv.Itoa(g.IntN(40) + 1),
		Author: g.author(), CreatedAt: timestamp(created), PublishedAt: timestamp(created),
		LastModifiedAt: timestamp(g.after(created)), LastActivityAt: timestamp(g.after(created)),
		Tags: content.List[string]{g.word(), g.word()}, LikedBy: content.List[string]{strconv.Itoa(g.IntN(20_000)), strconv.Itoa(g.IntN(20_000))},
		Status: "published", IsPreviewPublic: true, SEOCommunityURL: "https://community.example.com/articles/" + articleID(i),
		Links: content.Links{Self: content.Object(`{"href":"/articles/` + articleID(i) + `"}`)},
	}
}

func (g generator) update(i int, created time.Time) *content.ProductUpdate {
	return &content.ProductUpdate{
		ID: updateID(i), PublicID: g.publicID(), Title: g.title(), PublicLabel: "Improved", Body: g.body(500), Author: g.author(),
		CreatedAt: timestamp(created), Tags: content.List[string]{g.word()}, ProductAreas: content.List[content.ProductArea]{{ID: "3", Name: "Connectors"}},
		Status: "published", SEOCommunityURL: "https://community.example.com/product-updates/" + updateID(i),
	}
}

func (g generator) reply(i int, created time.Time) *content.Reply {
	return &content.Reply{
		ID: strconv.Itoa(i), PublicReplyID: g.publicID(), Content: g.body(200), Author: g.author(), RepliedAt: timestamp(g.after(created)),
		Permalink: "https://community.example.com/replies/" + strconv.Itoa(i),
	}
}

func (g generator) author() content.Author {
	// Some people write much more than others.
	id := int(20_000 * math.Pow(g.Float64(), 3))
	name := words[id%len(words)] + "." + words[id/len(words)%len(words)] + strconv.Itoa(id)
	return content.Author{
		ID: strconv.Itoa(id), Username: name, CustomTitle: "Integration engineer", Avatar: "https://images.example.com/avatars/" + name + ".png",
		Reputation: content.Reputation{
			Rank: "Expert", RankIcon: "https://images.example.com/ranks/expert.svg", RankIconThumbnail: "https://images.example.com/ranks/expert-24.png",
			LikesReceived: int64(id % 977), RepliesMade: int64(id % 1733),
		},
	}
}

// after returns a time between begin and today: for most records soon after begin, for some years later.
func (g generator) after(begin time.Time) time.Time {
	hours := math.Exp(4 + 2.5*g.NormFloat64()) // 55 is the median
	if rest := today.Sub(begin); hours < rest.Hours() {
		return begin.Add(time.Duration(hours * float64(time.Hour)))
	}
	return begin.Add(time.Duration(g.Float64() * float64(today.Sub(begin))))
}

func timestamp(t time.Time) content.Timestamp {
	if t.Before(moved) {
		t = moved
	}
	return content.Timestamp(t.Format("2006-01-02T15:04:05+00:00"))
}

// words are those of people who integrate systems.
var words = strings.Fields(`the a to of and is that it with for not when after this we no can has was from at by an on in if then
	job export import cursor token page webhook connector field order record error time limit request answer retry log queue key header
	customer schema mapping filter nightly batch version sandbox production account secret header status field timeout proxy invoice stock
	address warehouse supplier catalogue price tax region currency report dashboard alert owner team change release note question solved
	same still every only before again without because shows fails works returns arrives starts stops sends waits checks keeps empty`)

func (g generator) word() string { return words[g.IntN(len(words))] }

func (g generator) title() string {
	return strings.ToUpper(g.word()[:1]) + g.word() + " " + g.word() + " " + g.word() + " " + g.word()
}

func (g generator) publicID() string { return fmt.Sprintf("%010x", g.Uint64()>>24) }

// body returns HTML of about octets bytes: at least half as many, and sometimes a few times as many.
func (g generator) body(octets int) string {
	length := int(float64(octets) * (0.5 + 0.5*g.ExpFloat64()))
	var b strings.Builder
	for b.Len() < length {
		b.WriteString("<p>")
		for range 20 + g.IntN(30) {
			b.WriteString(g.word())
			b.WriteByte(' ')
		}
		b.WriteString("<code>" + g.word() + "</code>.</p>")
	}
	return b.String()
}

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
