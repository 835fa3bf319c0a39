package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/keywright/keywright/server/content"
)

// Write implements [content.Writer]. Writers wait for each other. Readers do not wait.
func (s *Store) Write(ctx context.Context, records []content.Record) error {
	b, err := gather(records)
	if err != nil {
		return err
	}
	return s.failed(fmt.Sprintf("write %d records", len(records)), s.write(ctx, b))
}

func (s *Store) write(ctx context.Context, b *batch) error {
	if s.config.Writes == nil {
		return errReadOnly
	}
	if err := s.present(); err != nil {
		return err
	}
	if s.config.BeforeWrite != nil {
		if err := s.config.BeforeWrite(ctx); err != nil {
			return err
		}
	}
	tx, err := s.config.Writes.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // a no-op after Commit
	if s.config.Lock != "" {
		if _, err := tx.ExecContext(ctx, s.config.Lock); err != nil {
			return err
		}
	}
	if err := writeAll(ctx, tx, b, s.limits); err != nil {
		return err
	}
	return tx.Commit()
}

func writeAll(ctx context.Context, tx *sql.Tx, b *batch, limits limits) error {
	emptied, _ := sorted(b.emptied)
	if err := forRows(ctx, tx, `DELETE FROM replies WHERE article_id IN (`, emptied, `)`); err != nil {
		return err
	}
	replies := map[key][]any{}
	for _, ofArticle := range b.replies {
		maps.Copy(replies, ofArticle)
	}
	for _, table := range []struct {
		rows                     map[key][]any
		insert, conflict, remove string
	}{
		{b.moderators, `INSERT INTO moderators (id) `, ` ON CONFLICT DO NOTHING`, `DELETE FROM moderators WHERE id IN (`},
		{b.productUpdates, `INSERT INTO product_updates (id, trashed, record) `, `
ON CONFLICT (id) DO UPDATE SET trashed = excluded.trashed, record = excluded.record
WHERE product_updates.record <> excluded.record`, `DELETE FROM product_updates WHERE id IN (`},
		{replies, `INSERT INTO replies (article_id, id, visible, replied, record) `, `
ON CONFLICT (article_id, id) DO UPDATE SET visible = excluded.visible, replied = excluded.replied, record = excluded.record
WHERE replies.record <> excluded.record`, `DELETE FROM replies WHERE (article_id, id) IN (`},
	} {
		inserts, removed := sorted(table.rows)
		if err := forRows(ctx, tx, table.insert, inserts, table.conflict); err != nil {
			return err
		}
		if err := forRows(ctx, tx, table.remove, removed, `)`); err != nil {
			return err
		}
	}
	return writeArticles(ctx, tx, b, limits)
}

// writeArticles writes and removes the articles of a batch, updates the activity of articles that have a newer or older
// reply now, and updates the counts of chunks. The replies of the batch must have been written before.
func writeArticles(ctx context.Context, tx *sql.Tx, b *batch, limits limits) error {
	states, err := readStates(ctx, tx, b.touched())
	if err != nil {
		return err
	}
	var inserts, removed, moved [][]any
	var from, to []key
	for _, was := range states {
		is := was
		a, ok := b.articles[was.id]
		if ok {
			is.exists, is.listed, is.table = !a.deleted, !a.deleted && !a.trashed, a.table
		}
		is.activity = max(is.table, was.newestReply)
		switch {
		case a.deleted:
			removed = append(removed, []any{a.id})
		case ok:
			inserts = append(inserts, []any{a.id, a.trashed, a.table, is.activity, a.record})
		case is.exists && is.activity != was.activity:
			moved = append(moved, []any{is.id, is.activity})
		default:
			continue
		}
		if was.listed == is.listed && was.activity == is.activity {
			continue
		}
		if was.listed {
			from = append(from, key{was.activity, was.id})
		}
		if is.listed {
			to = append(to, key{is.activity, is.id})
		}
	}
	if err := forRows(ctx, tx, `INSERT INTO articles (id, trashed, stored, activity, record) `, inserts, `
ON CONFLICT (id) DO UPDATE SET trashed = excluded.trashed, stored = excluded.stored, activity = excluded.activity, record = excluded.record
WHERE articles.record <> excluded.record OR articles.activity <> excluded.activity`); err != nil {
		return err
	}
	if err := forRows(ctx, tx, `DELETE FROM articles WHERE id IN (`, removed, `)`); err != nil {
		return err
	}
	if err := forRows(ctx, tx, `WITH moved (id, activity) AS (`, moved, `)
UPDATE articles SET activity = moved.activity FROM moved WHERE articles.id = moved.id`); err != nil {
		return err
	}
	if len(from)+len(to) == 0 {
		return nil
	}
	return updateCounts(ctx, tx, limits, from, to)
}

