// Package postgres stores records in a PostgreSQL database.
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/internal/sqlstore"
	"github.com/keywright/keywright/server/internal/migrate"
	"github.com/keywright/keywright/server/internal/postgresurl"
)

// Options configures [Open].
type Options struct {
	// Connections is the maximum number of connections. 0 means 16.
	Connections int
	// Pooler is set if a pooler such as PgBouncer is in between that lends a connection for a transaction only. Then no statements are
	// prepared, and the database plans them as it sees fit.
	Pooler bool
}

// Open connects to the database at address, postgres://user:password@host:port/database, and creates missing tables. The address may have
// the parameters of libpq, such as sslmode. ctx limits only the call of Open. It returns an error if the address is malformed, or if the
// database cannot be reached, does not have the encoding UTF8 or is for newer programs. Errors do not contain the password.
func Open(ctx context.Context, address string, options Options) (content.Database, error) {
	config, err := postgresurl.Config(address, nil, options.Pooler)
	if err != nil {
		return nil, err
	}
	connections := cmp.Or(options.Connections, 16)
	store, err := open(ctx, postgresurl.Open(config, connections), connections, options.Pooler)
	if err != nil {
		return nil, fmt.Errorf("open the database %s of PostgreSQL: %w", config.Database, err)
	}
	return store, nil
}

// open migrates the database and returns its store. It closes db if it fails.
func open(ctx context.Context, db *sql.DB, connections int, pooler bool) (*sqlstore.Store, error) {
	if err := upgrade(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return sqlstore.New(ctx, sqlstore.Config{
		Reads: db, Writes: db, Dialect: migrate.Postgres, Readers: connections, Away: away, Unprepared: pooler, Snapshot: &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
		Lock: `SELECT articles FROM article_chunks WHERE activity = '~' FOR UPDATE`,
	})
}

func upgrade(ctx context.Context, db *sql.DB) error {
	var encoding string
	if err := db.QueryRowContext(ctx, `SHOW server_encoding`).Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("its encoding is %s, but has to be UTF8: make a database with ENCODING 'UTF8'", encoding)
	}
	return migrate.Up(ctx, db, migrate.Postgres, sqlstore.Schema)
}

// away reports whether an error means that the database cannot be reached: no connection can be made, it broke, or the
// server ends or takes no more of them (PostgreSQL, appendix A: classes 08 and 53, and 57P01 to 57P05). An error of a context
// is not one, though pgx may wrap it in an error of the network.
func away(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(pgErr.Code, "08") || strings.HasPrefix(pgErr.Code, "53") || strings.HasPrefix(pgErr.Code, "57P")
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	return connecting || network || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
