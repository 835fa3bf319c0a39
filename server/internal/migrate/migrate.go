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
	// Before is a statement that is executed before migrations, if any are missing. It is "" for none.
	Before string
}

// Up brings a database to a schema. It returns an error that wraps [ErrNewer] if the schema of the database is newer. It
// does not lock the database, so it fails if another process migrates at the same time. With SQLite it tries several times.
// With PostgreSQL, the caller takes a lock.
func Up(ctx context.Context, db *sql.DB, dialect Dialect, schema Schema) (err error) {
	tries := 1
	if dialect == SQLite {
		tries = 5
	}
	for range tries {
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
	if schema.Before != "" {
		if _, err := db.ExecContext(ctx, schema.Before); err != nil {
			return fmt.Errorf("prepare the database: %w", err)
		}
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("bring the schema up to date: %w", err)
	}
	return nil
}
