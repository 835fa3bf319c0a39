package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/internal/postgresurl"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/internal/sqlstate"
)

// The error of opening a database has a kind, and neither the password nor the address.
func TestErrorsOfOpening(t *testing.T) {
	const canary = "c4n4ry"
	address := postgrestest.Database(t)
	opened(t, address, Options{}, never)
	exec(t, raw(t, address), `CREATE ROLE stranger LOGIN`)
	server, _ := url.Parse(address)
	socket := server.Query().Get("host")
	for name, test := range map[string]struct {
		address string
		kind    error
	}{
		"nobody listens":   {"postgres://" + canary + ":" + canary + "@127.0.0.1:1/" + canary, statedb.ErrUnreachable},
		"no socket":        {"postgres://" + canary + "@/" + canary + "?host=/missing/" + canary, statedb.ErrUnreachable},
		"unknown database": {"postgres://test:" + canary + "@/" + canary + "?host=" + socket, statedb.ErrRefused},
		"unknown user":     {"postgres://" + canary + "@/postgres?host=" + socket, statedb.ErrRefused},
		"no rights":        {strings.Replace(address, "test@", "stranger@", 1), statedb.ErrRefused},
		"malformed":        {"postgres://user:%" + canary + "%zz@host/db", nil},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		store, err := Open(ctx, test.address, Options{})
		cancel()
		if err == nil {
			_ = store.Close()
			t.Errorf("%s: it is open", name)
			continue
		}
		if strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), "PostgreSQL") || test.kind != nil && !errors.Is(err, test.kind) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

// A user who may not make tables can use them.
func TestAUserWithFewRights(t *testing.T) {
	address := postgrestest.Database(t)
	_ = opened(t, address, Options{}, never).Close()
	exec(t, raw(t, address), `CREATE ROLE gateway LOGIN`, `GRANT SELECT, INSERT, UPDATE, DELETE ON state_rows, state_records TO gateway`, `GRANT SELECT ON state_migrations TO gateway`)
	store := opened(t, strings.Replace(address, "test@", "gateway@", 1), Options{}, never)
	write(t, store, leased(t, store, "a", time.Hour))
	if _, err := store.Sweep(t.Context(), 1); err != nil {
		t.Error(err)
	}
	readOnly := opened(t, address+"&default_transaction_read_only=on", Options{}, never)
	if _, _, err := readOnly.Acquire(t.Context(), state.ID{1}, 0, time.Hour); !errors.Is(err, statedb.ErrRefused) {
		t.Errorf("of a database that is read-only: %v", err)
	}
}

func TestTooFewConnections(t *testing.T) {
	address := postgrestest.Database(t)
	if _, err := Open(t.Context(), address, Options{Connections: 1}); err == nil {
		t.Error("one connection is enough")
	}
}

