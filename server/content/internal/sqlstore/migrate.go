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

// versions is the table of the migrations that a database has had. It is not goose's default, which the database may have
// for something else.
const versions = "content_migrations"

// Dialect is how a database wants its migrations.
type Dialect struct {
	goose  goose.Dialect
	before string // a statement for databases that lack a migration
}

// Dialects.
var (
	SQLite   = Dialect{goose: goose.DialectSQLite3}
	Postgres = Dialect{goose: goose.DialectPostgres, before: `CREATE COLLATION IF NOT EXISTS "binary" FROM "C"`}
)

// ErrNewer is the error of a database that a newer version of this program has made.
var ErrNewer = errors.New("a newer version of this program has made the database")

// Migrate brings a database to the schema that this version knows. It does not lock out another process that does the
// same: the caller does, or tries again after an error.
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