// state is the row of an article, which need not exist, and the newest of its replies.
type state struct {
	id              string
	exists, listed  bool
	table, activity string
	// newestReply is the instant of the newest visible reply, or "".
	newestReply string
}

func readStates(ctx context.Context, tx *sql.Tx, ids [][]any) ([]state, error) {
	const query = `)
SELECT wanted.id, articles.id IS NOT NULL, COALESCE(NOT articles.trashed, FALSE), COALESCE(articles.stored, ''), COALESCE(articles.activity, ''),
	COALESCE((SELECT max(replied) FROM replies WHERE replies.article_id = wanted.id AND replies.visible), '')
FROM wanted LEFT JOIN articles ON articles.id = wanted.id`
	states := make([]state, 0, len(ids))
	err := inParts(ids, func(values string, arguments []any) error {
		rows, err := tx.QueryContext(ctx, `WITH wanted (id) AS (`+values+query, arguments...)
		return each(rows, err, func(rows *sql.Rows) error {
			var s state
			err := rows.Scan(&s.id, &s.exists, &s.listed, &s.table, &s.activity, &s.newestReply)
			states = append(states, s)
			return err
		})
	})
	return states, err
}

func forRows(ctx context.Context, tx *sql.Tx, prelude string, rows [][]any, suffix string) error {
	return inParts(rows, func(values string, arguments []any) error {
		_, err := tx.ExecContext(ctx, prelude+values+suffix, arguments...)
		return err
	})
}

// inParts calls f for parts of the rows, with the text of a VALUES clause and its arguments. The number of rows in a
// part is a power of two, so that there are few different statements, which the database has prepared already.
func inParts(rows [][]any, f func(values string, arguments []any) error) error {
	const mostRows = 128 // the maximum number of rows in one statement
	for n := mostRows; n > 0; n /= 2 {
		for len(rows) >= n {
			if err := f(values(n, len(rows[0])), slices.Concat(rows[:n]...)); err != nil {
				return err
			}
			rows = rows[n:]
		}
	}
	return nil
}

func values(rows, columns int) string {
	var text strings.Builder
	text.WriteString("VALUES ")
	for i := range rows * columns {
		switch {
		case i == 0:
			text.WriteString("(")
		case i%columns == 0:
			text.WriteString("), (")
		default:
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "$%d", i+1)
	}
	text.WriteString(")")
	return text.String()
}

// limits are the maximum number of articles in a chunk and of chunks in a section. Larger chunks and sections are split.
// Neighbouring chunks are merged if the result is at most half full. A section may end once it is a quarter full.
type limits struct {
	articles int64
	chunks   int
}

// span is a chunk or a section of the list of articles. It begins after the end of the next older span and includes its
// own end. articles is the number of articles in it.
type span struct {
	end      key
	articles int64
}

