package sqlstore

import (
	"bufio"
	"context"
	"database/sql"
	"io"

	"github.com/keywright/keywright/server/content"
)

// exported are the statements of an export, in the order of its records. Each selects an id and a record.
var exported = []struct {
	query string
	// begin returns the beginning of the line of a record, up to the members of the record.
	begin func(id string) string
	count func(*content.Status) *int64
}{
	{
		`SELECT id, '{}' FROM moderators ORDER BY id`,
		func(id string) string { return `{"type":"moderator","id":` + quoted(id) }, func(s *content.Status) *int64 { return &s.Moderators },
	},
	{
		`SELECT '', record FROM product_updates ORDER BY id`,
		func(string) string { return `{"type":"productUpdate",` }, func(s *content.Status) *int64 { return &s.ProductUpdates },
	},
	{
		`SELECT '', record FROM articles ORDER BY id`,
		func(string) string { return `{"type":"article",` }, func(s *content.Status) *int64 { return &s.Articles },
	},
	{
		`SELECT article_id, record FROM replies ORDER BY article_id, id`,
		func(article string) string { return `{"type":"reply","articleId":` + quoted(article) + `,` }, func(s *content.Status) *int64 { return &s.Replies },
	},
}

// quoted returns a text as JSON.
func quoted(text string) string {
	quoted, _ := encode(text) // a string can be encoded
	return quoted
}

// Export implements [content.Database].
func (s *Store) Export(ctx context.Context, w io.Writer) (content.Status, error) {
	var status content.Status
	err := s.snapshot(ctx, func(tx *sql.Tx) error {
		out := bufio.NewWriter(w)
		for _, e := range exported {
			n, err := exportRows(ctx, tx, e.query, e.begin, out)
			if err != nil {
				return err
			}
			*e.count(&status) = n
		}
		if err := out.Flush(); err != nil {
			return err
		}
		return readListed(ctx, tx, &status)
	})
	return status, s.failed("export the records", err)
}

// exportRows writes a line for each row of a query, and returns their number.
func exportRows(ctx context.Context, tx *sql.Tx, query string, begin func(string) string, out *bufio.Writer) (n int64, err error) {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var id string
	var record sql.RawBytes
	for ; rows.Next(); n++ {
		if err := rows.Scan(&id, &record); err != nil {
			return n, err
		}
		_, _ = out.WriteString(begin(id))
		_, _ = out.Write(record[1:])
		if err := out.WriteByte('\n'); err != nil { // or an error of the writes before
			return n, err
		}
	}
	return n, rows.Err()
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

// readListed sets what a status says of listed articles.
func readListed(ctx context.Context, tx *sql.Tx, status *content.Status) error {
	const query = `SELECT COALESCE((SELECT CAST(sum(articles) AS BIGINT) FROM article_sections), 0),
COALESCE((SELECT activity FROM articles WHERE NOT trashed ORDER BY activity DESC, id DESC LIMIT 1), '')`
	var newest string
	err := tx.QueryRowContext(ctx, query).Scan(&status.Listed, &newest)
	status.Newest = timestamp(newest)
	return err
}

// snapshot calls f with a transaction that sees one state of the database.
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
