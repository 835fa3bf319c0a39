package bench

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/postgres"
	"github.com/keywright/keywright/server/content/sqlite"
	"github.com/keywright/keywright/server/internal/postgrestest"
)

// An engine creates databases in a temporary directory, which close removes. It starts with the first create.
type engine interface {
	create(ctx context.Context) (database, error)
	close() error
}

// A database is a database for content.
type database interface {
	// open opens the store.
	open(ctx context.Context) (content.Database, error)
	// settle does the maintenance that a server would do some minutes after a database was filled, and returns the size of the
	// database in bytes. The database must not be open.
	settle(ctx context.Context) (octets float64, err error)
	remove(ctx context.Context) error
}

type sqliteEngine struct {
	directory string
	made      int
}

func (e *sqliteEngine) create(context.Context) (database, error) {
	if e.directory == "" {
		var err error
		if e.directory, err = os.MkdirTemp("", "keywright-bench-"); err != nil {
			return nil, err
		}
	}
	e.made++
	return sqliteFile(filepath.Join(e.directory, strconv.Itoa(e.made)+".db")), nil
}

func (e *sqliteEngine) close() error {
	if e.directory == "" {
		return nil
	}
	return os.RemoveAll(e.directory)
}

type sqliteFile string

func (f sqliteFile) open(ctx context.Context) (content.Database, error) {
	return sqlite.Open(ctx, string(f))
}

func (f sqliteFile) settle(context.Context) (float64, error) {
	info, err := os.Stat(string(f))
	if err != nil {
		return 0, err
	}
	return float64(info.Size()), nil
}

func (f sqliteFile) remove(context.Context) error { return os.Remove(string(f)) }

type postgresEngine struct{ server *postgrestest.Server }

// durable enables the settings for durability that a server for tests turns off. With it, they are PostgreSQL's defaults.
var durable = []string{"fsync=on", "synchronous_commit=on", "full_page_writes=on"}

func (e *postgresEngine) create(ctx context.Context) (database, error) {
	if e.server == nil {
		var err error
		if e.server, err = postgrestest.Start(durable...); err != nil {
			return nil, err
		}
	}
	address, err := e.server.Database(ctx)
	return postgresDatabase(address), err
}

func (e *postgresEngine) close() error {
	if e.server == nil {
		return nil
	}
	return e.server.Stop()
}

type postgresDatabase string

func (d postgresDatabase) open(ctx context.Context) (content.Database, error) {
	return postgres.Open(ctx, string(d), postgres.Options{})
}

func (d postgresDatabase) settle(ctx context.Context) (octets float64, err error) {
	err = d.ask(func(db *sql.DB) error {
		for _, statement := range []string{`VACUUM ANALYZE`, `CHECKPOINT`} {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return db.QueryRowContext(ctx, `SELECT pg_database_size(current_database())`).Scan(&octets)
	})
	return octets, err
}

// remove empties the database, because a connection cannot drop its own database.
func (d postgresDatabase) remove(ctx context.Context) error {
	return d.ask(func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, `DROP SCHEMA public CASCADE`)
		return err
	})
}

func (d postgresDatabase) ask(f func(*sql.DB) error) error {
	db, err := sql.Open("pgx", string(d))
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}
