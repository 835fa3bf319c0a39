package sqlstore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	fast "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/server/content"
)

// batch holds the rows of one call of Write. Of records with the same id it holds the last. A row holds the values of
// its columns in the order of the INSERT statement. It is nil if the record is to be removed.
type batch struct {
	productUpdates map[key][]any
	articles       map[string]article
	// replies holds rows by the id of the article, and below it by their keys.
	replies    map[string]map[key][]any
	moderators map[key][]any
	// emptied holds the ids of articles whose replies from before this batch are to be removed, all of them.
	emptied map[key][]any
}

type article struct {
	id, table, record string
	trashed, deleted  bool
}

func gather(records []content.Record) (*batch, error) {
	b := &batch{
		productUpdates: map[key][]any{}, articles: map[string]article{}, replies: map[string]map[key][]any{}, moderators: map[key][]any{},
		emptied: map[key][]any{},
	}
	for i, r := range records {
		if err := b.add(r); err != nil {
			return nil, fmt.Errorf("record %d of %d: %w", i+1, len(records), err)
		}
	}
	return b, nil
}

// add adds the row of a record, or its removal.
func (b *batch) add(r content.Record) error {
	row := func(columns ...any) []any {
		if r.Deleted {
			return nil
		}
		return columns
	}
	switch {
	case r.ProductUpdate != nil:
		text, err := checked("product update", r.ProductUpdate.ID, r.ProductUpdate, r.Deleted)
		b.productUpdates[key{id: r.ProductUpdate.ID}] = row(r.ProductUpdate.ID, r.ProductUpdate.Trashed, text)
		return err
	case r.Article != nil:
		id := r.Article.ID
		text, err := checked("article", id, r.Article, r.Deleted)
		b.articles[id] = article{id: id, trashed: r.Article.Trashed, table: instant(r.Article.LastActivityAt), record: text, deleted: r.Deleted}
		if r.Deleted {
			b.emptied[key{id: id}] = []any{id}
			delete(b.replies, id)
		}
		return err
	case r.Reply != nil:
		if err := content.CheckID(r.ArticleID); err != nil {
			return fmt.Errorf("article of a reply: %w", err)
		}
		text, err := checked("reply", r.Reply.ID, r.Reply, r.Deleted)
		if b.replies[r.ArticleID] == nil {
			b.replies[r.ArticleID] = map[key][]any{}
		}
		b.replies[r.ArticleID][key{r.ArticleID, r.Reply.ID}] = row(r.ArticleID, r.Reply.ID, r.Reply.Visible(), instant(r.Reply.RepliedAt), text)
		return err
	case r.Moderator != nil:
		_, err := checked("moderator", r.Moderator.ID, r.Moderator, r.Deleted)
		b.moderators[key{id: r.Moderator.ID}] = row(r.Moderator.ID)
		return err
	}
	return errors.New("it is empty")
}

// checked returns the encoded record. It decodes it again, since one unreadable record would fail a whole page. Of a record that is to be
// removed, it checks the id only.
func checked[T any](name, id string, record *T, deleted bool) (text string, err error) {
	if err := content.CheckID(id); deleted {
		return "", err
	} else if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if text, err = encode(record); err != nil {
		return "", fmt.Errorf("%s: it cannot be stored: %w", name, err)
	}
	if err := decode([]byte(text), new(T)); err != nil {
		return "", fmt.Errorf("%s: it could not be read again: %w", name, err)
	}
	return text, nil
}

// touched returns the ids of the articles in a batch and of the articles of its replies, one per row.
func (b *batch) touched() [][]any {
	ids := slices.AppendSeq(slices.Collect(maps.Keys(b.articles)), maps.Keys(b.replies))
	slices.Sort(ids)
	var rows [][]any
	for _, id := range slices.Compact(ids) {
		rows = append(rows, []any{id})
	}
	return rows
}

// key orders rows by first, the activity of an article in the list, the id of a reply's article, or "", and by id.
type key struct{ first, id string }

func (k key) compare(l key) int {
	return cmp.Or(cmp.Compare(k.first, l.first), cmp.Compare(k.id, l.id))
}

// sorted returns rows sorted by key, because databases write them fastest in this order. removed has the keys of the rows
// that are nil, as rows of one column, or of two for replies.
func sorted(rows map[key][]any) (inserts, removed [][]any) {
	inserts = make([][]any, 0, len(rows))
	for _, k := range slices.SortedFunc(maps.Keys(rows), key.compare) {
		switch row := rows[k]; {
		case row != nil:
			inserts = append(inserts, row)
		case k.first == "":
			removed = append(removed, []any{k.id})
		default:
			removed = append(removed, []any{k.first, k.id})
		}
	}
	return inserts, removed
}

func encode(record any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // most of a record is HTML
	if err := encoder.Encode(record); err != nil {
		return "", err
	}
	// PostgreSQL refuses invalid UTF-8. Only a content.Object can contain it.
	return strings.ToValidUTF8(strings.TrimSuffix(text.String(), "\n"), "\ufffd"), nil
}

func decode(text []byte, record any) error {
	if err := fast.Unmarshal(text, record, jsontext.AllowDuplicateNames(true)); err != nil { // a content.Object may have them
		return fmt.Errorf("the database has a record that cannot be read: %w", err)
	}
	return nil
}

// instant returns the timestamp in UTC, to the nanosecond and always of the same length, so that the order of the bytes
// is the order of time. It returns "" for no timestamp, which sorts before all others.
func instant(t content.Timestamp) string {
	moment, ok := t.Instant()
	if !ok {
		return ""
	}
	return moment.UTC().Format("2006-01-02T15:04:05.000000000")
}

func timestamp(instant string) content.Timestamp {
	if instant == "" {
		return ""
	}
	return content.Timestamp(strings.TrimRight(strings.TrimRight(instant, "0"), ".") + "+00:00")
}