// A call ends with its context, and after some time at the latest, if the database does not answer.
func TestSlowDatabase(t *testing.T) {
	address := postgrestest.Database(t)
	times := never
	impatient := never
	impatient.Limit = 50 * time.Millisecond
	patient, bounded := opened(t, address, Options{}, times), opened(t, address, Options{}, impatient)
	db := raw(t, address)
	lock := testworld.Must(db.BeginTx(t.Context(), nil))(t)
	defer func() { _ = lock.Rollback() }()
	testworld.Must(lock.ExecContext(t.Context(), `LOCK TABLE state_rows IN ACCESS EXCLUSIVE MODE`))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, of := patient.Get(ctx, state.ID{1})
	_, _, at := bounded.Acquire(t.Context(), state.ID{1}, 0, time.Hour)
	for _, err := range []error{of, at} {
		if !errors.Is(err, statedb.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
	}
	testworld.Check(t, lock.Rollback())
	for _, store := range []statedb.Database{patient, bounded} {
		for _, err := store.Get(t.Context(), state.ID{1}); err != nil; _, err = store.Get(t.Context(), state.ID{1}) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
	}
}

// A row that is in use again when the sweep gets to it stays.
func TestASweepLooksAgain(t *testing.T) {
	address := postgrestest.Database(t)
	store, db := opened(t, address, Options{}, never), raw(t, address)
	lease := leased(t, store, "a", time.Minute)
	exec(t, db, `UPDATE state_rows SET expires = 1, leased = NULL`)
	user := testworld.Must(db.BeginTx(t.Context(), nil))(t)
	defer func() { _ = user.Rollback() }()
	testworld.Must(user.ExecContext(t.Context(), `UPDATE state_rows SET expires = NULL`))(t)
	deleted := make(chan int)
	go func() {
		n, err := store.Sweep(context.Background(), 10)
		if err != nil {
			t.Error(err)
		}
		deleted <- n
	}()
	until(t, db, 1, blocked)
	testworld.Check(t, user.Commit())
	if n := <-deleted; n != 0 {
		t.Errorf("%d rows are deleted", n)
	}
	write(t, store, lease)
}

// A restart of the database loses nothing that was reported, and does not end the waiting. Calls meanwhile say that the
// database cannot be reached.
func TestRestart(t *testing.T) {
	server := testworld.Must(postgrestest.Start())(t)
	t.Cleanup(func() { _ = server.Stop() })
	address := testworld.Must(server.Database(t.Context()))(t)
	here, there := opened(t, address, Options{}, never), opened(t, address, Options{}, never)
	lease := leased(t, there, "a", time.Hour)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			row, err := here.Get(context.Background(), lease.ID)
			switch {
			case err != nil && !errors.Is(err, statedb.ErrUnreachable):
				t.Error(err)
			case err == nil && row.Generation != lease.Generation:
				return
			case err == nil:
				if err := here.Wait(context.Background(), lease.ID, lease.Generation); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	testworld.Check(t, server.Restart(func() {
		if _, err := there.Get(t.Context(), lease.ID); !errors.Is(err, statedb.ErrUnreachable) {
			t.Errorf("while it is down: %v", err)
		}
	}))
	row, err := there.Get(t.Context(), lease.ID)
	if err != nil || row.Generation != lease.Generation || row.LeasedFor <= 0 {
		t.Errorf("row = %+v, err = %v", row, err)
	}
	write(t, there, lease)
	<-ended
}

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// never are times after which no test waits: nobody looks at a row unless somebody wakes them.
var never = sqlstate.Times{Poll: time.Hour, Recheck: time.Hour, Sweep: time.Hour, Limit: time.Minute}

func opened(t *testing.T, address string, options Options, times sqlstate.Times) statedb.Database {
	t.Helper()
	store := testworld.Must(open(t.Context(), address, options, times))(t)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// raw is a connection for statements that a store does not have.
func raw(t *testing.T, address string) *sql.DB {
	t.Helper()
	db := testworld.Must(sql.Open("pgx", address))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		testworld.Must(db.ExecContext(t.Context(), statement))(t)
	}
}

// until waits until a query returns a number.
func until(t *testing.T, db *sql.DB, want int, query string) {
	t.Helper()
	for got := want + 1; got != want; runtime.Gosched() {
		testworld.Check(t, db.QueryRowContext(t.Context(), query).Scan(&got))
	}
}

// The connections that listen, and those that wait for a lock.
const (
	listeners = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle' AND query LIKE 'LISTEN%'`
	blocked   = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
)

func leased(t *testing.T, store state.Store, name string, d time.Duration) state.Lease {
	t.Helper()
	lease, taken, err := store.Acquire(t.Context(), sha256.Sum256([]byte(name)), 0, d)
	if err != nil || !taken {
		t.Fatalf("taken: %t, %v", taken, err)
	}
	return lease
}

func write(t *testing.T, store state.Store, lease state.Lease) {
	t.Helper()
	if ok, err := store.Put(t.Context(), lease, []byte("x"), 0, true); err != nil || !ok {
		t.Fatalf("written: %t, %v", ok, err)
	}
}

// waiting begins to wait for a lease, and returns what receives the result.
func waiting(store state.Store, lease state.Lease) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- store.Wait(context.Background(), lease.ID, lease.Generation) }()
	return ended
}

// counter counts the statements of a store and of the connection that listens.
type counter struct {
	mutex      sync.Mutex
	statements []string
}

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.statements = append(c.statements, data.SQL)
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// take returns the statements since the last call.
func (c *counter) take() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	all := c.statements
	c.statements = nil
	return all
}

// counted returns a store that counts.
func counted(t *testing.T, address string) (statedb.Database, *counter) {
	t.Helper()
	config := testworld.Must(postgresurl.Config(address, settings, false))(t)
	c := &counter{}
	config.Tracer = c
	store := testworld.Must(connect(t.Context(), config, Options{}, never))(t)
	t.Cleanup(func() { _ = store.Close() })
	return store, c
}
