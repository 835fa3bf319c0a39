// Package content defines the records of a community (product updates, articles and their replies) as the content
// interface shows them (specification.md 6), and the interfaces of a store of such records.
//
// A record in JSON always has all of its fields. One without a value is "", 0, false, [] or an object, never null.
package content

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"
)

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

// ParseTimestamp parses a timestamp of RFC 3339, or "". The offset Z becomes +00:00. It returns an error if text is
// malformed, or if its year in UTC does not have four digits.
func ParseTimestamp(text string) (Timestamp, error) {
	if text == "" {
		return "", nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || !timestamp.MatchString(text) {
		return "", errors.New("this is no timestamp of RFC 3339, such as 2026-03-01T09:30:00+01:00")
	}
	if year := t.UTC().Year(); year < 0 || year > 9999 {
		return "", errors.New("in UTC, this timestamp has no year of four digits")
	}
	if local, ok := strings.CutSuffix(text, "Z"); ok {
		text = local + "+00:00"
	}
	return Timestamp(text), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] with [ParseTimestamp].
func (t *Timestamp) UnmarshalText(text []byte) error {
	parsed, err := ParseTimestamp(string(text))
	if err == nil {
		*t = parsed
	}
	return err
}

// Instant returns the point in time as a [time.Time]. ok is false if t is empty or malformed.
func (t Timestamp) Instant() (instant time.Time, ok bool) {
	instant, err := time.Parse(time.RFC3339, string(t))
	return instant, err == nil
}
