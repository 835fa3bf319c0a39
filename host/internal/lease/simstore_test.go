package lease_test

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/keywright/keywright/host/state"
)

// The mutants of the protocol that the simulation must catch. They are in the store: what a node takes for kept, compared or
// marked is not.
const (
	noIntent          = "an intent is not kept"
	noCompare         = "Put compares neither fence nor generation"
	acquireAny        = "Acquire does not compare the generation"
	leaseNotChecked   = "Acquire does not look at the lease"
	lostUpdate        = "a token that was confirmed is not kept, now and then"
	lostMarkIgnored   = "a mark ends with the lease"
	deleteAny         = "Delete is not done, now and then"
	takenMoreThanOnce = "what was taken is still there for a moment"
	resealAny         = "Reseal does not compare the generation"
	shortLease        = "a lease ends before the attempt that it covers"
	oldAge            = "a value is older than it is"
)

var mutants = []string{noIntent, noCompare, acquireAny, leaseNotChecked, lostUpdate, lostMarkIgnored, deleteAny, takenMoreThanOnce, resealAny, shortLease, oldAge}

type simRow struct {
	generation, fence int64
	// confirmed counts the values that Put has reported as written.
	confirmed       int
	value           []byte
	expires, leased time.Duration
	written         time.Duration
	// before is the row before the intent, for the mutant whose marks end with the lease.
	before *simRow
	// taken is the value that was deleted last, and until when the mutant still returns it.
	taken []byte
	still time.Duration
}

// simStore is the store as a node sees it.
type simStore struct {
	w *simulation
	n *simNode
}

func (s simStore) op(apply func()) error {
	switch {
	case s.n.starting:
		apply()
		return nil
	case s.w.now < s.w.down:
		s.w.sleep(min(2*time.Second, s.w.down-s.w.now))
		return errFault
	}
	return s.w.op(s.n, apply)
}

// row returns a row, as the mutant has it.
func (s simStore) row(id state.ID) *simRow {
	r := s.w.rows[id]
	if r != nil && s.w.mutant == lostMarkIgnored && r.before != nil && r.leased <= s.w.now {
		r.generation, r.value, r.before = r.before.generation, r.before.value, nil
	}
	return r
}

func (s simStore) Get(_ context.Context, id state.ID) (row state.Row, err error) {
	err = s.op(func() {
		r := s.row(id)
		switch {
		case r == nil:
			return
		case s.w.mutant == takenMoreThanOnce && r.value == nil && s.w.now < r.still:
			row = state.Row{Generation: r.generation - 1, Value: r.taken}
			return
		}
		row = state.Row{Generation: r.generation, LeasedFor: max(0, r.leased-s.w.now)}
		if r.value != nil && (r.expires == 0 || r.expires > s.w.now) {
			row.Value, row.ExpiresIn, row.Age = r.value, max(0, r.expires-s.w.now), s.w.now-r.written
			if s.w.mutant == oldAge {
				row.Age += time.Hour
			}
		}
	})
	return row, err
}

func (s simStore) Acquire(_ context.Context, id state.ID, generation int64, d time.Duration) (l state.Lease, taken bool, err error) {
	err = s.op(func() {
		r := s.row(id)
		if r == nil && generation == 0 {
			r = &simRow{generation: 1}
			s.w.rows[id] = r
			generation = 1
		}
		if r == nil || r.generation != generation && s.w.mutant != acquireAny || r.leased > s.w.now && s.w.mutant != leaseNotChecked {
			return
		}
		r.fence++
		if s.w.mutant == shortLease {
			d /= 2
		}
		r.leased = s.w.now + d
		l, taken = state.Lease{ID: id, Fence: r.fence, Generation: r.generation}, true
	})
	return l, taken, err
}

func (s simStore) Put(_ context.Context, l state.Lease, value []byte, expires time.Duration, release bool) (ok bool, err error) {
	err = s.op(func() {
		r := s.row(l.ID)
		if r == nil || s.w.mutant != noCompare && (r.fence != l.Fence || r.generation != l.Generation && (s.w.mutant != noIntent || r.generation+1 != l.Generation)) {
			return
		}
		ok = true
		r.confirmed++
		if s.w.mutant == noIntent && !release {
			return
		}
		if release {
			r.leased = 0
		}
		if s.w.mutant == lostUpdate && release && s.w.once(50) {
			return
		}
		if r.before == nil || release {
			r.before = nil
			if !release {
				r.before = &simRow{generation: r.generation, value: r.value}
			}
		}
		r.generation, r.value, r.expires, r.written = l.Generation+1, value, 0, s.w.now
		if expires > 0 {
			r.expires = s.w.now + expires
		}
	})
	return ok, err
}

func (s simStore) Release(_ context.Context, l state.Lease) error {
	return s.op(func() {
		if r := s.row(l.ID); r != nil && r.fence == l.Fence {
			r.leased = 0
		}
	})
}

func (s simStore) Delete(_ context.Context, id state.ID, generation int64) (ok bool, err error) {
	err = s.op(func() {
		r := s.row(id)
		if s.w.mutant == takenMoreThanOnce && r != nil && r.value == nil && s.w.now < r.still {
			ok = true
		}
		if r == nil || r.generation != generation {
			return
		}
		ok = true
		if s.w.mutant == deleteAny && s.w.once(20) {
			return
		}
		r.taken, r.still = r.value, s.w.now+20*time.Millisecond
		r.generation, r.value, r.expires = r.generation+1, nil, 0
	})
	return ok, err
}

func (s simStore) Wait(_ context.Context, id state.ID, generation int64) error {
	for r := s.w.rows[id]; r != nil && r.generation == generation && r.leased > s.w.now; {
		s.w.sleep(min(r.leased-s.w.now, time.Second))
		if s.n.dead {
			return errFault
		}
	}
	return nil
}

func (s simStore) Reseal(_ context.Context, id state.ID, generation int64, value []byte) (ok bool, err error) {
	err = s.op(func() {
		if r := s.row(id); r != nil && r.value != nil && (r.generation == generation || s.w.mutant == resealAny) {
			ok, r.value = true, value
		}
	})
	return ok, err
}

func (s simStore) Rows(ctx context.Context, f func(state.ID, state.Row) error) error {
	ids := slices.SortedFunc(maps.Keys(s.w.rows), func(a, b state.ID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range ids {
		if s.w.rows[id].value == nil {
			continue
		}
		row, err := s.Get(ctx, id)
		if err == nil && row.Value != nil {
			err = f(id, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
