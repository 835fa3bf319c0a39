package sqlstore

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// exported are the statements of an export, in the order of its records. Each selects an id and a record. begin is the beginning of the
// line of a record, up to the members of the record, in which ID stands for the id.
var exported = []struct{ query, begin string }{
	{`SELECT id, '{}' FROM moderators ORDER BY id`, `{"type":"moderator","id":ID`},
	{`SELECT '', record FROM product_updates ORDER BY id`, `{"type":"productUpdate",`},
	{`SELECT '', record FROM articles ORDER BY id`, `{"type":"article",`},
	{`SELECT article_id, record FROM replies ORDER BY article_id, id`, `{"type":"reply","articleId":ID,`},
}

// Export implements [content.Database].
func (s *Store) Export(ctx context.Context, w io.Writer) (content.Status, error) {
	status, err := s.snapshot(ctx, func(tx *sql.Tx, status *content.Status) error {
		out := bufio.NewWriter(w)
		for i, count := range []*int64{&status.Moderators, &status.ProductUpdates, &status.Articles, &status.Replies} {
			var err error
			if *count, err = exportRows(ctx, tx, exported[i].query, exported[i].begin, out); err != nil {
				return err
			}
		}
		return out.Flush()
	})
	return status, s.failed("export the records", err)
}

func exportRows(ctx context.Context, tx *sql.Tx, query, begin string, out *bufio.Writer) (n int64, err error) {
	var id string
	var record sql.RawBytes
	rows, err := tx.QueryContext(ctx, query)
	err = each(rows, err, func(rows *sql.Rows) error {
		if err := rows.Scan(&id, &record); err != nil {
			return err
		}
		n++
		quoted, _ := encode(id) // a string can be encoded
		_, _ = out.WriteString(strings.Replace(begin, "ID", quoted, 1))
		_, _ = out.Write(record[1:])
		return out.WriteByte('\n') // or an error of the writes before
	})
	return n, err
}

// Status implements [content.Database].
func (s *Store) Status(ctx context.Context) (content.Status, error) {
	status, err := s.snapshot(ctx, func(tx *sql.Tx, status *content.Status) error {
		const counts = `SELECT (SELECT count(*) FROM moderators), (SELECT count(*) FROM product_updates), (SELECT count(*) FROM articles), (SELECT count(*) FROM replies)`
		return tx.QueryRowContext(ctx, counts).Scan(&status.Moderators, &status.ProductUpdates, &status.Articles, &status.Replies)
	})
	return status, s.failed("count the records", err)
}

// snapshot returns the status of one state of the database, for which count reads the numbers of records.
func (s *Store) snapshot(ctx context.Context, count func(*sql.Tx, *content.Status) error) (status content.Status, err error) {
	const query = `SELECT COALESCE((SELECT CAST(sum(articles) AS BIGINT) FROM article_sections), 0),
COALESCE((SELECT activity FROM articles WHERE NOT trashed ORDER BY activity DESC, id DESC LIMIT 1), '')`
	if err := s.present(); err != nil {
		return status, err
	}
	tx, err := s.config.Reads.BeginTx(ctx, s.config.Snapshot)
	if err != nil {
		return status, err
	}
	defer func() { _ = tx.Rollback() }() // it has only read
	if err := count(tx, &status); err != nil {
		return status, err
	}
	var newest string
	err = tx.QueryRowContext(ctx, query).Scan(&status.Listed, &newest)
	status.Newest = timestamp(newest)
	return status, err
}
