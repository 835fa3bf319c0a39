// Package content defines the records of a community (product updates, articles and their replies) as the content
// interface shows them (specification.md 6), and the interfaces of a store of such records.
//
// A record in JSON always has all of its fields. One without a value is "", 0, false, [] or an object, never null.
package content

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxPageSize is the maximum number of articles in a page.
const MaxPageSize = 100

// Author describes the author of a text, as of the time when the text was stored.
type Author struct {
	ID          string `json:"id"`
	Username    string `json:"username"`
	CustomTitle string `json:"customTitle"`
	Signature   string `json:"signature"`
	// Avatar is the URL of an image.
	Avatar     string     `json:"avatar"`
	Reputation Reputation `json:"reputation"`
}

// Reputation is the standing of an author in the community.
type Reputation struct {
	Rank string `json:"rank"`
	// RankIcon and RankIconThumbnail are URLs.
	RankIcon          string `json:"rankIcon"`
	RankIconThumbnail string `json:"rankIconThumbnail"`
	LikesReceived     int64  `json:"likesReceived"`
	RepliesMade       int64  `json:"repliesMade"`
}

// Counts holds the numbers of replies of a record, by their state.
type Counts struct {
	ReplyCount                 int64 `json:"replyCount"`
	SpamReplyCount             int64 `json:"spamReplyCount"`
	PendingReplyCount          int64 `json:"pendingReplyCount"`
	TrashedReplyCount          int64 `json:"trashedReplyCount"`
	TotalReplyCount            int64 `json:"totalReplyCount"`
	InclusiveReplyCount        int64 `json:"inclusiveReplyCount"`
	InclusiveVisibleReplyCount int64 `json:"inclusiveVisibleReplyCount"`
}

// LastEdit is the last change of a text. Its fields have the types of specification.md 6.11.
type LastEdit struct {
	ID       string       `json:"id"`
	Editor   List[string] `json:"editor"`
	EditedAt bool         `json:"editedAt"`
}

// ScheduledBy is the user who set the time of publication.
type ScheduledBy struct {
	ID       string `json:"id"`
	Username string `json:"username"`
	// Avatar is the URL of an image.
	Avatar string `json:"avatar"`
}

// ProductUpdate is news about a product.
type ProductUpdate struct {
	ID                   string `json:"id"`
	PublicID             string `json:"publicId"`
	Title                string `json:"title"`
	FeaturedImage        string `json:"featuredImage"`
	FeaturedImageAltText string `json:"featuredImageAltText"`
	PublicLabel          string `json:"publicLabel"`
	// Body is HTML.
	Body      string    `json:"body"`
	Author    Author    `json:"author"`
	CreatedAt Timestamp `json:"createdAt"`
	Counts
	Tags            List[string]      `json:"tags"`
	ModeratorTags   List[string]      `json:"moderatorTags"`
	LikedBy         List[string]      `json:"likedBy"`
	ProductAreas    List[ProductArea] `json:"productAreas"`
	Sticky          bool              `json:"sticky"`
	Closed          bool              `json:"closed"`
	Trashed         bool              `json:"trashed"`
	ContainsPoll    bool              `json:"containsPoll"`
	LastEdit        LastEdit          `json:"lastEdit"`
	Status          string            `json:"status"`
	ScheduledBy     ScheduledBy       `json:"scheduledBy"`
	SEOCommunityURL string            `json:"seoCommunityUrl"`
}

// ProductArea is a part of a product.
type ProductArea struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Article is a text of the community that has replies.
type Article struct {
	ID                   string `json:"id"`
	PublicID             string `json:"publicId"`
	Title                string `json:"title"`
	FeaturedImage        string `json:"featuredImage"`
	FeaturedImageAltText string `json:"featuredImageAltText"`
	PublicLabel          string `json:"publicLabel"`
	// Body is HTML.
	Body        string    `json:"body"`
	CategoryID  string    `json:"categoryId"`
	Author      Author    `json:"author"`
	CreatedAt   Timestamp `json:"createdAt"`
	PublishedAt Timestamp `json:"publishedAt"`
	// LastActivityAt is the time of the last activity: a [Store] returns the value that was written, or the time of the newest
	// visible reply if that is later, in UTC.
	LastActivityAt Timestamp `json:"lastActivityAt"`
	LastModifiedAt Timestamp `json:"lastModifiedAt"`
	ScheduledAt    Timestamp `json:"scheduledAt"`
	Counts
	Tags            List[string] `json:"tags"`
	ModeratorTags   List[string] `json:"moderatorTags"`
	LikedBy         List[string] `json:"likedBy"`
	Poll            List[string] `json:"poll"`
	Sticky          bool         `json:"sticky"`
	Closed          bool         `json:"closed"`
	Trashed         bool         `json:"trashed"`
	ContainsPoll    bool         `json:"containsPoll"`
	IsPreviewPublic bool         `json:"isPreviewPublic"`
	LastEdit        LastEdit     `json:"lastEdit"`
	Status          string       `json:"status"`
	ScheduledBy     ScheduledBy  `json:"scheduledBy"`
	SEOCommunityURL string       `json:"seoCommunityUrl"`
	Links           Links        `json:"_links"`
}

