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
	w := &writer{ctx: ctx, tx: tx, limits: s.limits}
	if s.config.Lock != "" {
		w.exec(s.config.Lock)
	}
	if w.all(b); w.err != nil {
		return w.err
	}
	return tx.Commit()
}

// A writer executes the statements of a transaction, up to the first error.
type writer struct {
	limits
	ctx context.Context
	tx  *sql.Tx
	err error
}

func (w *writer) exec(query string, arguments ...any) {
	if w.err == nil {
		_, w.err = w.tx.ExecContext(w.ctx, query, arguments...)
	}
}

// query calls scan for each row that a query selects.
func (w *writer) query(scan func(*sql.Rows) error, query string, arguments ...any) {
	if w.err == nil {
		rows, err := w.tx.QueryContext(w.ctx, query, arguments...)
		w.err = each(rows, err, scan)
	}
}

func (w *writer) all(b *batch) {
	emptied, _ := sorted(b.emptied)
	w.forRows(`DELETE FROM replies WHERE article_id IN (`, emptied, `)`)
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
		w.forRows(table.insert, inserts, table.conflict)
		w.forRows(table.remove, removed, `)`)
	}
	w.writeArticles(b)
}

// writeArticles writes and removes the articles of a batch, updates the activity of articles that have a newer or older
// reply now, and updates the counts of chunks. The replies of the batch must have been written before.
func (w *writer) writeArticles(b *batch) {
	var inserts, removed, moved [][]any
	var from, to []key
	for _, was := range w.states(b.touched()) {
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
	w.forRows(`INSERT INTO articles (id, trashed, stored, activity, record) `, inserts, `
ON CONFLICT (id) DO UPDATE SET trashed = excluded.trashed, stored = excluded.stored, activity = excluded.activity, record = excluded.record
WHERE articles.record <> excluded.record OR articles.activity <> excluded.activity`)
	w.forRows(`DELETE FROM articles WHERE id IN (`, removed, `)`)
	w.forRows(`WITH moved (id, activity) AS (`, moved, `)
UPDATE articles SET activity = moved.activity FROM moved WHERE articles.id = moved.id`)
	if len(from)+len(to) > 0 {
		w.updateCounts(from, to)
	}
}

// state is the row of an article, which need not exist, and the newest of its replies.
type state struct {
	id              string
	exists, listed  bool
	table, activity string
	// newestReply is the instant of the newest visible reply, or "".
	newestReply string
}

func (w *writer) states(ids [][]any) []state {
	const query = `)
SELECT wanted.id, articles.id IS NOT NULL, COALESCE(NOT articles.trashed, FALSE), COALESCE(articles.stored, ''), COALESCE(articles.activity, ''),
	COALESCE((SELECT max(replied) FROM replies WHERE replies.article_id = wanted.id AND replies.visible), '')
FROM wanted LEFT JOIN articles ON articles.id = wanted.id`
	states := make([]state, 0, len(ids))
	inParts(ids, func(values string, arguments []any) {
		w.query(func(rows *sql.Rows) error {
			var s state
			err := rows.Scan(&s.id, &s.exists, &s.listed, &s.table, &s.activity, &s.newestReply)
			states = append(states, s)
			return err
		}, `WITH wanted (id) AS (`+values+query, arguments...)
	})
	return states
}

func (w *writer) forRows(prelude string, rows [][]any, suffix string) {
	inParts(rows, func(values string, arguments []any) { w.exec(prelude+values+suffix, arguments...) })
}

// inParts calls f for parts of the rows, with the text of a VALUES clause and its arguments. The number of rows in a
// part is a power of two, so that there are few different statements, which the database has prepared already.
func inParts(rows [][]any, f func(values string, arguments []any)) {
	const mostRows = 128 // the maximum number of rows in one statement
	for n := mostRows; n > 0; n /= 2 {
		for len(rows) >= n {
			f(values(n, len(rows[0])), slices.Concat(rows[:n]...))
			rows = rows[n:]
		}
	}
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
func (w *writer) updateCounts(removed, added []key) {
	oldChunks, oldSections := w.spans("article_chunks"), w.spans("article_sections")
	if w.err != nil {
		return
	}
	chunks := slices.Clone(oldChunks)
	for _, k := range removed {
		chunks[position(chunks, k)].articles--
	}
	for _, k := range added {
		chunks[position(chunks, k)].articles++
	}
	chunks = w.merge(w.split(chunks))
	w.writeSpans("article_chunks", oldChunks, chunks)
	w.writeSpans("article_sections", oldSections, w.sections(chunks, oldSections))
}

func position(chunks []span, k key) int {
	i, _ := slices.BinarySearchFunc(chunks, k, func(s span, k key) int { return s.end.compare(k) })
	return i // always in range, because the end of the last chunk is after every key
}

// spans returns the rows of a table of spans, the oldest first.
func (w *writer) spans(table string) (all []span) {
	w.query(func(rows *sql.Rows) error {
		var s span
		err := rows.Scan(&s.end.first, &s.end.id, &s.articles)
		all = append(all, s)
		return err
	}, `SELECT activity, id, articles FROM `+table+` ORDER BY activity, id`)
	return all
}

// split splits the chunks that have too many articles. All parts are half full but the oldest, which may have more.
func (w *writer) split(chunks []span) []span {
	const nth = `SELECT activity, id FROM articles WHERE NOT trashed AND (activity, id) <= ($1, $2)
ORDER BY activity DESC, id DESC LIMIT 1 OFFSET $3`
	var all []span
	for _, c := range slices.Backward(chunks) {
		for half := w.articles / 2; c.articles > w.articles && w.err == nil; {
			older := span{articles: c.articles - half}
			w.err = w.tx.QueryRowContext(w.ctx, nth, c.end.first, c.end.id, half).Scan(&older.end.first, &older.end.id)
			all = append(all, span{c.end, half})
			c = older
		}
		all = append(all, c)
	}
	slices.Reverse(all)
	return all
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
func (w *writer) writeSpans(table string, old, spans []span) {
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
		w.exec(`DELETE FROM `+table+` WHERE activity = $1 AND id = $2`, end.first, end.id)
	}
	w.forRows(`INSERT INTO `+table+` (activity, id, articles) `, changed, ` ON CONFLICT (activity, id) DO UPDATE SET articles = excluded.articles`)
}
