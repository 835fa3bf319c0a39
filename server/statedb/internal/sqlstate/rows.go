package sqlstate

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/server/internal/migrate"
	"github.com/keywright/keywright/server/statedb"
)

const page = 100 // rows that are read at once

// Rows implements [state.Store]. It reads the rows page by page in the order of their ids, so f may write.
func (s *Store) Rows(ctx context.Context, f func(state.ID, state.Row) error) error {
	last := []byte{}
	for {
		found, err := s.page(ctx, last)
		if err != nil {
			return s.fault(ctx, "read the rows", err)
		}
		for _, c := range found {
			if row := c.row(); row.Value != nil {
				if err := f(state.ID(c.id), row); err != nil {
					return err
				}
			}
		}
		if len(found) < page {
			return nil
		}
		last = found[page-1].id
	}
}

type listed struct {
	id []byte
	columns
}

func (s *Store) page(ctx context.Context, last []byte) (all []listed, err error) {
	err = s.each(ctx, s.config.Reads, s.statements.rows, []any{s.now(), last, page}, func(rows *sql.Rows) error {
		var c listed
		err := rows.Scan(&c.id, &c.generation, &c.value, &c.writtenAt, &c.expires, &c.leaseEnd, &c.now)
		if err == nil && len(c.id) != len(state.ID{}) {
			err = errID
		}
		all = append(all, c)
		return err
	})
	return all, err
}

// errID is returned for an id that no store has written.
var errID = errors.New("an id has another length")

// Sweep implements [statedb.Database].
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	// keepTime is the time for which rows without a value stay, so that a row that is used often is not made again and again. It is
	// longer than a lease: a holder that comes back later finds no row, or another one, and writes nothing.
	const keepTime = time.Hour
	rows, err := s.exec(ctx, "sweep", s.statements.sweep, s.now(), keepTime.Microseconds(), limit)
	if err != nil {
		return 0, err
	}
	records, err := s.exec(ctx, "sweep", s.statements.sweepRecords, s.now(), limit)
	return max(rows, records), err
}

// maxFailures is the number of records of failures of a kind that stay, the newest.
const maxFailures = 1_000_000

// TrimFailures deletes the oldest records of failures of a kind beyond a number.
func (s *Store) TrimFailures(ctx context.Context, kind statedb.Kind, remaining int) error {
	_, err := s.exec(ctx, "delete old failures", s.statements.trimFailures, kind, remaining-1)
	return err
}

// Contract is [migrate.Contract].
func (s *Store) Contract(ctx context.Context, dry bool) (migrate.Status, error) {
	status, err := migrate.Contract(ctx, s.config.Writes, s.config.Dialect, Schema, dry)
	if err != nil {
		err = s.fault(ctx, "contract the schema", err)
	}
	return status, err
}

// sweepNowAndThen sweeps until the store is closed. It goes on at once while there is much to delete.
func (s *Store) sweepNowAndThen() {
	const swept = 1000 // rows that one statement deletes
	for {
		select {
		case <-s.done.Done():
			return
		case <-time.After(jitter(s.config.Sweep)):
		}
		for n := swept; n == swept; {
			var err error
			if n, err = s.Sweep(s.done, swept); err != nil && s.done.Err() == nil {
				s.config.Logger.Warn("old rows of the state stay for now", "error", err)
			}
		}
		for _, kind := range []statedb.Kind{statedb.KindFailure, statedb.KindShortFailure} {
			_ = s.TrimFailures(s.done, kind, maxFailures) // the next sweep tries again
		}
	}
}

func (s *Store) fault(ctx context.Context, op string, err error) error {
	return Fault(ctx, op, err, s.config.Explain)
}

// Fault returns the error of a call as a [*statedb.Error]. explain is [Config.Explain].
func Fault(ctx context.Context, op string, err error, explain func(error) (string, error)) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return &statedb.Error{Op: op, Kind: context.Canceled}
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
		return &statedb.Error{Op: op, Kind: statedb.ErrUnreachable, Detail: "it does not answer in time", Timeout: true}
	case errors.Is(err, migrate.ErrNewer):
		return &statedb.Error{Op: op, Kind: statedb.ErrSchema, Detail: err.Error()} // in words and numbers of migrate alone
	case errors.Is(err, errID):
		return &statedb.Error{Op: op, Kind: statedb.ErrSchema, Detail: errID.Error()}
	case errors.Is(err, sql.ErrConnDone):
		return &statedb.Error{Op: op, Kind: statedb.ErrUnreachable, Detail: "the store is closed"}
	}
	detail, kind := explain(err)
	return &statedb.Error{Op: op, Kind: kind, Detail: detail}
}
