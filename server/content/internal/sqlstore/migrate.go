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
	before  string
}

// The dialects.
var (
	SQLite   = Dialect{dialect: migrate.SQLite}
	Postgres = Dialect{dialect: migrate.Postgres, before: `CREATE COLLATION IF NOT EXISTS "binary" FROM "C"`}
)

// Migrate brings a database to the schema of this version, as [migrate.Up] does.
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect) error {
	return migrate.Up(ctx, db, dialect.dialect, migrate.Schema{Files: migrations, Versions: "content_migrations", Before: dialect.before})
}
