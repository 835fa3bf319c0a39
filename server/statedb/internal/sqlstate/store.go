// Package sqlstate stores state in an SQL database. It uses the same statements for SQLite and for PostgreSQL; packages
// sqlite and postgres open the database.
package sqlstate

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/server/internal/migrate"
	"github.com/keywright/keywright/server/statedb"
)

//go:embed migrations
var migrations embed.FS

// Schema is the schema of a store. Its lock is an arbitrary number that other programs are unlikely to use.
var Schema = migrate.Schema{Files: migrations, Versions: "state_migrations", Lock: 0x6b657973}

// Config configures a store.
type Config struct {
	// Reads and Writes are connections to one database, whose schema is [Schema]. They may be the same.
	Reads, Writes *sql.DB
	// Dialect is that of the database.
	Dialect migrate.Dialect
	// Now is the expression for the time of the database in microseconds. It may use $1, which is the time of Clock.
	Now string
	// Clock is the clock of the database, if the program has it. It is nil otherwise.
	Clock func() time.Time
	// Changed is an expression that sends the id of a changed row to all processes, where the database can. Otherwise it is any expression.
	Changed string
	// Prepare makes the store prepare its statements. The drivers of some databases do so themselves.
	Prepare bool
	// Explain returns words for an error of the database, which do not depend on anything that was stored, and its kind.
	Explain func(error) (detail string, kind error)
	// Listening reports whether changes by other processes reach [Store.Wake], and returns a channel that is closed when this changes.
	Listening func() (bool, <-chan struct{})
	Times
	// Logger gets the failures in the background.
	Logger *slog.Logger
	// Observe may be nil.
	Observe statedb.Observe
	// Close is called by [Store.Close] before the database is closed.
	Close func()
}

// Times are the times of a store. Tests have others than [Usual].
type Times struct {
	// Poll is the mean time between two looks at a row by a waiter that is not sure to be woken.
	Poll time.Duration
	// Recheck is the same for a waiter that is woken. It bounds what a broken connection can do that nobody has noticed yet.
	Recheck time.Duration
	// Sweep is the mean time between two sweeps.
	Sweep time.Duration
	// Limit is the longest time of a call.
	Limit time.Duration
}

// Usual are the times of a store.
var Usual = Times{Poll: 200 * time.Millisecond, Recheck: 5 * time.Second, Sweep: 10 * time.Minute, Limit: 10 * time.Second}

// Store implements [statedb.Database].
type Store struct {
	config     Config
	statements statements
	prepared   map[string]*sql.Stmt

	done       context.Context
	end        context.CancelFunc
	background sync.WaitGroup

	mutex sync.Mutex
	// waiters are the channels of the calls that wait, by row.
	waiters map[state.ID]map[chan struct{}]bool
}

var _ statedb.Database = (*Store)(nil)

// New returns a store. It takes over config.Reads and config.Writes: [Store.Close] closes them, and New does if it returns an error.
func New(ctx context.Context, config Config) (*Store, error) {
	s := &Store{
		config: config, statements: newStatements(config.Now, config.Changed), prepared: map[string]*sql.Stmt{},
		waiters: map[state.ID]map[chan struct{}]bool{},
	}
	s.done, s.end = context.WithCancel(context.Background())
	if config.Prepare {
		if err := s.prepare(ctx); err != nil {
			_ = s.Close()
			return nil, s.fault(ctx, "prepare the statements", err)
		}
	}
	s.background.Go(s.sweepNowAndThen)
	return s, nil
}

