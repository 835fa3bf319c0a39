package sqlstore

import (
	"context"
	"database/sql"
	"slices"
)

// A stretch of the list has at most mostArticles. One that has more is split, so that all but the oldest of its parts have
// fewArticles; two that have no more than that together become one.
const (
	mostArticles = 2000
	fewArticles  = 1000
)

// chunk is a stretch of the list: the articles up to its end, from after the end of the chunk before it.
type chunk struct {
	end      key
	articles int64
}

// recount changes how many articles are listed where: some were, some are now.
func recount(ctx context.Context, tx *sql.Tx, were, are []key) error {
	old, err := readChunks(ctx, tx)
	if err != nil {
		return err
	}
	chunks := slices.Clone(old)
	for _, k := range were {
		chunks[position(chunks, k)].articles--
	}
	for _, k := range are {
		chunks[position(chunks, k)].articles++
	}
	if chunks, err = split(ctx, tx, chunks); err != nil {
		return err
	}
	return writeChunks(ctx, tx, old, merge(chunks))
}

func position(chunks []chunk, k key) int {
	i, _ := slices.BinarySearchFunc(chunks, k, func(c chunk, k key) int { return c.end.compare(k) })
	return i // the last chunk's end is after every key
}

// readChunks gives the chunks, the oldest first.
func readChunks(ctx context.Context, tx *sql.Tx) ([]chunk, error) {
	rows, err := tx.QueryContext(ctx, `SELECT activity, id, articles FROM article_chunks ORDER BY activity, id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var chunks []chunk
	for rows.Next() {
		var c chunk
		if err := rows.Scan(&c.end.first, &c.end.id, &c.articles); err != nil {
			return nil, err
		}
		chunks = append(chunks, c)
	}
	return chunks, rows.Err()
}

// split makes more chunks of those that have too many articles.
func split(ctx context.Context, tx *sql.Tx, chunks []chunk) ([]chunk, error) {
	const nth = `SELECT activity, id FROM articles WHERE NOT trashed AND (activity, id) <= ($1, $2)
ORDER BY activity DESC, id DESC LIMIT 1 OFFSET $3`
	var all []chunk
	for _, c := range slices.Backward(chunks) {
		for c.articles > mostArticles {
			older := chunk{articles: c.articles - fewArticles}
			if err := tx.QueryRowContext(ctx, nth, c.end.first, c.end.id, fewArticles).Scan(&older.end.first, &older.end.id); err != nil {
				return nil, err
			}
			all = append(all, chunk{c.end, fewArticles})
			c = older
		}
		all = append(all, c)
	}
	slices.Reverse(all)
	return all, nil
}

// merge makes fewer chunks of those that have few articles. The last one's end stays what it is.
func merge(chunks []chunk) []chunk {
	var all []chunk
	for _, c := range chunks {
		if last := len(all) - 1; last >= 0 && all[last].articles+c.articles <= fewArticles {
			c.articles += all[last].articles
			all = all[:last]
		}
		all = append(all, c)
	}
	return all
}

// writeChunks writes what is not as it was.
func writeChunks(ctx context.Context, tx *sql.Tx, old, chunks []chunk) error {
	gone := map[key]int64{}
	for _, c := range old {
		gone[c.end] = c.articles
	}
	var changed [][]any
	for _, c := range chunks {
		if articles, ok := gone[c.end]; !ok || articles != c.articles {
			changed = append(changed, []any{c.end.first, c.end.id, c.articles})
		}
		delete(gone, c.end)
	}
	for end := range gone {
		if _, err := tx.ExecContext(ctx, `DELETE FROM article_chunks WHERE activity = $1 AND id = $2`, end.first, end.id); err != nil {
			return err
		}
	}
	return forRows(ctx, tx, `INSERT INTO article_chunks (activity, id, articles) `, changed, ` ON CONFLICT (activity, id) DO UPDATE SET articles = excluded.articles`)
}
