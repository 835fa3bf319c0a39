// Package sqlstore stores records in an SQL database. It uses the same statements for SQLite and for PostgreSQL;
// packages sqlite and postgres open the database.
//
// The database holds a record as JSON, and further columns only for finding, hiding and sorting records.
package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/internal/migrate"
)

//go:embed migrations
var migrations embed.FS

// Schema is the schema of a database. Its lock is an arbitrary number that other programs are unlikely to use.
var Schema = migrate.Schema{Files: migrations, Versions: "content_migrations", Lock: 0x6b657977, Before: `CREATE COLLATION IF NOT EXISTS "binary" FROM "C"`}

// Config configures a store.
type Config struct {
	// Reads and Writes are connections to one database, whose schema is [Schema]. They may be the same. Writes may be nil if the
	// database can only be read.
	Reads, Writes *sql.DB
	// Dialect is that of the database.
	Dialect migrate.Dialect
	// Lock is the first statement of each writing transaction. It waits until no other transaction writes. It is "" if
	// the transactions of Writes wait when they begin.
	Lock string
	// If not nil, BeforeWrite is called before each writing transaction.
	BeforeWrite func(context.Context) error
	// Away reports whether an error of the database means that it cannot be reached.
	Away func(error) bool
	// If not nil, Present is called before each statement. It returns an error if the database is no longer the one that was opened.
	Present func() error
	// Snapshot has the options of a transaction of Reads that sees one state of the database. Nil is the default.
	Snapshot *sql.TxOptions
	// Unprepared is set if no statements may be prepared, because each may run on another connection.
	Unprepared bool
	// If Readers is not 0, so many statements read at once, and none ends with its caller's context: it is for
	// databases that close the connection of a cancelled statement.
	Readers int
}

// Store implements [content.Store] and [content.Writer].
type Store struct {
	config Config
	limits limits

	// readers is of Config.Readers, or nil.
	readers *semaphore.Weighted
	// prepared has the statements that read, by their texts. It is empty if none may be prepared.
	prepared map[string]*sql.Stmt
}

const (
	selectProductUpdate = `SELECT record FROM product_updates WHERE id = $1`

	selectReply = `SELECT replies.record FROM replies JOIN articles ON articles.id = replies.article_id
WHERE replies.article_id = $1 AND replies.id = $2`

	// The statements for content.Everybody do not read the rows of hidden records, because that takes longer than
	// finding none. Their conditions repeat the expressions of the indexes of migration 2, which omit hidden records.
	// The article of a reply is looked up first, so that no reply of a trashed one is read.
	selectShownProductUpdate = `SELECT record FROM product_updates WHERE CASE WHEN NOT trashed THEN id END = $1`

	selectShownReply = `SELECT record FROM replies WHERE id = $2 AND CASE WHEN visible THEN article_id END =
	(SELECT $1 FROM articles WHERE CASE WHEN NOT trashed THEN id END = $1)`

	selectModerator = `SELECT EXISTS (SELECT 1 FROM moderators WHERE id = $1)`

	// selectArticlesAfter reads the index of migration 2, which has no trashed articles.
	selectArticlesAfter = `SELECT record, activity FROM articles WHERE CASE WHEN NOT trashed THEN id END > $1
ORDER BY CASE WHEN NOT trashed THEN id END LIMIT ($2 + 0)`
)

// selectArticles is one statement, so that it sees one state of the database. It finds the section that contains the first article of
// the page, the chunk in that section, the keys of the page, counted from the beginning of the chunk, and their records. It uses
// subqueries, because PostgreSQL does not know how few rows they return and would plan joins for a third of all articles. LIMIT 1 omits
// no row, since only one fits, but lets the database stop looking. That is why the sums before it are not materialized. COALESCE turns
// a column into an expression: with the column, SQLite would compare only the activities by the index, and read all articles of the
// same activity that come before the page. The sum in LIMIT keeps SQLite from planning the statement anew for each value of $2, at
// which its planner looks.
//
//go:embed articles.sql
var selectArticles string

// New returns a store. [Store.Close] closes config.Reads and config.Writes, and New does if it returns an error.
func New(ctx context.Context, config Config) (*Store, error) {
	s := &Store{config: config, limits: limits{articles: 500, chunks: 64}, prepared: map[string]*sql.Stmt{}}
	if config.Readers > 0 {
		s.readers = semaphore.NewWeighted(int64(config.Readers))
	}
	if config.Unprepared {
		return s, nil
	}
	for _, query := range []string{
		selectProductUpdate, selectShownProductUpdate, selectArticles, selectArticlesAfter, selectReply, selectShownReply, selectModerator,
	} {
		prepared, err := config.Reads.PrepareContext(ctx, query)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("prepare to read records: %w", err), s.Close())
		}
		s.prepared[query] = prepared
	}
	return s, nil
}

// Close closes the database after the running calls have ended.
func (s *Store) Close() error {
	if s.config.Reads == s.config.Writes || s.config.Writes == nil {
		return s.config.Reads.Close()
	}
	// Writes is closed last: SQLite cleans up when the last connection is closed, which should be the one that writes.
	return errors.Join(s.config.Reads.Close(), s.config.Writes.Close())
}

// Contract is [migrate.Contract].
func (s *Store) Contract(ctx context.Context, dry bool) (migrate.Status, error) {
	if s.config.Writes == nil {
		return migrate.Status{}, errReadOnly
	}
	status, err := migrate.Contract(ctx, s.config.Writes, s.config.Dialect, Schema, dry)
	return status, s.failed("contract the schema", err)
}

