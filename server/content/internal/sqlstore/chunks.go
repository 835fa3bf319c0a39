package sqlstore

import (
	"context"
	"database/sql"
	"slices"
)

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

// position returns the index of the chunk that k belongs to.
func position(chunks []span, k key) int {
	i, _ := slices.BinarySearchFunc(chunks, k, func(s span, k key) int { return s.end.compare(k) })
	return i // always in range, because the end of the last chunk is after every key
}

// readSpans returns the rows of a table of spans, the oldest first.
func readSpans(ctx context.Context, tx *sql.Tx, table string) ([]span, error) {
	rows, err := tx.QueryContext(ctx, `SELECT activity, id, articles FROM `+table+` ORDER BY activity, id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []span
	for rows.Next() {
		var s span
		if err := rows.Scan(&s.end.first, &s.end.id, &s.articles); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
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
