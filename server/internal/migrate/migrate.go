// Package migrate brings SQL databases to the schema of this version of the program.
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// ErrNewer is returned for a database with the schema of a newer version of this program.
var ErrNewer = errors.New("a newer version of this program has made the database")

// Dialect is the SQL dialect of a database.
type Dialect struct{ goose goose.Dialect }

// The dialects.
var (
	SQLite   = Dialect{goose.DialectSQLite3}
	Postgres = Dialect{goose.DialectPostgres}
)

// Schema is a schema with its migrations.
type Schema struct {
	// Files has the migrations in its directory migrations.
	Files fs.FS
	// Versions is the table of the applied migrations. Another program may use goose's default in the same database.
	Versions string
	// Lock is the number of the advisory lock by which processes migrate one at a time in PostgreSQL.
	Lock int64
	// Before is a statement that PostgreSQL executes before migrations, if any are missing. It is "" for none.
	Before string
}

// Up brings a database to a schema. It returns an error that wraps [ErrNewer] if the schema of the database is newer. It
// waits for other processes that migrate at the same time. SQLite has no lock for that: with it, Up tries several times.
func Up(ctx context.Context, db *sql.DB, dialect Dialect, schema Schema) (err error) {
	if dialect == Postgres {
		tx, err := db.BeginTx(ctx, nil) // the lock is that of a transaction, so that it holds through a pooler, too
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // it has written nothing, and its end releases the lock
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, schema.Lock); err != nil {
			return err
		}
		return up(ctx, db, dialect, schema)
	}
	for range 5 {
		if err = up(ctx, db, dialect, schema); err == nil || errors.Is(err, ErrNewer) {
			break
		}
	}
	return err
}

// Check is like Up, and writes nothing: it returns an error if the schema of the database is older, too.
func Check(ctx context.Context, db *sql.DB, dialect Dialect, schema Schema) error {
	_, current, latest, err := versions(ctx, db, dialect, schema)
	if err == nil && current < latest {
		return fmt.Errorf("its schema is version %d, and this program needs version %d: open it once where it can be written", current, latest)
	}
	return err
}

// versions returns the version of a database's schema, and the latest that this program knows. It returns an error for a newer one.
func versions(ctx context.Context, db *sql.DB, dialect Dialect, schema Schema) (provider *goose.Provider, current, latest int64, err error) {
	files, err := fs.Sub(schema.Files, "migrations")
	if err != nil {
		return nil, 0, 0, err
	}
	provider, err = goose.NewProvider(dialect.goose, db, files, goose.WithTableName(schema.Versions), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, 0, 0, fmt.Errorf("read the migrations: %w", err)
	}
	current, latest, err = provider.GetVersions(ctx)
	switch {
	case err != nil:
		err = fmt.Errorf("find out the version of the schema: %w", err)
	case current > latest:
		err = fmt.Errorf("%w: its schema is version %d, and this program knows those up to %d; use the newer program, or another database", ErrNewer, current, latest)
	}
	return provider, current, latest, err
}

// up is one try of Up.
func up(ctx context.Context, db *sql.DB, dialect Dialect, schema Schema) error {
	provider, current, latest, err := versions(ctx, db, dialect, schema)
	if err != nil || current == latest {
		return err
	}
	if dialect == Postgres && schema.Before != "" {
		if _, err := db.ExecContext(ctx, schema.Before); err != nil {
			return fmt.Errorf("prepare the database: %w", err)
		}
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("bring the schema up to date: %w", err)
	}
	return nil
}
