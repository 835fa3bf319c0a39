// Package sqlstore is the store of records in a database of SQL. What it asks is the same for SQLite and for PostgreSQL;
// their packages open the database and give it here.
//
// A record is JSON text; beside it are only the columns that records are found, hidden and ordered by.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/keywright/keywright/server/content"
)

// Config configures a store. The schema is that of [Migrate].
type Config struct {
	Reads  *sql.DB
	Writes *sql.DB // may be the same
	// Lock is the first statement of each transaction that writes. It waits for the others that write. Empty, the
	// transactions of Writes do so from their beginning.
	Lock string
	// BeforeWrite is called before each transaction that writes. It may be nil.
	BeforeWrite func(context.Context) error
	// Readers is how many statements read at once, when it is not 0: each goes on to its end then when its caller goes away. It
	// is for databases to which a connection is lost when a statement is broken off, and expensive to make.
	Readers int
}

// Store is a [content.Store] and a [content.Writer].
type Store struct {
	config Config
	limits limits

	readers chan struct{} // has a place for each of Config.Readers; nil without

	productUpdate, shownProductUpdate, articles, reply, shownReply, moderator *sql.Stmt
}

var (
	_ content.Store  = (*Store)(nil)
	_ content.Writer = (*Store)(nil)
)

const (
	selectProductUpdate = `SELECT record FROM product_updates WHERE id = $1`

	selectReply = `SELECT replies.record FROM replies JOIN articles ON articles.id = replies.article_id
WHERE replies.article_id = $1 AND replies.id = $2`

	// The statements for everybody. They read no row of a hidden record, as that takes longer than to find none. So they
	// find records by indexes without these, and their conditions are the expressions of migration 2. The article of a
	// reply is looked for first, so that no reply of a trashed one is read.
	selectShownProductUpdate = `SELECT record FROM product_updates WHERE CASE WHEN NOT trashed THEN id END = $1`

	selectShownReply = `SELECT record FROM replies WHERE id = $2 AND CASE WHEN visible THEN article_id END =
	(SELECT $1 FROM articles WHERE CASE WHEN NOT trashed THEN id END = $1)`

	selectModerator = `SELECT EXISTS (SELECT 1 FROM moderators WHERE id = $1)`

	// selectArticles is one statement, so that it sees one state of the database. It finds the section that has the first
	// article of the page, the chunk in it, the keys of the page, counted from there, and their records. What are
	// subqueries here are not joins, which PostgreSQL plans for a third of all articles, as it does not know how few these
	// are. No other row fits where there is LIMIT 1, but the database need not look for one: the sums before it are not
	// materialized. COALESCE makes an expression of what is a column: with a column, SQLite compares only the activities by
	// the index, and reads all articles of the same activity that come before the page.
	selectArticles = `
WITH sections AS NOT MATERIALIZED (
	SELECT activity, id, articles, CAST(sum(articles) OVER (ORDER BY activity DESC, id DESC ROWS UNBOUNDED PRECEDING) AS BIGINT) AS so_far
	FROM article_sections
), section AS MATERIALIZED (
	SELECT activity, id, so_far - articles AS before FROM sections WHERE so_far > $1 AND so_far - articles <= $1 LIMIT 1
), chunks AS NOT MATERIALIZED (
	SELECT activity, id, articles, CAST(sum(articles) OVER (ORDER BY activity DESC, id DESC ROWS UNBOUNDED PRECEDING) AS BIGINT)
		+ (SELECT before FROM section) AS so_far
	FROM article_chunks WHERE (activity, id) <= (COALESCE((SELECT activity FROM section), ''), COALESCE((SELECT id FROM section), ''))
), chunk AS MATERIALIZED (
	SELECT activity, id, so_far - articles AS before FROM chunks WHERE so_far > $1 AND so_far - articles <= $1 LIMIT 1
), page AS MATERIALIZED (
	SELECT activity, id FROM articles
	WHERE NOT trashed AND (activity, id) <= (COALESCE((SELECT activity FROM chunk), ''), COALESCE((SELECT id FROM chunk), ''))
	ORDER BY activity DESC, id DESC
	LIMIT $2 OFFSET COALESCE($1 - (SELECT before FROM chunk), 0)
)
SELECT (SELECT record FROM articles WHERE articles.id = page.id) FROM page ORDER BY activity DESC, id DESC`
)

