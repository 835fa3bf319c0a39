package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

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
	}
	for _, r := range id {
		if unicode.IsControl(r) {
			return errors.New("the id has control characters")
		}
	}
	return nil
}
