package statetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/keywright/keywright/host/state"
)

var rowTests = []test{
	{"a row that is not there", func(f *fixture) {
		f.wantRow(id(1), "", 0, false)
		f.delete(id(1), 0, false)
		f.put(state.Lease{ID: id(1)}, "no row", 0, true, false)
		f.put(state.Lease{ID: id(1), Fence: 1, Generation: 1}, "no row", 0, true, false)
		f.release(state.Lease{ID: id(1), Fence: 1, Generation: 1})
		if _, ok := f.tryAcquire(id(1), 7); ok {
			f.Error("Acquire took the lease of a row that is not there, with a generation")
		}
		f.wantRow(id(1), "", 0, false)
		f.wantRow(id(1), "", f.acquire(id(1)).Generation, true)
	}},
	{"put and get", func(f *fixture) {
		lease := f.acquire(id(1))
		f.put(lease, "one", 4*time.Hour, true, true)
		f.between("ExpiresIn", f.wantRow(id(1), "one", lease.Generation+1, false).ExpiresIn, 4*time.Hour)
		second := f.acquire(id(1))
		if second.Generation != lease.Generation+1 {
			f.Errorf("the lease has generation %d, want that of the row, %d", second.Generation, lease.Generation+1)
		}
		f.put(second, "two", 0, true, true)
		if row := f.wantRow(id(1), "two", second.Generation+1, false); row.ExpiresIn != 0 {
			f.Errorf("Get returns %+v, want the second value without expiry", row)
		}
	}},
	{"values of 32 KiB and any bytes", func(f *fixture) {
		long := make([]byte, 32<<10)
		rand.Read(long)
		for i, value := range []string{string(long), "\x00", "\xff\xfe", "'; --", `\x41`, strings.Repeat("\x00", 100)} {
			f.set(id(byte(i)), value)
			f.wantValue(id(byte(i)), value)
		}
	}},
	{"rows are apart", func(f *fixture) {
		one := f.acquire(id(1))
		two := f.acquire(id(2))
		f.put(two, "two", 0, true, true)
		f.wantValue(id(1), "")
		f.put(state.Lease{ID: id(2), Fence: one.Fence, Generation: one.Generation}, "of another row", 0, true, false)
		f.put(one, "one", 0, true, true)
		f.wantValue(id(1), "one")
		f.wantValue(id(2), "two")
		f.delete(id(2), two.Generation+1, true)
		f.wantValue(id(1), "one")
	}},
	{"callers own what they pass and get", func(f *fixture) {
		value := []byte("value")
		if ok, err := f.store.Put(f.Context(), f.acquire(id(1)), value, 0, true); !ok || err != nil {
			f.Fatalf("Put: %t, %v", ok, err)
		}
		clear(value)
		clear(f.get(id(1)).Value)
		f.wantValue(id(1), "value")
	}},
	{"values expire by the clock of the store", func(f *fixture) {
		lease := f.acquire(id(1))
		f.put(lease, "one", 4*time.Hour, true, true)
		f.advance(2 * time.Hour)
		f.between("ExpiresIn", f.get(id(1)).ExpiresIn, 2*time.Hour)
		f.advance(3 * time.Hour)
		f.wantRow(id(1), "", lease.Generation+1, false) // nobody wrote
		f.set(id(1), "two")
		f.wantValue(id(1), "two")
	}},
	// The age of a value has nothing to do with that of its row, and reading does not change it.
	{"values have their age by the clock of the store", func(f *fixture) {
		f.acquire(id(2))
		f.advance(2 * time.Hour)
		f.put(f.acquire(id(1)), "one", 10*time.Hour, true, true)
		f.older("one, as it was written", f.get(id(1)).Age, 0)
		f.advance(4 * time.Hour)
		f.older("one", f.get(id(1)).Age, 4*time.Hour)
		f.older("one again", f.get(id(1)).Age, 4*time.Hour)
		generation := f.set(id(1), "two")
		f.older("two, as it was written", f.get(id(1)).Age, 0)
		f.advance(2 * time.Hour)
		f.older("two", f.get(id(1)).Age, 2*time.Hour)
		if err := f.store.Rows(f.Context(), func(_ state.ID, row state.Row) error {
			f.older("two in the list", row.Age, 2*time.Hour)
			return nil
		}); err != nil {
			f.Errorf("Rows: %v", err)
		}
		f.delete(id(1), generation, true)
		for n := range byte(3) {
			if row := f.get(id(n)); row.Age != 0 {
				f.Errorf("row %d has no value, and the age %s", n, row.Age)
			}
		}
	}},
	// Nobody knows then how long a value may still be used, or for how long a refusal has held.
	{"values that expire do when the clock is set back", func(f *fixture) {
		f.put(f.acquire(id(1)), "one", 4*time.Hour, true, true)
		f.put(f.acquire(id(2)), "for good", 0, true, true)
		f.advance(-10 * time.Hour)
		if row := f.get(id(1)); row.Value != nil || row.ExpiresIn != 0 || row.Age != 0 {
			f.Errorf("the value was written later than now, and Get returns %+v", row)
		}
		f.wantValue(id(2), "for good")
		f.put(f.acquire(id(1)), "two", 4*time.Hour, true, true)
		f.wantValue(id(1), "two")
		f.between("ExpiresIn", f.get(id(1)).ExpiresIn, 4*time.Hour)
	}},
	{"values without expiry stay", func(f *fixture) {
		f.put(f.acquire(id(1)), "zero", 0, true, true)
		f.put(f.acquire(id(2)), "less", -time.Hour, true, true)
		f.advance(100_000 * time.Hour)
		if f.suite.Sweep != nil {
			f.suite.Sweep(f.T, f.store)
		}
		f.wantValue(id(1), "zero")
		f.wantValue(id(2), "less")
	}},
	// Sums of times may overflow.
	{"a value may live a hundred years", func(f *fixture) {
		const years = 100 * 365 * 24 * time.Hour
		f.put(f.acquire(id(1)), "long", years, true, true)
		f.between("ExpiresIn", f.get(id(1)).ExpiresIn, years)
		f.advance(2 * time.Hour)
		f.between("ExpiresIn", f.get(id(1)).ExpiresIn, years-2*time.Hour)
	}},
	{"delete compares the generation", func(f *fixture) {
		generation := f.set(id(1), "one")
		f.delete(id(1), generation-1, false)
		f.delete(id(1), generation+1, false)
		f.delete(id(1), 0, false)
		f.wantValue(id(1), "one")
		f.delete(id(1), generation, true)
		f.wantRow(id(1), "", generation+1, false)
		f.delete(id(1), generation, false)
		if next := f.set(id(1), "two"); next <= generation+1 {
			f.Errorf("the next generation is %d, want more than %d", next, generation+1)
		}
	}},
	{"reseal changes the value and nothing else", func(f *fixture) {
		lease := f.acquire(id(1))
		f.put(lease, "one", 10*time.Hour, false, true)
		lease.Generation++
		f.set(id(2), "for good")
		f.advance(30 * time.Minute)
		f.reseal(id(1), lease.Generation, "ONE", true)
		f.wantValue(id(1), "ONE")
		row := f.get(id(1))
		f.older("the value", row.Age, 30*time.Minute)
		f.between("ExpiresIn", row.ExpiresIn, 10*time.Hour-30*time.Minute)
		f.between("LeasedFor", row.LeasedFor, 30*time.Minute)
		f.put(lease, "two", 0, true, true)
		f.reseal(id(2), f.get(id(2)).Generation, "FOR GOOD", true)
		if row := f.get(id(2)); row.ExpiresIn != 0 || string(row.Value) != "FOR GOOD" {
			f.Errorf("after Reseal the row is %+v", row)
		}
	}},
	{"reseal compares the generation", func(f *fixture) {
		f.reseal(id(1), 0, "of no row", false)
		lease := f.acquire(id(1))
		f.reseal(id(1), lease.Generation, "of no value", false)
		f.put(lease, "one", 0, true, true)
		for _, wrong := range []int64{0, lease.Generation, lease.Generation + 2} {
			f.reseal(id(1), wrong, "of another generation", false)
		}
		f.wantValue(id(1), "one")
		f.delete(id(1), lease.Generation+1, true)
		f.reseal(id(1), lease.Generation+2, "of no value", false)
		f.wantValue(id(1), "")
	}},
	// No row that a store has forgotten can be confused with the one that comes after it.
	{"generations and fences rise and never return", func(f *fixture) {
		var generation, fence int64
		for range 3 {
			for range 5 {
				lease := f.acquire(id(1))
				if lease.Fence <= fence || lease.Generation < generation {
					f.Fatalf("a lease has fence %d and generation %d after %d and %d", lease.Fence, lease.Generation, fence, generation)
				}
				f.put(lease, "value", time.Hour, true, true)
				fence, generation = lease.Fence, lease.Generation+1
			}
			f.delete(id(1), generation, true)
			lease := f.acquire(id(1))
			f.put(lease, "value", time.Hour, true, true)
			late := state.Lease{ID: id(1), Fence: lease.Fence, Generation: lease.Generation + 1}
			fence, generation = lease.Fence, lease.Generation+1
			f.advance(100_000 * time.Hour)
			if f.suite.Sweep == nil {
				continue
			}
			f.suite.Sweep(f.T, f.store)
			f.put(late, "of a row that was forgotten", 0, true, false)
			row := f.get(id(1))
			first := f.acquire(id(1))
			switch forgotten := row.Generation == 0; {
			case forgotten && first.Generation <= generation:
				f.Fatalf("a row that was forgotten has generation %d, it was %d", first.Generation, generation)
			case !forgotten && first.Generation != generation:
				f.Fatalf("after a sweep the generation is %d, it was %d", first.Generation, generation)
			case first.Fence <= fence:
				f.Fatalf("after a sweep the fence is %d, it was %d", first.Fence, fence)
			}
			f.put(late, "of a row that was forgotten", 0, true, false)
			f.release(first)
			fence, generation = first.Fence, first.Generation
		}
	}},
	{"rows lists the values", func(f *fixture) {
		want := map[state.ID]string{}
		for n := range byte(40) {
			f.put(f.acquire(id(n)), "value "+string(rune('a'+n)), 4*time.Hour, true, true)
			want[id(n)] = "value " + string(rune('a'+n))
		}
		f.put(f.acquire(id(100)), "expires", time.Hour, true, true)
		f.delete(id(0), f.get(id(0)).Generation, true)
		delete(want, id(0))
		f.acquire(id(101)) // has no value
		f.advance(2 * time.Hour)
		got := map[state.ID]string{}
		err := f.store.Rows(f.Context(), func(id state.ID, row state.Row) error {
			if _, twice := got[id]; twice {
				f.Errorf("Rows lists %x twice", id)
			}
			got[id] = string(row.Value)
			f.between("ExpiresIn", row.ExpiresIn, 2*time.Hour)
			if one := f.get(id); one.Generation != row.Generation || !bytes.Equal(one.Value, row.Value) {
				f.Errorf("Rows lists %+v, Get returns %+v", row, one)
			}
			return nil
		})
		if err != nil {
			f.Fatalf("Rows: %v", err)
		}
		if !maps.Equal(got, want) {
			f.Errorf("Rows lists %q, want %q", got, want)
		}
	}},
	{"rows ends with the error of its function", func(f *fixture) {
		f.set(id(1), "one")
		f.set(id(2), "two")
		stop := errors.New("stop")
		n := 0
		if err := f.store.Rows(f.Context(), func(state.ID, state.Row) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
			f.Errorf("Rows returns %v after %d rows, want the error of its function after 1", err, n)
		}
	}},
	{"rows lets its function change rows", func(f *fixture) {
		for n := range byte(10) {
			f.set(id(n), "old")
		}
		err := f.store.Rows(f.Context(), func(id state.ID, row state.Row) error {
			if string(row.Value) == "old" { // a row that was changed may be listed again
				f.set(id, "new")
			}
			return nil
		})
		if err != nil {
			f.Fatalf("Rows: %v", err)
		}
		for n := range byte(10) {
			f.wantValue(id(n), "new")
		}
	}},
	{"nothing changes when the context is done", func(f *fixture) {
		generation := f.set(id(1), "one")
		lease := f.acquire(id(1))
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		want := func(what string, err error) {
			f.Helper()
			if !errors.Is(err, context.Canceled) {
				f.Errorf("%s returns %v, want context.Canceled", what, err)
			}
		}
		_, err := f.store.Get(ctx, id(1))
		want("Get", err)
		_, _, err = f.store.Acquire(ctx, id(2), 0, time.Hour)
		want("Acquire", err)
		_, err = f.store.Put(ctx, lease, []byte("two"), 0, true)
		want("Put", err)
		want("Release", f.store.Release(ctx, lease))
		_, err = f.store.Delete(ctx, id(1), generation)
		want("Delete", err)
		_, err = f.store.Reseal(ctx, id(1), generation, []byte("two"))
		want("Reseal", err)
		want("Rows", f.store.Rows(ctx, func(state.ID, state.Row) error { return nil }))
		want("Wait", f.store.Wait(ctx, id(1), generation))
		f.wantRow(id(1), "one", generation, true)
		f.wantRow(id(2), "", 0, false)
	}},
}