// New makes a store. The databases are closed with it, or when it cannot be made.
func New(ctx context.Context, config Config) (*Store, error) {
	s := &Store{config: config, limits: limits{articles: 500, chunks: 64}}
	if config.Readers > 0 {
		s.readers = make(chan struct{}, config.Readers)
	}
	for query, statement := range map[string]**sql.Stmt{
		selectProductUpdate: &s.productUpdate, selectShownProductUpdate: &s.shownProductUpdate, selectArticles: &s.articles,
		selectReply: &s.reply, selectShownReply: &s.shownReply, selectModerator: &s.moderator,
	} {
		var err error
		if *statement, err = config.Reads.PrepareContext(ctx, query); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare to read records: %w", err), s.Close())
		}
	}
	return s, nil
}

// Close closes the database, after the calls that are under way.
func (s *Store) Close() error {
	if s.config.Reads == s.config.Writes {
		return s.config.Reads.Close()
	}
	// The one that writes is the last, as SQLite then has it tidy up.
	return errors.Join(s.config.Reads.Close(), s.config.Writes.Close())
}

// readTime is how long a statement may take that its caller cannot break off.
const readTime = 30 * time.Second

// reader returns the context of a statement that reads, and what to call after it.
func (s *Store) reader(ctx context.Context) (statement context.Context, done func(), err error) {
	if s.readers == nil {
		return ctx, func() {}, nil
	}
	select {
	case s.readers <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if err := ctx.Err(); err != nil { // both were ready
		<-s.readers
		return nil, nil, err
	}
	until := time.Now().Add(readTime)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	statement, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	return statement, func() {
		cancel()
		<-s.readers
	}, nil
}

// impossible reports whether no record can have an id. The database is not asked for it, as PostgreSQL refuses some.
func impossible(id string) bool { return content.CheckID(id) != nil }

// ProductUpdate implements [content.Store].
func (s *Store) ProductUpdate(ctx context.Context, id string, audience content.Audience) (*content.ProductUpdate, error) {
	if impossible(id) {
		return nil, content.ErrNotFound
	}
	ctx, done, err := s.reader(ctx)
	if err != nil {
		return nil, fmt.Errorf("read a product update: %w", err)
	}
	defer done()
	var p content.ProductUpdate
	statement := s.shownProductUpdate
	if audience == content.Moderators {
		statement = s.productUpdate
	}
	if err := one(statement.QueryRowContext(ctx, id), &p); err != nil {
		return nil, fmt.Errorf("read a product update: %w", err)
	}
	return &p, nil
}

// Reply implements [content.Store].
func (s *Store) Reply(ctx context.Context, articleID, id string, audience content.Audience) (*content.Reply, error) {
	if impossible(articleID) || impossible(id) {
		return nil, content.ErrNotFound
	}
	ctx, done, err := s.reader(ctx)
	if err != nil {
		return nil, fmt.Errorf("read a reply: %w", err)
	}
	defer done()
	var r content.Reply
	statement := s.shownReply
	if audience == content.Moderators {
		statement = s.reply
	}
	if err := one(statement.QueryRowContext(ctx, articleID, id), &r); err != nil {
		return nil, fmt.Errorf("read a reply: %w", err)
	}
	return &r, nil
}

// one reads a record out of a row.
func one(row *sql.Row, record any) error {
	var text []byte
	switch err := row.Scan(&text); {
	case errors.Is(err, sql.ErrNoRows):
		return content.ErrNotFound
	case err != nil:
		return err
	}
	return decode(text, record)
}

// Moderator implements [content.Store].
func (s *Store) Moderator(ctx context.Context, id string) (bool, error) {
	if impossible(id) {
		return false, nil
	}
	ctx, done, err := s.reader(ctx)
	if err != nil {
		return false, fmt.Errorf("look for a moderator: %w", err)
	}
	defer done()
	var found bool
	if err := s.moderator.QueryRowContext(ctx, id).Scan(&found); err != nil {
		return false, fmt.Errorf("look for a moderator: %w", err)
	}
	return found, nil
}

// Articles implements [content.Store].
func (s *Store) Articles(ctx context.Context, skip int64, limit int) ([]content.Article, error) {
	if skip < 0 || limit < 0 {
		return nil, fmt.Errorf("read %d articles after %d: neither may be negative", limit, skip)
	}
	articles, err := s.page(ctx, skip, limit)
	if err != nil {
		return nil, fmt.Errorf("read a page of articles: %w", err)
	}
	return articles, nil
}

func (s *Store) page(ctx context.Context, skip int64, limit int) ([]content.Article, error) {
	ctx, done, err := s.reader(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	rows, err := s.articles.QueryContext(ctx, skip, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var articles []content.Article
	var text sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		var a content.Article
		if err := decode(text, &a); err != nil {
			return nil, err
		}
		articles = append(articles, a)
	}
	return articles, rows.Err()
}
