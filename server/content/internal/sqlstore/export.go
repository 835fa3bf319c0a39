package sqlstore

import (
	"bufio"
	"context"
	"database/sql"
	"io"
	"strings"

	"github.com/keywright/keywright/server/content"
)

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
	var status content.Status
	err := s.snapshot(ctx, func(tx *sql.Tx) error {
		out := bufio.NewWriter(w)
		for i, count := range []*int64{&status.Moderators, &status.ProductUpdates, &status.Articles, &status.Replies} {
			var err error
			if *count, err = exportRows(ctx, tx, exported[i].query, exported[i].begin, out); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		return readListed(ctx, tx, &status)
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
	var status content.Status
	err := s.snapshot(ctx, func(tx *sql.Tx) error {
		const counts = `SELECT (SELECT count(*) FROM moderators), (SELECT count(*) FROM product_updates), (SELECT count(*) FROM articles), (SELECT count(*) FROM replies)`
		if err := tx.QueryRowContext(ctx, counts).Scan(&status.Moderators, &status.ProductUpdates, &status.Articles, &status.Replies); err != nil {
			return err
		}
		return readListed(ctx, tx, &status)
	})
	return status, s.failed("count the records", err)
}

func readListed(ctx context.Context, tx *sql.Tx, status *content.Status) error {
	const query = `SELECT COALESCE((SELECT CAST(sum(articles) AS BIGINT) FROM article_sections), 0),
COALESCE((SELECT activity FROM articles WHERE NOT trashed ORDER BY activity DESC, id DESC LIMIT 1), '')`
	var newest string
	err := tx.QueryRowContext(ctx, query).Scan(&status.Listed, &newest)
	status.Newest = timestamp(newest)
	return err
}

func (s *Store) snapshot(ctx context.Context, f func(*sql.Tx) error) error {
	if err := s.present(); err != nil {
		return err
	}
	tx, err := s.config.Reads.BeginTx(ctx, s.config.Snapshot)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it has only read
	return f(tx)
}
