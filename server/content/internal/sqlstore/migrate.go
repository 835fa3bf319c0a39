package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// versions is the table of the applied migrations. It is not goose's default name, because another program may use that
// in the same database.
const versions = "content_migrations"

// Dialect is the SQL dialect of a database.
type Dialect struct {
	goose goose.Dialect
	// before is a statement that is executed before migrations, if any are missing.
	before string
}

// The dialects.
var (
	SQLite   = Dialect{goose: goose.DialectSQLite3}
	Postgres = Dialect{goose: goose.DialectPostgres, before: `CREATE COLLATION IF NOT EXISTS "binary" FROM "C"`}
)

// ErrNewer is returned for a database with the schema of a newer version of this program.
var ErrNewer = errors.New("a newer version of this program has made the database")

// Migrate brings a database to the schema of this version. It returns an error that wraps [ErrNewer] if the schema is
// newer. It does not lock the database: if another process may migrate at the same time, the caller takes a lock, or
// tries again after an error.
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(dialect.goose, db, files, goose.WithTableName(versions), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	has, known, err := provider.GetVersions(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("find out the version of the schema: %w", err)
	case has > known:
		return fmt.Errorf("%w: its schema is version %d, and this program knows those up to %d; use the newer program, or another database", ErrNewer, has, known)
	case has == known:
		return nil
	}
	if dialect.before != "" {
		if _, err := db.ExecContext(ctx, dialect.before); err != nil {
			return fmt.Errorf("make the collation of ids: %w", err)
		}
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("bring the schema up to date: %w", err)
	}
	return nil
}
