package sqlstore

import (
	"context"
	"database/sql"
	"embed"

	"github.com/keywright/keywright/server/internal/migrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Dialect is the SQL dialect of a database.
type Dialect struct {
	dialect migrate.Dialect
	prelude string
}

// The dialects.
var (
	SQLite   = Dialect{dialect: migrate.SQLite}
	Postgres = Dialect{dialect: migrate.Postgres, prelude: `CREATE COLLATION IF NOT EXISTS "binary" FROM "C"`}
)

// Migrate brings a database to the schema of this version, as [migrate.Up] does.
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect) error {
	return migrate.Up(ctx, db, dialect.dialect, dialect.schema())
}

// Check returns an error if a database does not have the schema of this version, as [migrate.Check] does.
func Check(ctx context.Context, db *sql.DB, dialect Dialect) error {
	return migrate.Check(ctx, db, dialect.dialect, dialect.schema())
}

func (d Dialect) schema() migrate.Schema {
	return migrate.Schema{Files: migrations, Versions: "content_migrations", Before: d.prelude}
}