// Links holds the links of an article.
type Links struct {
	Self Object `json:"self"`
}

// Reply is an answer to an article.
type Reply struct {
	ID            string `json:"id"`
	PublicReplyID string `json:"publicReplyId"`
	// Content is HTML.
	Content                    string       `json:"content"`
	Author                     Author       `json:"author"`
	RepliedAt                  Timestamp    `json:"repliedAt"`
	InclusiveReplyCount        int64        `json:"inclusiveReplyCount"`
	InclusiveVisibleReplyCount int64        `json:"inclusiveVisibleReplyCount"`
	Trashed                    bool         `json:"trashed"`
	Spam                       bool         `json:"spam"`
	Reported                   bool         `json:"reported"`
	PendingApproval            bool         `json:"pendingApproval"`
	Highlighted                bool         `json:"highlighted"`
	ReportedContent            List[Report] `json:"reportedContent"`
	LikedBy                    List[string] `json:"likedBy"`
	// Permalink is a URL.
	Permalink string `json:"permalink"`
}

// Visible reports whether everybody may see the reply, provided that its article is not trashed.
func (r *Reply) Visible() bool { return !r.Trashed && !r.Spam && !r.PendingApproval }

// Report is a user's complaint about a reply.
type Report struct {
	ID         string    `json:"id"`
	Reason     string    `json:"reason"`
	ReportedAt Timestamp `json:"reportedAt"`
	ReportedBy Author    `json:"reportedBy"`
}

// List is a slice whose JSON is [] if it is nil.
type List[T any] []T

// MarshalJSON implements [json.Marshaler].
func (l List[T]) MarshalJSON() ([]byte, error) {
	if len(l) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// Object is the JSON text of an object whose members are not specified. "" stands for {}.
type Object string

// MarshalJSON implements [json.Marshaler].
func (o Object) MarshalJSON() ([]byte, error) {
	if o == "" {
		return []byte("{}"), nil
	}
	return []byte(o), nil
}

// UnmarshalJSON implements [json.Unmarshaler]. It drops white space and accepts null as {}.
func (o *Object) UnmarshalJSON(text []byte) error {
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return err
	}
	switch text := compact.String(); {
	case text == "null", text == "{}":
		*o = ""
	case !strings.HasPrefix(text, "{"):
		return errors.New("this is no object")
	default:
		*o = Object(text)
	}
	return nil
}

// Timestamp is a time of RFC 3339 with the offset of its source. UTC has the offset +00:00. "" means no time.
type Timestamp string

// timestamp is stricter than time.Parse, which accepts a comma in the seconds and an offset of a day.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// UnmarshalText implements [encoding.TextUnmarshaler]. It parses a timestamp of RFC 3339, or "". The offset Z becomes +00:00. It
// returns an error if text is malformed, or if its year in UTC does not have four digits.
func (t *Timestamp) UnmarshalText(text []byte) error {
	instant, err := time.Parse(time.RFC3339, string(text))
	year := instant.UTC().Year()
	switch {
	case len(text) == 0:
	case err != nil || !timestamp.Match(text):
		return errors.New("this is no timestamp of RFC 3339, such as 2026-03-01T09:30:00+01:00")
	case year < 0 || year > 9999:
		return errors.New("in UTC, this timestamp has no year of four digits")
	}
	*t = Timestamp(text)
	if local, ok := strings.CutSuffix(string(text), "Z"); ok {
		*t = Timestamp(local + "+00:00")
	}
	return nil
}

// Instant returns the point in time as a [time.Time]. ok is false if t is empty or malformed.
func (t Timestamp) Instant() (instant time.Time, ok bool) {
	instant, err := time.Parse(time.RFC3339, string(t))
	return instant, err == nil
}

// ErrNotFound is returned for a record that does not exist, or that the audience may not see.
var ErrNotFound = errors.New("there is no such record")

