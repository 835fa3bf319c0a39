package postgres

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/keywright/keywright/server/statedb"
)

// explain returns words for an error of pgx, and its kind. The words are our own: the texts of pgx and of PostgreSQL name users,
// hosts and values.
func explain(err error) (detail string, kind error) {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return code(answer.Code)
	}
	var (
		name    *net.DNSError
		trust   *tls.CertificateVerificationError
		number  syscall.Errno
		timeout net.Error
	)
	switch {
	case errors.As(err, &name):
		return "the name of its host is not known", statedb.ErrUnreachable
	case errors.As(err, &trust):
		return "its certificate is not trusted", statedb.ErrUnreachable
	case errors.As(err, &number):
		return number.Error(), statedb.ErrUnreachable
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time", statedb.ErrUnreachable
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
	{"42501", statedb.ErrRefused, "the user may not do this: it needs to select, insert, update and delete in state_rows, to select in state_migrations, and to create both once"},
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

// code returns the meaning of an SQLSTATE and its kind.
func code(sqlstate string) (detail string, kind error) {
	for _, c := range codes {
		if strings.HasPrefix(sqlstate, c.prefix) {
			return c.means + " (SQLSTATE " + sqlstate + ")", c.kind
		}
	}
	return "SQLSTATE " + sqlstate, statedb.ErrRefused
}
