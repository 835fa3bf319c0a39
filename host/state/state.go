// Package state has the interface of the stores that keep the state of connectors: access tokens, rotating refresh tokens,
// and what token endpoints refused. Several nodes share a store, and it outlives them.
//
// A store holds rows. It compares and swaps them, and it leases them, by its own clock. It learns neither what a row is for
// nor what its value is: the host makes the ID with a keyed hash, and seals the value before it gets here.
//
// [NewMemory] makes a Store for tests. Stores in SQLite and PostgreSQL are in the module github.com/keywright/keywright/server: its
// package connectors/statestore opens the one that a file of connectors describes. A program may have a Store of its own, and
// package statetest has the tests that it has to pass.
package state

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// ErrUnavailable is wrapped by each error of a host whose cause is a store that does not answer, or not in time. Stores need not return it.
var ErrUnavailable = errors.New("the store of state does not answer")

// ID is the name of a row. It is the result of a keyed hash.
type ID [32]byte

// Slack is by how much the times of a row may be later than they can be, before the clock of the store counts as set back: a call may
// have learned the time, and waited before it read the row, and nodes may have leases of different times.
const Slack = 10 * time.Minute

// Row has the value and the condition of an ID in a store. The zero Row is that of an ID for which the store holds nothing.
type Row struct {
	// Generation rises with each write of the value. It never returns to an earlier number, even if the store has forgotten
	// the row in between. It is 0 in the zero Row.
	Generation int64
	// Value is sealed. It is nil if there is no value, or if the value has expired. A value that expires has done so, too, if it
	// was written more than [Slack] later than now: the clock of the store was set back, and nobody knows how old the value is.
	Value []byte
	// ExpiresIn is the time until Value expires, when the store answered. It is 0 if Value does not expire.
	ExpiresIn time.Duration
	// Age is the time since Value was written, when the store answered. It is 0 if there is no value.
	Age time.Duration
	// LeasedFor is the time until the lease of the row ends, when the store answered. It is 0 if nobody holds the lease.
	LeasedFor time.Duration
}

// Lease is the right to write the value of a row. Its holder loses it when its time is over, and somebody else may acquire
// it then. By Fence the store knows holders that are late.
type Lease struct {
	ID ID
	// Fence is greater than that of each earlier lease of the row, even if the store has forgotten the row in between.
	Fence int64
	// Generation is the generation of the row that the holder has seen or written last.
	Generation int64
}

// Store is a store of rows. Implementations must be safe for concurrent use. Times are by the clock of the store, which is
// the same for all nodes, so rows have durations only. Each method that changes a row does so in one step: it either
// happens as a whole or not at all, and a change that was reported outlives the process.
//
// An error means that the store does not answer, or not in time. A change may have been made or not then.
type Store interface {
	// Get returns the row of an ID.
	Get(ctx context.Context, id ID) (Row, error)
	// Acquire takes the lease of a row if nobody holds it and the row still has this generation. The generation of a row that
	// is not there is 0. Acquire reports whether it took the lease. A row that was not there has a generation other than 0
	// afterwards. A lease that ends later than in twice d and [Slack] counts as over: the clock of the store was set back.
	Acquire(ctx context.Context, id ID, generation int64, d time.Duration) (lease Lease, ok bool, err error)
	// Put writes a value for the holder of a lease, and reports whether it did. It does not if the row has another fence or
	// another generation than the lease. The time of the lease does not matter: as long as nobody else has acquired it, a
	// holder that is late may write. The new generation is lease.Generation + 1. If expires is 0 or less, the value does not
	// expire. If release is set, the lease ends.
	Put(ctx context.Context, lease Lease, value []byte, expires time.Duration, release bool) (ok bool, err error)
	// Release ends a lease without a change of the value. If somebody else has acquired the lease, Release does nothing.
	Release(ctx context.Context, lease Lease) error
	// Delete removes the value of a row if the row has this generation, and reports whether it did. The generation is one
	// more afterwards. A lease stays, but its holder can no longer write.
	Delete(ctx context.Context, id ID, generation int64) (ok bool, err error)
	// Wait returns when the row may have another generation than this, when its lease may have ended, or when ctx is done. It
	// may return early. It returns an error only if ctx is done.
	Wait(ctx context.Context, id ID, generation int64) error
	// Reseal replaces the value of a row that has this generation, and reports whether it did. It does not if there is no
	// value. The new value says the same, sealed with another key, or with a note for other nodes. Nothing else of the row
	// changes, its generation and age included, and a holder of the lease may still write.
	Reseal(ctx context.Context, id ID, generation int64, value []byte) (ok bool, err error)
	// Rows calls f with the ID and row of each value that has not expired, until f returns an error, and returns that error.
	// A change of the keys under which values are sealed uses it: f may call the store.
	Rows(ctx context.Context, f func(ID, Row) error) error
}

type memory struct {
	now  func() time.Time
	mu   sync.Mutex
	rows map[ID]*memoryRow
	// limit is the number of rows from which the next new one sweeps.
	limit int
	// highest is at least the highest generation and fence of all rows that sweep has removed. New rows begin above it.
	highest int64
}

const leastLimit = 1024 // rows

type memoryRow struct {
	generation, fence int64
	value             []byte
	writtenAt         time.Time
	// expires is the zero time if the value does not expire, and leaseEnd if nobody holds the lease.
	expires, leaseEnd time.Time
	// changed is closed at the next change. It is nil if nobody waits.
	changed chan struct{}
}