// ErrUnavailable is returned while the database cannot be reached. The same call may succeed later.
var ErrUnavailable = errors.New("the database is not available")

// Audience selects the records that a reader may see.
type Audience bool

// The audiences. Moderators also see records that are trashed, are spam or wait for approval.
const (
	Everybody  Audience = false
	Moderators Audience = true
)

// Store reads records. Its methods are safe for concurrent use. Each call sees one consistent state of all records. Errors
// wrap [ErrUnavailable] while the database is away.
type Store interface {
	// ProductUpdate returns a product update. Everybody sees it unless it is trashed; moderators see any. The error
	// wraps [ErrNotFound] if there is none, and for an id that fails [CheckID].
	ProductUpdate(ctx context.Context, id string, audience Audience) (*ProductUpdate, error)
	// Articles skips the first skip articles that are not trashed and returns up to limit of the next ones. They are
	// sorted by last activity, the latest first, and then by the bytes of the id, the greatest first. The last activity
	// of an article is the later of what was written and its newest visible reply. Articles without either come last.
	Articles(ctx context.Context, skip int64, limit int) ([]Article, error)
	// ArticlesAfter returns up to limit of the articles that are not trashed and whose ids come after an id. They are sorted by the
	// bytes of the id, the smallest first. Since an id never changes, a reader that goes on after the last id of each page sees
	// each article that exists all the time exactly once, whatever is written meanwhile. "" comes before all ids.
	ArticlesAfter(ctx context.Context, id string, limit int) ([]Article, error)
	// Reply returns a reply. Everybody sees it if it is visible and its article is not trashed; moderators see any reply
	// of an article that exists. The error wraps [ErrNotFound] if there is none, and for an id that fails [CheckID].
	Reply(ctx context.Context, articleID, id string, audience Audience) (*Reply, error)
	// Moderator reports whether a moderator has this id.
	Moderator(ctx context.Context, id string) (bool, error)
}

// Writer writes records.
type Writer interface {
	// Write stores all of the records or none. A record replaces an earlier one of the same id, in the same call too.
	// A reply may be written before its article; it becomes readable once the article exists. A record with Deleted
	// removes what was written before it, in the same call too. Removing a record that does not exist is no error.
	Write(ctx context.Context, records []Record) error
}

// Database is a store that can also be written. Any number of processes may open the same one.
type Database interface {
	Store
	Writer
	// Export writes all records as NDJSON, one state of them, in the form that an import reads: moderators, product updates, articles
	// and replies, each sorted by their ids. Records that are equal have the same bytes. It returns what Status does.
	Export(ctx context.Context, w io.Writer) (Status, error)
	// Status counts the records.
	Status(ctx context.Context) (Status, error)
	// Close closes the database after the running calls have ended.
	Close() error
}

// Status describes the records of a [Database].
type Status struct {
	// The numbers of records, with hidden ones. Replies has those whose article is not there, too.
	Moderators     int64 `json:"moderators"`
	ProductUpdates int64 `json:"productUpdates"`
	Articles       int64 `json:"articles"`
	Replies        int64 `json:"replies"`
	// Listed is the number of articles that are not trashed.
	Listed int64 `json:"listed"`
	// Newest is the latest last activity of those. It is "" if there is none.
	Newest Timestamp `json:"newest"`
}

// Record is a record to be written by a [Writer]. Exactly one of its pointers is not nil.
type Record struct {
	ProductUpdate *ProductUpdate
	Article       *Article
	Reply         *Reply
	// ArticleID is the id of the article of Reply. The id of a reply is unique within its article only.
	ArticleID string
	Moderator *Moderator
	// Deleted reports that the record of this type and id is to be removed, and with an article all of its replies. No
	// other field of the record has an effect then.
	Deleted bool
}

// Moderator is a person who may see everything.
type Moderator struct {
	ID string `json:"id"`
}

// MaxID is the maximum length of an id in bytes.
const MaxID = 255

// CheckID returns an error for an id that is empty, longer than [MaxID], not UTF-8, or has control characters.
func CheckID(id string) error {
	switch {
	case id == "":
		return errors.New("the id is empty")
	case len(id) > MaxID:
		return fmt.Errorf("the id has more than %d bytes", MaxID)
	case !utf8.ValidString(id):
		return errors.New("the id is not UTF-8")
	case strings.ContainsFunc(id, unicode.IsControl):
		return errors.New("the id has control characters")
	}
	return nil
}