// updateCounts updates the chunks and sections after articles were removed from the list and added to it.
func updateCounts(ctx context.Context, tx *sql.Tx, limits limits, removed, added []key) error {
	oldChunks, err := readSpans(ctx, tx, "article_chunks")
	if err != nil {
		return err
	}
	oldSections, err := readSpans(ctx, tx, "article_sections")
	if err != nil {
		return err
	}
	chunks := slices.Clone(oldChunks)
	for _, k := range removed {
		chunks[position(chunks, k)].articles--
	}
	for _, k := range added {
		chunks[position(chunks, k)].articles++
	}
	if chunks, err = limits.split(ctx, tx, chunks); err != nil {
		return err
	}
	chunks = limits.merge(chunks)
	if err := writeSpans(ctx, tx, "article_chunks", oldChunks, chunks); err != nil {
		return err
	}
	return writeSpans(ctx, tx, "article_sections", oldSections, limits.sections(chunks, oldSections))
}

func position(chunks []span, k key) int {
	i, _ := slices.BinarySearchFunc(chunks, k, func(s span, k key) int { return s.end.compare(k) })
	return i // always in range, because the end of the last chunk is after every key
}

// readSpans returns the rows of a table of spans, the oldest first.
func readSpans(ctx context.Context, tx *sql.Tx, table string) (all []span, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT activity, id, articles FROM `+table+` ORDER BY activity, id`)
	err = each(rows, err, func(rows *sql.Rows) error {
		var s span
		err := rows.Scan(&s.end.first, &s.end.id, &s.articles)
		all = append(all, s)
		return err
	})
	return all, err
}

// split splits the chunks that have too many articles. All parts are half full but the oldest, which may have more.
func (l limits) split(ctx context.Context, tx *sql.Tx, chunks []span) ([]span, error) {
	const nth = `SELECT activity, id FROM articles WHERE NOT trashed AND (activity, id) <= ($1, $2)
ORDER BY activity DESC, id DESC LIMIT 1 OFFSET $3`
	var all []span
	for _, c := range slices.Backward(chunks) {
		for c.articles > l.articles {
			older := span{articles: c.articles - l.articles/2}
			if err := tx.QueryRowContext(ctx, nth, c.end.first, c.end.id, l.articles/2).Scan(&older.end.first, &older.end.id); err != nil {
				return nil, err
			}
			all = append(all, span{c.end, l.articles / 2})
			c = older
		}
		all = append(all, c)
	}
	slices.Reverse(all)
	return all, nil
}

// merge merges neighbouring chunks if the result is at most half full. The end of the last chunk does not change.
func (l limits) merge(chunks []span) []span {
	var all []span
	for _, c := range chunks {
		if last := len(all) - 1; last >= 0 && all[last].articles+c.articles <= l.articles/2 {
			c.articles += all[last].articles
			all = all[:last]
		}
		all = append(all, c)
	}
	return all
}

// sections returns the sections of the chunks. A section ends where an old one does, unless it would have less than a
// quarter of the maximum of chunks, and it ends at the maximum.
func (l limits) sections(chunks, old []span) []span {
	ends := map[key]bool{}
	for _, s := range old {
		ends[s.end] = true
	}
	var all []span
	var articles int64
	var count int
	for i, c := range chunks {
		articles += c.articles
		count++
		if i == len(chunks)-1 || count == l.chunks || count >= l.chunks/4 && ends[c.end] {
			all = append(all, span{c.end, articles})
			articles, count = 0, 0
		}
	}
	return all
}

// writeSpans writes the differences between the old spans and the new ones to a table.
func writeSpans(ctx context.Context, tx *sql.Tx, table string, old, spans []span) error {
	was := map[key]int64{}
	for _, s := range old {
		was[s.end] = s.articles
	}
	var changed [][]any
	for _, s := range spans {
		if articles, ok := was[s.end]; !ok || articles != s.articles {
			changed = append(changed, []any{s.end.first, s.end.id, s.articles})
		}
		delete(was, s.end)
	}
	for end := range was {
		if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE activity = $1 AND id = $2`, end.first, end.id); err != nil {
			return err
		}
	}
	return forRows(ctx, tx, `INSERT INTO `+table+` (activity, id, articles) `, changed, ` ON CONFLICT (activity, id) DO UPDATE SET articles = excluded.articles`)
}
