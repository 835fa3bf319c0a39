package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/statedb"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// never are times after which no test waits: nobody looks at a row unless somebody wakes them.
var never = tuning{poll: time.Hour, recheck: time.Hour, sweep: time.Hour, limit: time.Minute}

func opened(t *testing.T, address string, options Options, times tuning) statedb.Database {
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

// counter counts the statements of a pool and of the connection that listens.
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

// counted returns a store with a pool that counts.
func counted(t *testing.T, address string, change func(*pgxpool.Config)) (statedb.Database, *counter) {
	t.Helper()
	config := testworld.Must(pgxpool.ParseConfig(address))(t)
	c := &counter{}
	config.ConnConfig.Tracer = c
	change(config)
	pool := testworld.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	store := testworld.Must(openPool(t.Context(), pool, Options{}, never))(t)
	t.Cleanup(func() { _ = store.Close() })
	return store, c
}