var errReadOnly = errors.New("the database can only be read")

// reader returns the context for a reading statement, and a function to call when the statement has ended. If
// Config.Readers is set, it waits until the statement may run.
func (s *Store) reader(ctx context.Context) (statement context.Context, done func(), err error) {
	const readTime = 30 * time.Second // limits a statement that its caller cannot cancel
	if err := s.present(); err != nil {
		return nil, nil, err
	}
	if s.readers == nil {
		return ctx, func() {}, nil
	}
	if err := s.readers.Acquire(ctx, 1); err != nil {
		return nil, nil, err
	}
	until := time.Now().Add(readTime)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	statement, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	return statement, func() {
		cancel()
		s.readers.Release(1)
	}, nil
}

// present returns an error that wraps [content.ErrUnavailable] if the database is no longer the one that was opened.
func (s *Store) present() error {
	if s.config.Present == nil {
		return nil
	}
	if err := s.config.Present(); err != nil {
		return fmt.Errorf("%w: %w", content.ErrUnavailable, err)
	}
	return nil
}

// failed returns the error of a call that does something, which wraps [content.ErrUnavailable] if the database is away.
func (s *Store) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if s.config.Away(err) {
		return fmt.Errorf("%s: %w: %w", doing, content.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// invalid reports whether no record can have this id. PostgreSQL returns an error for some of these.
func invalid(id string) bool { return content.CheckID(id) != nil }

// ProductUpdate implements [content.Store].
func (s *Store) ProductUpdate(ctx context.Context, id string, audience content.Audience) (*content.ProductUpdate, error) {
	if invalid(id) {
		return nil, content.ErrNotFound
	}
	query := selectShownProductUpdate
	if audience == content.Moderators {
		query = selectProductUpdate
	}
	return record[content.ProductUpdate](ctx, s, "read a product update", query, id)
}

// Reply implements [content.Store].
func (s *Store) Reply(ctx context.Context, articleID, id string, audience content.Audience) (*content.Reply, error) {
	if invalid(articleID) || invalid(id) {
		return nil, content.ErrNotFound
	}
	query := selectShownReply
	if audience == content.Moderators {
		query = selectReply
	}
	return record[content.Reply](ctx, s, "read a reply", query, articleID, id)
}

// record reads the record that a query selects. It returns content.ErrNotFound if there is none.
func record[T any](ctx context.Context, s *Store, doing, query string, ids ...any) (*T, error) {
	var found *T
	err := s.read(ctx, doing, query, func(rows *sql.Rows) error {
		var text sql.RawBytes
		if err := rows.Scan(&text); err != nil {
			return err
		}
		found = new(T)
		return decode(text, found)
	}, ids...)
	if err == nil && found == nil {
		err = fmt.Errorf("%s: %w", doing, content.ErrNotFound)
	}
	return found, err
}

// Moderator implements [content.Store].
func (s *Store) Moderator(ctx context.Context, id string) (bool, error) {
	if invalid(id) {
		return false, nil
	}
	var found bool
	err := s.read(ctx, "look for a moderator", selectModerator, func(rows *sql.Rows) error { return rows.Scan(&found) }, id)
	return found, err
}

// Articles implements [content.Store].
func (s *Store) Articles(ctx context.Context, skip int64, limit int) ([]content.Article, error) {
	if skip < 0 || limit < 0 {
		return nil, fmt.Errorf("read %d articles after %d: neither may be negative", limit, skip)
	}
	return s.page(ctx, "read a page of articles", selectArticles, skip, limit)
}

// ArticlesAfter implements [content.Store].
func (s *Store) ArticlesAfter(ctx context.Context, id string, limit int) ([]content.Article, error) {
	if limit < 0 || id != "" && invalid(id) {
		return nil, fmt.Errorf("read %d articles after an id: the number may not be negative, and the id has to be one", limit)
	}
	return s.page(ctx, "read articles after an id", selectArticlesAfter, id, limit)
}

func (s *Store) page(ctx context.Context, doing, query string, arguments ...any) (articles []content.Article, err error) {
	var text, activity sql.RawBytes
	err = s.read(ctx, doing, query, func(rows *sql.Rows) error {
		if err := rows.Scan(&text, &activity); err != nil {
			return err
		}
		var a content.Article
		if err := decode(text, &a); err != nil {
			return err
		}
		if string(activity) > instant(a.LastActivityAt) { // a reply is newer
			a.LastActivityAt = timestamp(string(activity))
		}
		articles = append(articles, a)
		return nil
	}, arguments...)
	return articles, err
}

// read calls scan for each row that a query selects.
func (s *Store) read(ctx context.Context, doing, query string, scan func(*sql.Rows) error, arguments ...any) error {
	ctx, done, err := s.reader(ctx)
	if err != nil {
		return s.failed(doing, err)
	}
	defer done()
	var rows *sql.Rows
	if prepared := s.prepared[query]; prepared != nil {
		rows, err = prepared.QueryContext(ctx, arguments...)
	} else {
		rows, err = s.config.Reads.QueryContext(ctx, query, arguments...)
	}
	return s.failed(doing, each(rows, err, scan))
}

// each calls scan for each row of the result of a query, and closes it.
func each(rows *sql.Rows, err error, scan func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
