// Package postgresurl reads URLs of PostgreSQL databases. Its errors do not have the password.
package postgresurl

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Parse parses the URL of a database, postgres://user:password@host:port/database. settings are parameters of the
// connection, which the URL may override. Its error does not quote a malformed URL, because it is unknown which part is
// the password. In errors about other URLs, pgx masks the password.
func Parse(address string, settings map[string]string) (*pgx.ConnConfig, error) {
	if _, err := url.Parse(address); err != nil || !plain(address) {
		return nil, errors.New("the URL of the PostgreSQL database is malformed: it has to be like postgres://user:password@host:5432/database, with percent-encoding where the password has special characters")
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("the URL of the PostgreSQL database: %w", err)
	}
	given := maps.Clone(config.RuntimeParams)
	maps.Copy(config.RuntimeParams, settings)
	maps.Copy(config.RuntimeParams, given)
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
