package postgres

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/keywright/keywright/server/state"
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
		return "the name of its host is not known", state.ErrUnreachable
	case errors.As(err, &trust):
		return "its certificate is not trusted", state.ErrUnreachable
	case errors.As(err, &number):
		return number.Error(), state.ErrUnreachable
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time", state.ErrUnreachable
	}
	return "the connection is broken", state.ErrUnreachable
}

// codes are the meanings of the beginnings of an SQLSTATE. The first that fits counts.
var codes = []struct {
	prefix string
	kind   error
	means  string
}{
	{"28", state.ErrRefused, "the user or the password is wrong"},
	{"3D000", state.ErrRefused, "there is no such database"},
	{"42501", state.ErrRefused, "the user may not do this: it needs to select, insert, update and delete in state_rows, to select in state_migrations, and to create both once"},
	{"25006", state.ErrRefused, "it is read-only: name the primary server"},
	{"3F", state.ErrSchema, "a schema is missing"},
	{"42", state.ErrSchema, "a table or a column is missing, or is another"},
	{"22", state.ErrSchema, "a column is another"},
	{"23", state.ErrSchema, "a column is another"},
	{"08", state.ErrUnreachable, "the connection is broken"},
	{"53300", state.ErrUnreachable, "it has too many connections"},
	{"53", state.ErrUnreachable, "it has no memory or no space on the disk"},
	{"57014", state.ErrUnreachable, "it does not answer in time"},
	{"57", state.ErrUnreachable, "it stops or starts"},
	{"40", state.ErrUnreachable, "it undid the change because of another one"},
	{"55", state.ErrUnreachable, "a lock is in the way"},
	{"58", state.ErrUnreachable, "its disk fails"},
	{"XX", state.ErrUnreachable, "it has an inner error"},
}

// code returns the meaning of an SQLSTATE and its kind.
func code(sqlstate string) (detail string, kind error) {
	for _, c := range codes {
		if strings.HasPrefix(sqlstate, c.prefix) {
			return c.means + " (SQLSTATE " + sqlstate + ")", c.kind
		}
	}
	return "SQLSTATE " + sqlstate, state.ErrRefused
}
