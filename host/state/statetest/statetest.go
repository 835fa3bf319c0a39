// Package statetest tests stores of state: what package state promises, a store that passes Run keeps.
package statetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/keywright/keywright/host/state"
)

// Suite has the functions of a kind of store that the tests call.
type Suite struct {
	// New returns an empty store. The test calls it once. New registers what has to be cleaned up with t.Cleanup.
	New func(t *testing.T) state.Store
	// Advance lets time pass for a store: expiries and leases come nearer by d. A store whose clock cannot be set, such as
	// a database, moves the times in its rows into the past instead. Tests only use hours, so that the time that a slow
	// machine needs makes no difference. A negative d sets the clock back.
	Advance func(t *testing.T, s state.Store, d time.Duration)
	// Sweep removes the rows that the store may forget, at once. It is nil if the store forgets nothing.
	Sweep func(t *testing.T, s state.Store)
}

type test struct {
	name string
	run  func(f *fixture)
}

// Run runs all tests of the suite.
func Run(t *testing.T, suite Suite) {
	t.Helper()
	for _, test := range slices.Concat(rowTests, leaseTests) {
		t.Run(test.name, func(t *testing.T) { test.run(&fixture{T: t, suite: suite, store: suite.New(t)}) })
	}
}

type fixture struct {
	*testing.T
	suite Suite
	store state.Store
}

// id returns the ID number n. IDs have bytes of all kinds, and differ in the last ones only.
func id(n byte) (id state.ID) {
	for i := range id {
		id[i] = byte(i * 37)
	}
	id[len(id)-1] = n
	return id
}

func (f *fixture) advance(d time.Duration) {
	f.Helper()
	f.suite.Advance(f.T, f.store, d)
}

func (f *fixture) get(id state.ID) state.Row {
	f.Helper()
	row, err := f.store.Get(f.Context(), id)
	if err != nil {
		f.Fatalf("Get: %v", err)
	}
	return row
}

// tryAcquire acquires a lease of an hour.
func (f *fixture) tryAcquire(id state.ID, generation int64) (state.Lease, bool) {
	f.Helper()
	lease, ok, err := f.store.Acquire(f.Context(), id, generation, time.Hour)
	if err != nil {
		f.Fatalf("Acquire: %v", err)
	}
	return lease, ok
}

// acquire acquires a lease of an hour at the present generation, and fails if it does not get it.
func (f *fixture) acquire(id state.ID) state.Lease {
	f.Helper()
	lease, ok := f.tryAcquire(id, f.get(id).Generation)
	if !ok {
		f.Fatal("Acquire did not take a lease that nobody held")
	}
	if lease.ID != id || lease.Generation == 0 {
		f.Fatalf("Acquire returned the lease %+v: want the ID, and a generation other than 0", lease)
	}
	return lease
}

// put writes and checks whether the store did.
func (f *fixture) put(lease state.Lease, value string, expires time.Duration, release, want bool) {
	f.Helper()
	ok, err := f.store.Put(f.Context(), lease, []byte(value), expires, release)
	f.changed(fmt.Sprintf("Put of %.20q", value), ok, want, err)
}

func (f *fixture) changed(method string, got, want bool, err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("%s: %v", method, err)
	}
	if got != want {
		f.Fatalf("%s changed the row: %t, want %t", method, got, want)
	}
}

// set writes a value that does not expire, releases the lease, and returns the generation.
func (f *fixture) set(id state.ID, value string) int64 {
	f.Helper()
	lease := f.acquire(id)
	f.put(lease, value, 0, true, true)
	return lease.Generation + 1
}

func (f *fixture) release(lease state.Lease) {
	f.Helper()
	if err := f.store.Release(f.Context(), lease); err != nil {
		f.Fatalf("Release: %v", err)
	}
}

func (f *fixture) delete(id state.ID, generation int64, want bool) {
	f.Helper()
	ok, err := f.store.Delete(f.Context(), id, generation)
	f.changed("Delete", ok, want, err)
}

// wantValue checks the value of a row. "" stands for no value.
func (f *fixture) wantValue(id state.ID, value string) {
	f.Helper()
	if row := f.get(id); string(row.Value) != value || (row.Value == nil) != (value == "") {
		f.Fatalf("the row holds %.20q, want %.20q", row.Value, value)
	}
}

// wantRow checks a row and returns it. "" stands for no value, which has no expiry.
func (f *fixture) wantRow(id state.ID, value string, generation int64, lease bool) state.Row {
	f.Helper()
	f.wantValue(id, value)
	row := f.get(id)
	if row.Generation != generation || (row.LeasedFor != 0) != lease || value == "" && row.ExpiresIn != 0 {
		f.Errorf("the row is %+v, want generation %d, lease: %t", row, generation, lease)
	}
	return row
}

func (f *fixture) reseal(id state.ID, generation int64, value string, want bool) {
	f.Helper()
	ok, err := f.store.Reseal(f.Context(), id, generation, []byte(value))
	f.changed("Reseal", ok, want, err)
}

// older checks an age. A slow machine may have added half an hour to it.
func (f *fixture) older(what string, got, want time.Duration) {
	f.Helper()
	if got < want || got >= want+30*time.Minute {
		f.Fatalf("the age of %s is %s, want %s, or little more", what, got, want)
	}
}

// between checks a duration that was total when the test began. A slow machine may have used up half an hour of it.
func (f *fixture) between(what string, got, total time.Duration) {
	f.Helper()
	if got > total || got <= total-30*time.Minute {
		f.Fatalf("%s is %s, want %s, or little less", what, got, total)
	}
}