func (s *Store) prepare(ctx context.Context) (err error) {
	q := s.statements
	for db, queries := range map[*sql.DB][]string{s.config.Reads: {q.get, q.rows}, s.config.Writes: {q.create, q.acquire, q.put, q.release, q.delete, q.reseal}} {
		for _, query := range queries {
			if s.prepared[query], err = db.PrepareContext(ctx, query); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close implements [statedb.Database].
func (s *Store) Close() error {
	s.end()
	s.background.Wait()
	if s.config.Close != nil {
		s.config.Close()
	}
	// Writes is closed last: SQLite cleans up when the last connection is closed, which should be the one that writes.
	if err := cmp.Or(s.config.Reads.Close(), s.config.Writes.Close()); err != nil {
		return s.fault(context.Background(), "close", err)
	}
	return nil
}

// Get implements [state.Store].
func (s *Store) Get(ctx context.Context, id state.ID) (state.Row, error) {
	var found columns
	_, err := s.one(ctx, "read a row", s.config.Reads, s.statements.get, []any{s.now(), id[:]}, &found.generation, &found.value, &found.writtenAt, &found.expires, &found.leaseEnd, &found.now)
	return found.row(), err
}

// Acquire implements [state.Store].
func (s *Store) Acquire(ctx context.Context, id state.ID, generation int64, d time.Duration) (state.Lease, bool, error) {
	lease := state.Lease{ID: id}
	query, number := s.statements.acquire, generation
	if generation == 0 {
		query, number = s.statements.create, rand.Int64N(1024)
	}
	arguments := []any{s.now(), id[:], number, micros(d)}
	ok, err := s.one(ctx, "acquire a lease", s.config.Writes, query, arguments, &lease.Fence, &lease.Generation)
	if !ok {
		return state.Lease{}, false, err
	}
	return lease, true, nil
}

// Put implements [state.Store].
func (s *Store) Put(ctx context.Context, lease state.Lease, value []byte, expires time.Duration, release bool) (bool, error) {
	var in any // NULL: the value does not expire
	if expires > 0 {
		in = micros(expires)
	}
	return s.change(ctx, "write a value", lease.ID, s.statements.put, s.now(), lease.ID[:], lease.Fence, lease.Generation, value, in, release)
}

// Release implements [state.Store].
func (s *Store) Release(ctx context.Context, lease state.Lease) error {
	_, err := s.change(ctx, "release a lease", lease.ID, s.statements.release, lease.ID[:], lease.Fence)
	return err
}

// Delete implements [state.Store].
func (s *Store) Delete(ctx context.Context, id state.ID, generation int64) (bool, error) {
	return s.change(ctx, "delete a value", id, s.statements.delete, s.now(), id[:], generation)
}

// Reseal implements [state.Store].
func (s *Store) Reseal(ctx context.Context, id state.ID, generation int64, value []byte) (bool, error) {
	return s.change(ctx, "seal a value anew", id, s.statements.reseal, id[:], generation, value)
}

// change executes a statement that changes a row, and wakes its waiters.
func (s *Store) change(ctx context.Context, op string, id state.ID, query string, arguments ...any) (bool, error) {
	var changed any
	ok, err := s.one(ctx, op, s.config.Writes, query, arguments, &changed)
	if ok {
		s.Wake(id)
	}
	return ok, err
}

// one executes a statement that returns at most one row, and reports whether it did. The operation is the first word of op.
func (s *Store) one(ctx context.Context, op string, db *sql.DB, query string, arguments []any, into ...any) (found bool, err error) {
	err = s.each(ctx, db, query, arguments, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(into...)
	})
	if s.config.Observe != nil {
		operation, _, _ := strings.Cut(op, " ")
		s.config.Observe(ctx, operation, 0, err)
	}
	if err != nil {
		return false, s.fault(ctx, op, err)
	}
	return found, nil
}

// each calls scan for each row that a statement returns. SQLite commits at the end of rows.
func (s *Store) each(ctx context.Context, db *sql.DB, query string, arguments []any, scan func(*sql.Rows) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limit)
	defer cancel()
	rows, err := s.query(ctx, db, query, arguments)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *Store) query(ctx context.Context, db *sql.DB, query string, arguments []any) (*sql.Rows, error) {
	if statement := s.prepared[query]; statement != nil {
		return statement.QueryContext(ctx, arguments...)
	}
	return db.QueryContext(ctx, query, arguments...)
}

// now returns the time as an argument for statements. It is nil if the database has the clock.
func (s *Store) now() any {
	if s.config.Clock == nil {
		return nil
	}
	return s.config.Clock().UnixMicro()
}

// micros returns a duration in microseconds, rounded up, because 0 would be no time at all.
func micros(d time.Duration) int64 {
	n := d.Microseconds()
	if d%time.Microsecond > 0 {
		n++
	}
	return n
}

type columns struct {
	generation, now              int64
	value                        []byte
	writtenAt, expires, leaseEnd sql.NullInt64
}

// row returns the row at the time that it was read.
func (c *columns) row() state.Row {
	row := state.Row{Generation: c.generation}
	remaining := func(until sql.NullInt64) time.Duration {
		return max(0, time.Duration(until.Int64-c.now)*time.Microsecond)
	}
	if c.value != nil && (!c.expires.Valid || c.expires.Int64 > c.now && c.writtenAt.Int64 <= c.now+state.Slack.Microseconds()) {
		row.Value = c.value
		row.Age = max(0, time.Duration(c.now-c.writtenAt.Int64)*time.Microsecond)
		if c.expires.Valid {
			row.ExpiresIn = remaining(c.expires)
		}
	}
	if c.leaseEnd.Valid {
		row.LeasedFor = remaining(c.leaseEnd)
	}
	return row
}

// statements are the statements of a dialect. Each is one step. {now} stands for the time in microseconds. It is $1 where
// the program has the clock, and the clock of the database otherwise, for which $1 is NULL. A statement that compares the
// time reads it once, in the subquery clock. {slack} stands for [state.Slack] in microseconds. {changed} is a text that the
// database sends to all waiters, where it can.
type statements struct {
	get, create, acquire, put, release, delete, reseal, rows, sweep, putRecord, sweepRecords, trimFailures string

	fill func(text string) string
}

func newStatements(now, changed string) statements {
	fill := strings.NewReplacer("{now}", now, "{changed}", changed, "{slack}", strconv.FormatInt(state.Slack.Microseconds(), 10), "{clock}", "(SELECT "+now+" AS now) AS clock").Replace
	return statements{
		fill: fill,

		get: fill(`SELECT generation, value, written, expires, leased, {now} FROM state_rows WHERE id = $2`),

		// The first generation has the time in its upper bits, and a random number in the lower ones. The first fence is the
		// same, so a holder from before the row was swept has another one.
		create: fill(`INSERT INTO state_rows (id, fence, generation, expires, leased)
SELECT $2, now * 1024 + $3, now * 1024 + $3, now, now + $4 FROM {clock} WHERE true
ON CONFLICT (id) DO NOTHING RETURNING fence, generation`),

		acquire: fill(`UPDATE state_rows SET fence = fence + 1, leased = now + $4 FROM {clock}
WHERE id = $2 AND generation = $3 AND (leased IS NULL OR leased <= now OR leased > now + $4 + $4 + {slack}) RETURNING fence, generation`),

		put: fill(`UPDATE state_rows SET generation = generation + 1, value = $5, written = now, expires = now + $6, leased = CASE WHEN $7 THEN NULL ELSE leased END FROM {clock}
WHERE id = $2 AND fence = $3 AND generation = $4 RETURNING {changed}`),

		release: fill(`UPDATE state_rows SET leased = NULL WHERE id = $1 AND fence = $2 RETURNING {changed}`),

		delete: fill(`UPDATE state_rows SET generation = generation + 1, value = NULL, expires = now FROM {clock}
WHERE id = $2 AND generation = $3 RETURNING {changed}`),

		reseal: `UPDATE state_rows SET value = $3 WHERE id = $1 AND generation = $2 AND value IS NOT NULL RETURNING 1`,

		rows: fill(`SELECT id, generation, value, written, expires, leased, {now} FROM state_rows WHERE id > $2 AND value IS NOT NULL ORDER BY id LIMIT $3`),

		// The conditions stand twice. PostgreSQL looks again at a row that was changed meanwhile, but only at the outer ones.
		// The time is a subquery, so that it is read once and the index can be used.
		sweep: fill(`DELETE FROM state_rows WHERE id IN (
	SELECT id FROM state_rows WHERE expires < (SELECT {now} - $2) AND (leased IS NULL OR leased < (SELECT {now} - $2)) ORDER BY expires LIMIT $3
) AND expires < (SELECT {now} - $2) AND (leased IS NULL OR leased < (SELECT {now} - $2))`),

		putRecord: fill(`INSERT INTO state_records (name, kind, written, expires, mark, value, tag0, tag1, tag2, tag3)
SELECT $2, $3, now, now + $4, $5, $6, $7, $8, $9, $10 FROM {clock} WHERE true
ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, written = excluded.written, expires = excluded.expires, mark = excluded.mark, value = excluded.value,
tag0 = excluded.tag0, tag1 = excluded.tag1, tag2 = excluded.tag2, tag3 = excluded.tag3`),

		sweepRecords: fill(`DELETE FROM state_records WHERE name IN (SELECT name FROM state_records WHERE expires < (SELECT {now}) ORDER BY expires LIMIT $2) AND expires < (SELECT {now})`),

		trimFailures: `DELETE FROM state_records WHERE kind = $1 AND written < (SELECT written FROM state_records WHERE kind = $1 ORDER BY written DESC LIMIT 1 OFFSET $2)`,
	}
}

// Wait implements [state.Store]. The waiter is registered before it looks at the row, so no change is lost between the look and the wait.
func (s *Store) Wait(ctx context.Context, id state.ID, generation int64) error {
	woken, done := s.addWaiter(id)
	defer done()
	if s.config.Observe != nil {
		defer func(began time.Time) { s.config.Observe(ctx, "wait", time.Since(began), nil) }(time.Now())
	}
	for {
		listening, turned := false, (<-chan struct{})(nil)
		if s.config.Listening != nil {
			listening, turned = s.config.Listening()
		}
		row, err := s.Get(ctx, id)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || row.Generation != generation || row.LeasedFor <= 0 {
			return nil // after an error too: the caller looks at the row next, and gets the error then
		}
		pause := s.config.Poll
		if listening {
			pause = s.config.Recheck
		}
		select {
		case <-woken:
			return nil
		case <-s.done.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-turned:
		case <-time.After(min(jitter(pause), row.LeasedFor)):
		}
	}
}

// jitter returns a time around d, so that many nodes do not do the same at once.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// addWaiter returns a channel that is closed when somebody wakes the waiters of the row, and a function that ends the waiting.
func (s *Store) addWaiter(id state.ID) (woken <-chan struct{}, done func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.waiters[id] == nil {
		s.waiters[id] = map[chan struct{}]bool{}
	}
	channel := make(chan struct{})
	s.waiters[id][channel] = true
	return channel, func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if delete(s.waiters[id], channel); len(s.waiters[id]) == 0 {
			delete(s.waiters, id)
		}
	}
}

// Wake wakes those of this process who wait for a row.
func (s *Store) Wake(id state.ID) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for channel := range s.waiters[id] {
		close(channel)
	}
	delete(s.waiters, id)
}