// NewMemory returns an empty store in the memory of the process. It forgets everything when the process ends, so it suits tests, and one
// node whose grants may be renewed after each start. If now is nil, its clock is time.Now. Nothing can wait for a clock, so Wait uses a
// timer for the time that the clock leaves.
func NewMemory(now func() time.Time) Store {
	if now == nil {
		now = time.Now
	}
	return &memory{now: now, rows: map[ID]*memoryRow{}, limit: leastLimit}
}

func (m *memory) Get(ctx context.Context, id ID) (row Row, err error) {
	_, err = m.visit(ctx, id, func(r *memoryRow) bool {
		row = m.row(r)
		return true
	})
	return row, err
}

func (m *memory) row(r *memoryRow) Row {
	now := m.now()
	row := Row{Generation: r.generation}
	if r.value != nil && r.valid(now) && (r.expires.IsZero() || !r.writtenAt.After(now.Add(Slack))) {
		row.Value, row.Age = slices.Clone(r.value), max(0, now.Sub(r.writtenAt))
		if !r.expires.IsZero() {
			row.ExpiresIn = r.expires.Sub(now)
		}
	}
	if r.leaseEnd.After(now) {
		row.LeasedFor = r.leaseEnd.Sub(now)
	}
	return row
}

func (r *memoryRow) valid(now time.Time) bool { return r.expires.IsZero() || r.expires.After(now) }

func (r *memoryRow) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

func (m *memory) Acquire(ctx context.Context, id ID, generation int64, d time.Duration) (Lease, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Lease{}, false, err
	}
	r, now := m.rows[id], m.now()
	switch {
	case r == nil && generation == 0:
		if len(m.rows) >= m.limit {
			m.sweep(now)
		}
		r = &memoryRow{generation: m.highest + 1, fence: m.highest}
		m.rows[id] = r
	case r == nil || r.generation != generation || r.leaseEnd.After(now) && !r.leaseEnd.After(now.Add(2*d+Slack)):
		return Lease{}, false, nil
	}
	r.fence++
	r.leaseEnd = now.Add(d)
	return Lease{ID: id, Fence: r.fence, Generation: r.generation}, true, nil
}

// visit calls f with a row, if there is one, and returns its result.
func (m *memory) visit(ctx context.Context, id ID, f func(r *memoryRow) bool) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	r := m.rows[id]
	return r != nil && f(r), nil
}

func (m *memory) Put(ctx context.Context, lease Lease, value []byte, expires time.Duration, release bool) (bool, error) {
	return m.visit(ctx, lease.ID, func(r *memoryRow) bool {
		if r.fence != lease.Fence || r.generation != lease.Generation {
			return false
		}
		r.generation++
		r.value, r.writtenAt, r.expires = slices.Clone(value), m.now(), time.Time{}
		if expires > 0 {
			r.expires = r.writtenAt.Add(expires)
		}
		if release {
			r.leaseEnd = time.Time{}
		}
		r.wake()
		return true
	})
}

func (m *memory) Release(ctx context.Context, lease Lease) error {
	_, err := m.visit(ctx, lease.ID, func(r *memoryRow) bool {
		if r.fence == lease.Fence {
			r.leaseEnd = time.Time{}
			r.wake()
		}
		return true
	})
	return err
}

func (m *memory) Delete(ctx context.Context, id ID, generation int64) (bool, error) {
	return m.visit(ctx, id, func(r *memoryRow) bool {
		if r.generation != generation {
			return false
		}
		r.generation++
		r.value, r.expires = nil, time.Time{}
		r.wake()
		return true
	})
}

func (m *memory) Reseal(ctx context.Context, id ID, generation int64, value []byte) (bool, error) {
	return m.visit(ctx, id, func(r *memoryRow) bool {
		if r.generation != generation || r.value == nil {
			return false
		}
		r.value = slices.Clone(value)
		return true
	})
}

func (m *memory) Wait(ctx context.Context, id ID, generation int64) error {
	changed, d := m.watch(id, generation)
	if err := ctx.Err(); changed == nil || err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// watch returns a channel that is closed at the next change of a row, and the time until its lease ends. The channel is nil
// if there is nothing to wait for.
func (m *memory) watch(id ID, generation int64) (<-chan struct{}, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, now := m.rows[id], m.now()
	if r == nil || r.generation != generation || !r.leaseEnd.After(now) {
		return nil, 0
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed, r.leaseEnd.Sub(now)
}

func (m *memory) Rows(ctx context.Context, f func(ID, Row) error) error {
	m.mu.Lock()
	ids := slices.Collect(maps.Keys(m.rows))
	m.mu.Unlock()
	for _, id := range ids {
		row, err := m.Get(ctx, id)
		if err == nil && row.Value != nil {
			err = f(id, row)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// sweep removes the rows without a value, or whose value has expired, that nobody leases.
func (m *memory) sweep(now time.Time) {
	for id, r := range m.rows {
		if r.leaseEnd.After(now) || r.value != nil && r.valid(now) {
			continue
		}
		m.highest = max(m.highest, r.generation, r.fence)
		r.wake()
		delete(m.rows, id)
	}
	m.limit = max(leastLimit, 2*len(m.rows)) // so that a row costs the same, with many or few of them
}
