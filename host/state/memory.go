package state

import (
	"context"
	"slices"
	"sync"
	"time"
)

type memory struct {
	now  func() time.Time
	mu   sync.Mutex
	rows map[ID]*memoryRow
	// limit is the number of rows from which the next new one sweeps.
	limit int
	// highest is at least the highest generation and fence of all rows that sweep has removed. New rows begin above it.
	highest int64
}

// leastLimit is the least number of rows that a memory sweeps.
const leastLimit = 1024

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

func (m *memory) Get(ctx context.Context, id ID) (Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Row{}, err
	}
	return m.row(id), nil
}

func (m *memory) row(id ID) Row {
	r := m.rows[id]
	if r == nil {
		return Row{}
	}
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

// change calls f with a row, if there is one, and returns its result.
func (m *memory) change(ctx context.Context, id ID, f func(r *memoryRow) bool) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	r := m.rows[id]
	return r != nil && f(r), nil
}

func (m *memory) Put(ctx context.Context, lease Lease, value []byte, expires time.Duration, release bool) (bool, error) {
	return m.change(ctx, lease.ID, func(r *memoryRow) bool {
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
	_, err := m.change(ctx, lease.ID, func(r *memoryRow) bool {
		if r.fence == lease.Fence {
			r.leaseEnd = time.Time{}
			r.wake()
		}
		return true
	})
	return err
}

func (m *memory) Delete(ctx context.Context, id ID, generation int64) (bool, error) {
	return m.change(ctx, id, func(r *memoryRow) bool {
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
	return m.change(ctx, id, func(r *memoryRow) bool {
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
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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
	ids := make([]ID, 0, len(m.rows))
	for id := range m.rows {
		ids = append(ids, id)
	}
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
