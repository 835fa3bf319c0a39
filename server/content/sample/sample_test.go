package sample

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/importer"
)

// community holds the records of the sample.
type community struct {
	updates    map[string]*content.ProductUpdate
	articles   map[string]*content.Article
	replies    map[string][]*content.Reply // by the article's id
	moderators map[string]bool
}

func (c *community) Write(_ context.Context, records []content.Record) error {
	for _, r := range records {
		switch {
		case r.ProductUpdate != nil:
			c.updates[r.ProductUpdate.ID] = r.ProductUpdate
		case r.Article != nil:
			c.articles[r.Article.ID] = r.Article
		case r.Reply != nil:
			c.replies[r.ArticleID] = append(c.replies[r.ArticleID], r.Reply)
		default:
			c.moderators[r.Moderator.ID] = true
		}
	}
	return nil
}

func read(t *testing.T) *community {
	t.Helper()
	c := &community{map[string]*content.ProductUpdate{}, map[string]*content.Article{}, map[string][]*content.Reply{}, map[string]bool{}}
	result, err := importer.Import(t.Context(), c, Name, Records(), importer.Options{Problem: func(p importer.Problem) { t.Error(p) }})
	if err != nil || result.Problems > 0 {
		t.Fatal(result, err)
	}
	replies := 0
	for _, all := range c.replies {
		replies += len(all)
	}
	if result.ProductUpdates != len(c.updates) || result.Articles != len(c.articles) || result.Replies != replies || result.Moderators != len(c.moderators) {
		t.Errorf("two records have the same id: %+v", result)
	}
	return c
}

// The sample has enough records of each kind to try each operation with all of its responses.
func TestTheSampleHasEachKindOfRecord(t *testing.T) {
	c := read(t)
	has := map[string]int{"product updates": len(c.updates), "articles": len(c.articles), "moderators": len(c.moderators)}
	for _, u := range c.updates {
		count(has, "trashed product updates", u.Trashed)
		count(has, "scheduled product updates", u.Status == "scheduled")
		count(has, "product updates with a URL that stands alone", strings.Contains(u.Body, "<p>https://"))
	}
	for _, a := range c.articles {
		count(has, "trashed articles", a.Trashed)
		count(has, "scheduled articles", a.Status == "scheduled")
		count(has, "polls", len(a.Poll) > 0)
		count(has, "articles without replies", a.TotalReplyCount == 0)
	}
	offsets := map[string]bool{}
	for _, replies := range c.replies {
		for _, r := range replies {
			count(has, "replies", true)
			count(has, "trashed replies", r.Trashed)
			count(has, "spam", r.Spam)
			count(has, "pending replies", r.PendingApproval)
			count(has, "reported replies", r.Reported && r.Visible())
			count(has, "highlighted replies", r.Highlighted)
			offsets[string(r.RepliedAt[len(r.RepliedAt)-6:])] = true
		}
	}
	has["offsets"] = len(offsets)
	for what, least := range map[string]int{
		"product updates": 40, "articles": 120, "replies": 250, "moderators": 3, "trashed product updates": 1, "scheduled product updates": 1,
		"product updates with a URL that stands alone": 7, "trashed articles": 1, "scheduled articles": 1, "polls": 2, "articles without replies": 1,
		"trashed replies": 1, "spam": 1, "pending replies": 1, "reported replies": 1, "highlighted replies": 50, "offsets": 8,
	} {
		if has[what] < least {
			t.Errorf("the sample has %d %s, not %d", has[what], what, least)
		}
	}
}

func count(has map[string]int, what string, is bool) {
	if is {
		has[what]++
	}
}

// The counts and times of an article agree with its replies.
func TestTheNumbersOfTheSampleAgree(t *testing.T) {
	c := read(t)
	for id, a := range c.articles {
		var want content.Counts
		last := a.PublishedAt
		for _, r := range c.replies[id] {
			want.TotalReplyCount++
			want.InclusiveReplyCount++
			switch {
			case r.Trashed:
				want.TrashedReplyCount++
			case r.Spam:
				want.SpamReplyCount++
			case r.PendingApproval:
				want.PendingReplyCount++
			default:
				want.ReplyCount++
				want.InclusiveVisibleReplyCount++
				if instant(r.RepliedAt).After(instant(last)) {
					last = r.RepliedAt
				}
			}
			if !instant(r.RepliedAt).After(instant(a.PublishedAt)) {
				t.Errorf("reply %s is older than its article %s", r.ID, id)
			}
			if r.Reported != (len(r.ReportedContent) > 0) {
				t.Errorf("reply %s is reported: %t, but has %d reports", r.ID, r.Reported, len(r.ReportedContent))
			}
		}
		if a.Counts != want {
			t.Errorf("article %s has %+v, but says %+v", id, want, a.Counts)
		}
		if !instant(a.LastActivityAt).Equal(instant(last)) {
			t.Errorf("the last activity of article %s was %s, but it says %s", id, last, a.LastActivityAt)
		}
		if a.ContainsPoll != (len(a.Poll) > 0) || instant(a.LastModifiedAt).Before(instant(a.CreatedAt)) || (a.Status == "scheduled") != (a.ScheduledAt != "") {
			t.Errorf("article %s contradicts itself", id)
		}
	}
	for id := range c.replies {
		if c.articles[id] == nil {
			t.Errorf("there are replies to article %s, which is not there", id)
		}
	}
}

func instant(t content.Timestamp) time.Time {
	at, _ := t.Instant()
	return at
}
