// Package migrate brings SQL databases to the schema of this version of the program.
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/pressly/goose/v3"
)

// ErrNewer is returned for a database that only newer versions of this program may use.
var ErrNewer = errors.New("the database is for newer versions of this program")

// Dialect is the SQL dialect of a database.
type Dialect struct{ goose goose.Dialect }

// The dialects.
var (
	SQLite   = Dialect{goose.DialectSQLite3}
	Postgres = Dialect{goose.DialectPostgres}
)

// Schema is a schema with its migrations.
type Schema struct {
	// Files has the migrations in its directory migrations. They only add, so that programs of an older schema go on. What they need
	// goes by the migrations in migrations/contract. The number of such a migration is the schema whose programs are the oldest
	// that may use the database afterwards.
	Files fs.FS
	// Versions is the table of the applied migrations. Another program may use goose's default in the same database. A migration adds its
	// column oldest, whose highest number is the oldest schema whose programs may use the database.
	Versions string
	// Lock is the number of the advisory lock by which processes migrate one at a time in PostgreSQL.
	Lock int32
	// Before is a statement that PostgreSQL executes before migrations, if any are missing. It is "" for none.
	Before string
}

// Up brings a database to a schema. It leaves a newer one as it is, and returns an error that wraps [ErrNewer] if programs of this schema
// may not use it. It waits for other processes that migrate at the same time. SQLite has no lock for that: with it, Up tries several times.
func Up(ctx context.Context, db *sql.DB, dialect Dialect, schema Schema) (err error) {
	if dialect == Postgres {
		tx, err := schema.begin(ctx, db, dialect)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // it has written nothing, and its end releases the lock
		return up(ctx, db, dialect, schema)
	}
	for range 5 {
		if err = up(ctx, db, dialect, schema); err == nil || errors.Is(err, ErrNewer) {
			break
		}
	}
	return err
}

// begin begins a transaction that no other process migrates beside. In PostgreSQL, its lock holds through a pooler, too. In SQLite, the
// transactions of db have to be immediate.
func (s *Schema) begin(ctx context.Context, db *sql.DB, dialect Dialect) (*sql.Tx, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err == nil && dialect == Postgres {
		if _, err = tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, s.Lock); err != nil {
			_ = tx.Rollback()
		}
	}
	return tx, err
}

// Check is like [Up], and writes nothing: it returns an error if the schema of the database is older, too.
func Check(ctx context.Context, db *sql.DB, dialect Dialect, schema Schema) error {
	_, current, latest, err := versions(ctx, db, dialect, schema)
	if err == nil && current < latest {
		return fmt.Errorf("its schema is version %d, and this program needs version %d: open it once where it can be written", current, latest)
	}
	return err
}

// versions returns the version of a database's schema, and the latest that this program knows. It returns an error if this program may not
// use the database.
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
	oldest := int64(0)
	if err == nil && current > latest {
		err = db.QueryRowContext(ctx, schema.oldest()).Scan(&oldest)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("find out the version of the schema: %w", err)
	case oldest > latest:
		err = fmt.Errorf("%w: they have to know schema %d, and this program knows those up to %d; use a newer program, or another database", ErrNewer, oldest, latest)
	}
	return provider, current, latest, err
}

// oldest returns the statement that reads the oldest schema whose programs may use the database.
func (s *Schema) oldest() string { return `SELECT max(oldest) FROM ` + s.Versions }

// up is one try of Up.
func up(ctx context.Context, db *sql.DB, dialect Dialect, schema Schema) error {
	provider, current, latest, err := versions(ctx, db, dialect, schema)
	if err != nil || current >= latest {
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

// Status describes the schema of a database.
type Status struct {
	// Schema is its version. Oldest is the oldest schema whose programs may use the database.
	Schema int64 `json:"schema"`
	Oldest int64 `json:"oldest"`
	// Contract is the value of Oldest after [Contract]. It is that of Oldest if nothing is left to remove.
	Contract int64 `json:"contract"`
	// Older is the number of running programs that know no schema as new as Contract. Those that have not called [Hold] are not in it.
	Older int `json:"older"`
}

// Contract removes what programs of a schema before Status.Contract need, unless such programs run, or dry is set. It returns the status
// afterwards. The database has to have the schema.
func Contract(ctx context.Context, db *sql.DB, dialect Dialect, schema Schema, dry bool) (status Status, err error) {
	names, err := fs.Glob(schema.Files, "migrations/contract/*.sql")
	if err != nil {
		return status, err
	}
	tx, err := schema.begin(ctx, db, dialect)
	if err != nil {
		return status, err
	}
	defer func() { _ = tx.Rollback() }()
	if status, err = schema.status(ctx, tx, dialect, names); err != nil || dry || status.Older > 0 {
		return status, err
	}
	for _, name := range names { // in the order of their numbers
		text, err := fs.ReadFile(schema.Files, name)
		if number, _ := goose.NumericComponent(name); err == nil && number > status.Oldest {
			_, err = tx.ExecContext(ctx, string(text))
		}
		if err != nil {
			return status, fmt.Errorf("remove by %s: %w", path.Base(name), err)
		}
	}
	if _, err = tx.ExecContext(ctx, `UPDATE `+schema.Versions+` SET oldest = $1`, status.Contract); err == nil {
		err = tx.Commit()
	}
	status.Oldest = status.Contract
	return status, err
}

// status returns the status of a database. names has the migrations that remove.
func (s *Schema) status(ctx context.Context, tx *sql.Tx, dialect Dialect, names []string) (status Status, err error) {
	if err = tx.QueryRowContext(ctx, `SELECT max(version_id), max(oldest) FROM `+s.Versions).Scan(&status.Schema, &status.Oldest); err != nil {
		return status, err
	}
	status.Contract = status.Oldest
	for _, name := range names {
		number, err := goose.NumericComponent(name)
		if err != nil {
			return status, err
		}
		status.Contract = max(status.Contract, number)
	}
	if dialect == Postgres {
		err = tx.QueryRowContext(ctx, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND classid::bigint = $1 AND objid::bigint < $2
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, s.Lock, status.Contract).Scan(&status.Older)
	}
	return status, err
}

// Hold returns the statement by which a connection to PostgreSQL says, as long as it is open, that its program knows a schema and none newer.
// [Up] has read the migrations before.
func Hold(schema Schema) string {
	names, _ := fs.Glob(schema.Files, "migrations/*.sql")
	latest, _ := goose.NumericComponent(names[len(names)-1])
	return fmt.Sprintf(`SELECT pg_advisory_lock_shared(%d, %d)`, schema.Lock, latest)
}
