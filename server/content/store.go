package content

import (
	"context"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// ErrNotFound is the error of a record that is not there, or not for who asks.
var ErrNotFound = errors.New("there is no such record")

// Audience is who a record is read for.
type Audience bool

// Audiences.
const (
	Everybody  Audience = false
	Moderators Audience = true // who see what is trashed, spam or waits for approval, too
)

// Store is where records are read. Its methods are safe for concurrent use. Each sees one state of all records, and
// fails with [ErrNotFound] for an id that no record can have ([CheckID]).
type Store interface {
	// ProductUpdate returns one that is not trashed, or any of them to moderators.
	ProductUpdate(ctx context.Context, id string, audience Audience) (*ProductUpdate, error)
	// Articles returns up to limit articles that are not trashed, after skipping others, by last activity, the latest
	// first, and by id, the greatest first (compared by bytes), where that is equal. The last activity is the later of
	// LastActivityAt and the newest visible reply; articles that have neither come last.
	Articles(ctx context.Context, skip int64, limit int) ([]Article, error)
	// Reply returns one that is visible, of an article that is not trashed, or any of an article to moderators.
	Reply(ctx context.Context, articleID, id string, audience Audience) (*Reply, error)
	// Moderator reports whether there is a moderator of this id.
	Moderator(ctx context.Context, id string) (bool, error)
}

// Writer is where records are written.
type Writer interface {
	// Write stores records, all of them or none. One that is there already is replaced; of two in one call the later counts.
	// A reply may come before its article: it is there, for whoever asks, as soon as the article is.
	Write(ctx context.Context, records []Record) error
}

// Record is one of what a [Writer] writes: one of the pointers is not nil.
type Record struct {
	ProductUpdate *ProductUpdate
	Article       *Article
	Reply         *Reply
	ArticleID     string // of the reply: its id is unique in its article
	Moderator     *Moderator
}

// Moderator is somebody who may see everything.
type Moderator struct {
	ID string `json:"id"`
}

// MaxID is how many bytes an id may have.
const MaxID = 255

// CheckID says what is wrong with an id, or nil.
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
