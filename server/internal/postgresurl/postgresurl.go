// Package postgresurl reads URLs of PostgreSQL databases, and connects to them. Its errors do not have the password.
package postgresurl

import (
	"crypto/fips140"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// settings are the default parameters of a connection.
var settings = map[string]string{
	"application_name": "keywright",
	// All statements find their rows by indexes. PostgreSQL's estimates for a table that is small or was just filled can be so wrong that
	// it would read the whole table, and keep to that plan when the table has grown. So the settings exclude other plans and make one
	// plan per statement. JIT compilation would take longer than the statements run.
	"enable_seqscan":    "off",
	"enable_bitmapscan": "off",
	"enable_hashjoin":   "off",
	"enable_mergejoin":  "off",
	"plan_cache_mode":   "force_generic_plan",
	"jit":               "off",
}

// Config returns the configuration of a store's connections to the database of a URL. own are the store's own parameters. The URL may
// override them, and those of all stores. With a pooler such as PgBouncer, no parameters are set, and no statements are prepared.
func Config(address string, own map[string]string, pooler bool) (*pgx.ConnConfig, error) {
	config, err := Parse(address)
	switch {
	case err != nil:
		return nil, err
	case pooler:
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		return config, nil
	}
	parameters := config.RuntimeParams
	config.RuntimeParams = maps.Clone(settings)
	maps.Copy(config.RuntimeParams, own)
	maps.Copy(config.RuntimeParams, parameters)
	// A statement that waited for a row must see what the others wrote, and not fail.
	config.RuntimeParams["default_transaction_isolation"] = "read committed"
	return config, nil
}

// Open returns a database with this many connections at most. It makes none yet. Before the database uses a connection that was idle
// for a second, pgx sends an empty statement (stdlib.OptionShouldPing), and replaces the connection if the server has cut it.
func Open(config *pgx.ConnConfig, connections int) *sql.DB {
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db
}

// Parse parses the URL of a database, postgres://user:password@host:port/database. Its error does not quote a malformed URL, because it is
// unknown which part is the password. In errors about other URLs, pgx masks the password.
func Parse(address string) (*pgx.ConnConfig, error) {
	if _, err := url.Parse(address); err != nil || !plain(address) {
		return nil, errors.New("the URL of the PostgreSQL database is malformed: it has to be like postgres://user:password@host:5432/database, with percent-encoding where the password has special characters")
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("the URL of the PostgreSQL database: %w", err)
	}
	if fips140.Enforced() && config.RequireAuth == "" {
		config.RequireAuth = "!md5" // for which pgx would panic
	}
	return config, nil
}

// plain reports whether it is certain which part of a URL is the password. If the password contains an unescaped @ or
// slash, pgx takes a part of it for the host or the database, which its errors quote.
func plain(address string) bool {
	scheme, rest, ok := strings.Cut(address, "://")
	authority, rest, _ := strings.Cut(rest, "/")
	path, _, _ := strings.Cut(rest, "?")
	return ok && (scheme == "postgres" || scheme == "postgresql") && strings.Count(authority, "@") <= 1 && !strings.Contains(path, "@")
}
