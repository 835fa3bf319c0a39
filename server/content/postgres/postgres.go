// Package postgres keeps records in a database of PostgreSQL.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/keywright/keywright/server/content/internal/sqlstore"
)

// Store is a content.Store and a content.Writer. Any number of processes may have one of the same database.
type Store = sqlstore.Store

// connections is how many a store has at most.
const connections = 16

// Open connects to the database of a URL, postgres://user:password@host:port/database, and makes its tables where they are
// missing. The URL may have the parameters of libpq, such as sslmode. No error has its password. The context is for opening
// only.
func Open(ctx context.Context, address string) (*Store, error) {
	config, err := parse(address)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(5 * time.Minute)
	store, err := open(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("open the database %s of PostgreSQL: %w", config.Database, err)
	}
	return store, nil
}

// settings are the defaults of a connection. The URL may change them.
var settings = map[string]string{
	"application_name": "keywright",
	// All statements find what they want by an index, row by row. What PostgreSQL guesses about a table that was filled just
	// now can be so wrong that it would read all of it. So there is one plan of each, made once; and compiling it takes longer
	// than it runs.
	"enable_seqscan":    "off",
	"enable_bitmapscan": "off",
	"enable_hashjoin":   "off",
	"enable_mergejoin":  "off",
	"plan_cache_mode":   "force_generic_plan",
	"jit":               "off",
}

// parse reads a URL. One that is malformed is not quoted, as nobody knows what of it is the password. Of others pgx quotes
// all but the passwords.
func parse(address string) (*pgx.ConnConfig, error) {
	if _, err := url.Parse(address); err != nil || !plain(address) {
		return nil, errors.New("the URL of the PostgreSQL database is malformed: it has to be like postgres://user:password@host:5432/database, with percent-encoding where the password has special characters")
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("the URL of the PostgreSQL database: %w", err)
	}
	given := maps.Clone(config.RuntimeParams)
	maps.Copy(config.RuntimeParams, settings)
	maps.Copy(config.RuntimeParams, given)
	config.RuntimeParams["default_transaction_isolation"] = "read committed" // who waited for the lock of writers has to see what they wrote
	return config, nil
}

// plain reports whether it is certain what of a URL is the password. With an @ or a slash in the password, pgx takes a
// part of it for a host or a database, and errors have these.
func plain(address string) bool {
	scheme, rest, ok := strings.Cut(address, "://")
	authority, rest, _ := strings.Cut(rest, "/")
	path, _, _ := strings.Cut(rest, "?")
	return ok && (scheme == "postgres" || scheme == "postgresql") && strings.Count(authority, "@") <= 1 && !strings.Contains(path, "@")
}

// open returns the database to a store, or closes it.
func open(ctx context.Context, db *sql.DB) (*Store, error) {
	if err := migrate(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return sqlstore.New(ctx, sqlstore.Config{
		Reads: db, Writes: db, Readers: connections,
		Lock: `SELECT articles FROM article_chunks WHERE activity = '~' FOR UPDATE`,
	})
}

// migrate has one process at a time make the tables.
func migrate(ctx context.Context, db *sql.DB) error {
	connection, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer connection.Close()
	var encoding string
	if err := connection.QueryRowContext(ctx, `SHOW server_encoding`).Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("its encoding is %s, but has to be UTF8: make a database with ENCODING 'UTF8'", encoding)
	}
	const lock = 0x6b657977 // any number that others do not use
	if _, err := connection.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, lock); err != nil {
		return err
	}
	err = sqlstore.Migrate(ctx, db, sqlstore.Postgres)
	// When the context has ended, the lock still has to be given back.
	_, unlockErr := connection.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, lock)
	return errors.Join(err, unlockErr)
}
