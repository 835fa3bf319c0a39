// Package postgres stores state in a PostgreSQL database.
package postgres

import (
	"cmp"
	"context"
	"crypto/fips140"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/keywright/keywright/server/internal/migrate"
	"github.com/keywright/keywright/server/internal/postgresurl"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/internal/sqlstate"
)

// Options are the options of a store. The zero Options are for a database that is reached directly.
type Options struct {
	// Connections is the maximum number of connections for statements, at least 2. One more connection waits for changes.
	// The default is 16.
	Connections int
	// Pooler is set if a pooler such as PgBouncer is in between that lends a connection for a transaction only. The store
	// sets no parameters of its connections then, prepares no statements, and has no connection that waits for changes:
	// those who wait look at the row about five times a second. The database has to have synchronous_commit by itself.
	Pooler bool
	// Logger gets the failures in the background. If it is nil, they are not logged.
	Logger *slog.Logger
	// Observe may be nil.
	Observe statedb.Observe
}

// settings are the default parameters of a connection, beside those of all stores. The URL may override them.
var settings = map[string]string{
	// A token that may be used once is lost for good if a change is lost that was reported.
	"synchronous_commit": "on",
	// The server ends a statement whose caller is gone.
	"statement_timeout": "30s",
}

// Open connects to the database at address, postgres://user:password@host:port/database, and creates missing tables. The
// address may have the parameters of libpq, such as sslmode. ctx limits only the call of Open. Errors are a [*statedb.Error],
// unless the address is malformed; they do not contain the password.
func Open(ctx context.Context, address string, options Options) (statedb.Database, error) {
	return open(ctx, address, options, sqlstate.Usual)
}

func open(ctx context.Context, address string, options Options, times sqlstate.Times) (statedb.Database, error) {
	config, err := postgresurl.Config(address, settings, options.Pooler)
	if err != nil {
		return nil, err
	}
	return connect(ctx, config, options, times)
}

func connect(ctx context.Context, config *pgx.ConnConfig, options Options, times sqlstate.Times) (statedb.Database, error) {
	connections := cmp.Or(options.Connections, 16)
	if connections < 2 {
		return nil, fmt.Errorf("a store of state needs 2 connections at least, and may have %d", connections)
	}
	db := postgresurl.Open(config, connections) // without its empty statement, the first call after a restart of the database would fail
	return start(ctx, db, func(context.Context) (*pgx.ConnConfig, error) { return config, nil }, options, times)
}

// start migrates the database and returns its store. It closes db if it fails.
func start(ctx context.Context, db *sql.DB, dial func(context.Context) (*pgx.ConnConfig, error), options Options, times sqlstate.Times) (statedb.Database, error) {
	log := cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	listener := newListener(dial, log)
	if !options.Pooler {
		listener.first, _ = listener.connect(ctx) // before Up: a contraction sees this connection, or Up sees the contraction
	}
	if err := migrate.Up(ctx, db, migrate.Postgres, sqlstate.Schema); err != nil {
		listener.stop()
		_ = db.Close()
		return nil, sqlstate.Fault(ctx, "open the database of PostgreSQL", err, explain)
	}
	config := sqlstate.Config{
		Reads: db, Writes: db, Dialect: migrate.Postgres, Explain: explain, Logger: log, Times: times, Observe: options.Observe,
		Now:     `COALESCE($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)`,
		Changed: `pg_notify('` + channel + `', encode(id, 'hex'))::text`,
	}
	if options.Pooler {
		return sqlstate.New(ctx, config)
	}
	config.Listening, config.Close = listener.state, listener.stop
	store, err := sqlstate.New(ctx, config)
	if err != nil {
		return nil, err
	}
	listener.start(store.Wake)
	return store, nil
}

// explain returns our own words for an error of pgx, and its kind: the texts of others name users, hosts and values.
func explain(err error) (detail string, kind error) {
	var number syscall.Errno
	var timeout net.Error
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return code(answer.Code)
	}
	switch {
	case errors.As(err, new(*net.DNSError)):
		return "the name of its host is not known", statedb.ErrUnreachable
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "its certificate is not trusted", statedb.ErrUnreachable
	case errors.As(err, &number):
		return number.Error(), statedb.ErrUnreachable
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time", statedb.ErrUnreachable
	case fips140.Enforced(): // pgx has no type for it
		return "the connection is broken, or the server asks for the password by md5, which is not allowed with fips140=only", statedb.ErrUnreachable
	}
	return "the connection is broken", statedb.ErrUnreachable
}

// codes are the meanings of the beginnings of an SQLSTATE. The first that fits counts.
var codes = []struct {
	prefix string
	kind   error
	means  string
}{
	{"28", statedb.ErrRefused, "the user or the password is wrong"},
	{"3D000", statedb.ErrRefused, "there is no such database"},
	{"42501", statedb.ErrRefused, "the user may not do this: it needs to select, insert, update and delete in state_rows and state_records, to select in state_migrations, and to create all three once"},
	{"25006", statedb.ErrRefused, "it is read-only: name the primary server"},
	{"3F", statedb.ErrSchema, "a schema is missing"},
	{"42", statedb.ErrSchema, "a table or a column is missing, or is another"},
	{"22", statedb.ErrSchema, "a column is another"},
	{"23", statedb.ErrSchema, "a column is another"},
	{"08", statedb.ErrUnreachable, "the connection is broken"},
	{"53300", statedb.ErrUnreachable, "it has too many connections"},
	{"53", statedb.ErrUnreachable, "it has no memory or no space on the disk"},
	{"57014", statedb.ErrUnreachable, "it does not answer in time"},
	{"57", statedb.ErrUnreachable, "it stops or starts"},
	{"40", statedb.ErrUnreachable, "it undid the change because of another one"},
	{"55", statedb.ErrUnreachable, "a lock is in the way"},
	{"58", statedb.ErrUnreachable, "its disk fails"},
	{"XX", statedb.ErrUnreachable, "it has an inner error"},
}

func code(sqlstate string) (detail string, kind error) {
	for _, c := range codes {
		if strings.HasPrefix(sqlstate, c.prefix) {
			return c.means + " (SQLSTATE " + sqlstate + ")", c.kind
		}
	}
	return "SQLSTATE " + sqlstate, statedb.ErrRefused
}
