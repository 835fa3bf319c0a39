package sqlstore

import (
	"context"
	"database/sql"
	"slices"
)

// limits are how many articles a chunk has at most, and how many chunks a section has. What has more is split; what has
// less than a half, or a quarter, may become one with its neighbour.
type limits struct {
	articles int64
	chunks   int
}

// stretch is a chunk or a section of the list: the articles up to its end, from after the end of the one before it.
type stretch struct {
	end      key
	articles int64
}

// recount changes how many articles are listed where: some were, some are now.
func recount(ctx context.Context, tx *sql.Tx, limits limits, were, are []key) error {
	oldChunks, err := readStretches(ctx, tx, "article_chunks")
	if err != nil {
		return err
	}
	oldSections, err := readStretches(ctx, tx, "article_sections")
	if err != nil {
		return err
	}
	chunks := slices.Clone(oldChunks)
	for _, k := range were {
		chunks[position(chunks, k)].articles--
	}
	for _, k := range are {
		chunks[position(chunks, k)].articles++
	}
	if chunks, err = limits.split(ctx, tx, chunks); err != nil {
		return err
	}
	chunks = limits.merge(chunks)
	if err := writeStretches(ctx, tx, "article_chunks", oldChunks, chunks); err != nil {
		return err
	}
	return writeStretches(ctx, tx, "article_sections", oldSections, limits.sections(chunks, oldSections))
}

// position is that of the chunk that a key is in, or belongs in.
func position(chunks []stretch, k key) int {
	i, _ := slices.BinarySearchFunc(chunks, k, func(s stretch, k key) int { return s.end.compare(k) })
	return i // the last one's end is after every key
}

// readStretches returns the rows of a table, the oldest first.
func readStretches(ctx context.Context, tx *sql.Tx, table string) ([]stretch, error) {
	rows, err := tx.QueryContext(ctx, `SELECT activity, id, articles FROM `+table+` ORDER BY activity, id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []stretch
	for rows.Next() {
		var s stretch
		if err := rows.Scan(&s.end.first, &s.end.id, &s.articles); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// split makes more chunks of those that have too many articles: all of their parts but the oldest are half full.
func (l limits) split(ctx context.Context, tx *sql.Tx, chunks []stretch) ([]stretch, error) {
	const nth = `SELECT activity, id FROM articles WHERE NOT trashed AND (activity, id) <= ($1, $2)
ORDER BY activity DESC, id DESC LIMIT 1 OFFSET $3`
	var all []stretch
	for _, c := range slices.Backward(chunks) {
		for c.articles > l.articles {
			older := stretch{articles: c.articles - l.articles/2}
			if err := tx.QueryRowContext(ctx, nth, c.end.first, c.end.id, l.articles/2).Scan(&older.end.first, &older.end.id); err != nil {
				return nil, err
			}
			all = append(all, stretch{c.end, l.articles / 2})
			c = older
		}
		all = append(all, c)
	}
	slices.Reverse(all)
	return all, nil
}

// merge makes one chunk of two that are half full at most when they are one. The last one's end stays what it is.
func (l limits) merge(chunks []stretch) []stretch {
	var all []stretch
	for _, c := range chunks {
		if last := len(all) - 1; last >= 0 && all[last].articles+c.articles <= l.articles/2 {
			c.articles += all[last].articles
			all = all[:last]
		}
		all = append(all, c)
	}
	return all
}

// sections are stretches of chunks. They end where the old ones do, unless they would have too many chunks, or few.
func (l limits) sections(chunks, old []stretch) []stretch {
	ends := map[key]bool{}
	for _, s := range old {
		ends[s.end] = true
	}
	var all []stretch
	var articles int64
	var count int
	for i, c := range chunks {
		articles += c.articles
		count++
		if i == len(chunks)-1 || count == l.chunks || count >= l.chunks/4 && ends[c.end] {
			all = append(all, stretch{c.end, articles})
			articles, count = 0, 0
		}
	}
	return all
}

// writeStretches writes what is not as it was.
func writeStretches(ctx context.Context, tx *sql.Tx, table string, old, stretches []stretch) error {
	was := map[key]int64{}
	for _, s := range old {
		was[s.end] = s.articles
	}
	var changed [][]any
	for _, s := range stretches {
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
