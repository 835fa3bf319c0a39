package statetest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host/state"
)

var leaseTests = []test{
	{"only one has the lease", func(f *fixture) {
		generation := f.set(id(1), "one")
		lease := f.acquire(id(1))
		if _, ok := f.tryAcquire(id(1), generation); ok {
			f.Error("a second Acquire took the lease")
		}
		f.between("LeasedFor", f.get(id(1)).LeasedFor, time.Hour)
		f.put(lease, "two", 0, true, true)
	}},
	{"acquire compares the generation", func(f *fixture) {
		generation := f.set(id(1), "one")
		for _, wrong := range []int64{0, generation - 1, generation + 1, -generation} {
			if _, ok := f.tryAcquire(id(1), wrong); ok {
				f.Errorf("Acquire took the lease for generation %d, the row has %d", wrong, generation)
			}
		}
		f.wantRow(id(1), "one", generation, false)
		if _, ok := f.tryAcquire(id(1), generation); !ok {
			f.Error("Acquire did not take the lease for the row's generation")
		}
	}},
	{"a lease ends with its time", func(f *fixture) {
		first := f.acquire(id(1))
		f.advance(2 * time.Hour)
		f.wantRow(id(1), "", first.Generation, false)
		second := f.acquire(id(1))
		if second.Fence == first.Fence || second.Generation != first.Generation {
			f.Errorf("the second lease is %+v after %+v: want another fence and the same generation", second, first)
		}
	}},
	{"a lease from before the clock was set back is over", func(f *fixture) {
		first := f.acquire(id(1))
		f.put(first, "one", 0, false, true)
		f.advance(-10 * time.Hour)
		second := f.acquire(id(1))
		f.between("LeasedFor", f.get(id(1)).LeasedFor, time.Hour)
		first.Generation++
		f.put(first, "late", 0, true, false)
		f.put(second, "two", 0, true, true)
		f.wantValue(id(1), "two")
	}},
	{"a lease ends with release", func(f *fixture) {
		lease := f.acquire(id(1))
		f.release(lease)
		f.wantRow(id(1), "", lease.Generation, false)
		f.release(lease)
		f.acquire(id(1))
	}},
	{"put can end the lease or keep it", func(f *fixture) {
		lease := f.acquire(id(1))
		f.put(lease, "kept", 0, false, true)
		lease.Generation++
		f.between("LeasedFor", f.get(id(1)).LeasedFor, time.Hour)
		if _, ok := f.tryAcquire(id(1), lease.Generation); ok {
			f.Fatal("Acquire took a lease that Put had kept")
		}
		f.put(lease, "ended", 0, true, true)
		f.wantRow(id(1), "ended", lease.Generation+1, false)
	}},
	{"put compares the fence", func(f *fixture) {
		late := f.acquire(id(1))
		f.advance(2 * time.Hour)
		now := f.acquire(id(1))
		f.put(late, "late", 0, true, false)
		f.wantRow(id(1), "", now.Generation, true)
		f.put(now, "now", 0, true, true)
		f.put(late, "late", 0, true, false)
		late.Generation = now.Generation + 1
		f.put(late, "late, with the generation of the row", 0, true, false)
		f.wantValue(id(1), "now")
	}},
	{"put compares the generation", func(f *fixture) {
		lease := f.acquire(id(1))
		f.put(lease, "one", 0, false, true)
		f.put(lease, "again", 0, false, false)
		for _, wrong := range []int64{0, lease.Generation - 1, lease.Generation + 2} {
			f.put(state.Lease{ID: id(1), Fence: lease.Fence, Generation: wrong}, "other", 0, true, false)
		}
		f.wantRow(id(1), "one", lease.Generation+1, true)
	}},
	{"a late holder may write while nobody else has come", func(f *fixture) {
		lease := f.acquire(id(1))
		f.advance(2 * time.Hour)
		f.put(lease, "late", 0, true, true)
		f.wantValue(id(1), "late")
	}},
	{"release of a late holder does nothing", func(f *fixture) {
		late := f.acquire(id(1))
		f.advance(2 * time.Hour)
		now := f.acquire(id(1))
		f.release(late)
		f.wantRow(id(1), "", now.Generation, true)
		f.put(now, "now", 0, true, true)
	}},
	{"delete keeps the lease and stops its holder", func(f *fixture) {
		generation := f.set(id(1), "one")
		lease := f.acquire(id(1))
		f.delete(id(1), generation, true)
		f.put(lease, "two", 0, true, false)
		f.wantRow(id(1), "", generation+1, true)
		f.release(lease)
		f.set(id(1), "three")
	}},
	{"wait returns at once if there is nothing to wait for", func(f *fixture) {
		for what, err := range map[string]error{
			"no row":             f.store.Wait(f.Context(), id(1), 0),
			"another generation": f.store.Wait(f.Context(), id(2), f.acquire(id(2)).Generation-1),
			"no lease":           f.store.Wait(f.Context(), id(3), f.set(id(3), "one")),
		} {
			if err != nil {
				f.Errorf("%s: Wait returns %v", what, err)
			}
		}
	}},
	// The test hangs if Wait does not return after the change.
	{"wait returns after a change", func(f *fixture) {
		for i, change := range []func(state.Lease){
			func(l state.Lease) { f.put(l, "value", 0, true, true) },
			func(l state.Lease) { f.put(l, "value", 0, false, true) },
			func(l state.Lease) { f.release(l) },
			func(l state.Lease) { f.delete(l.ID, l.Generation, true) },
		} {
			lease := f.acquire(id(byte(i)))
			var waiting []<-chan error
			for range 5 {
				waiting = append(waiting, f.wait(f.Context(), lease.ID, lease.Generation))
			}
			change(lease)
			for _, done := range waiting {
				if err := <-done; err != nil {
					f.Errorf("change %d: Wait returns %v", i, err)
				}
			}
		}
	}},
	// The test takes as long as the lease, however slow the machine is.
	{"wait returns when the lease has ended by time", func(f *fixture) {
		lease, ok, err := f.store.Acquire(f.Context(), id(1), 0, 20*time.Millisecond)
		if err != nil || !ok {
			f.Fatalf("Acquire: %t, %v", ok, err)
		}
		if err := f.store.Wait(f.Context(), lease.ID, lease.Generation); err != nil {
			f.Errorf("Wait returns %v", err)
		}
	}},
	{"wait returns when its context is done", func(f *fixture) {
		lease := f.acquire(id(1))
		ctx, cancel := context.WithCancel(f.Context())
		done := f.wait(ctx, lease.ID, lease.Generation)
		cancel()
		// Wait may return early, without an error, but not later than this.
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			f.Errorf("Wait returns %v, want context.Canceled", err)
		}
	}},
	{"of many who acquire one succeeds", func(f *fixture) {
		for n, generation := range []int64{0, f.set(id(1), "one")} {
			var holders atomic.Int32
			together(32, func(int) {
				switch _, ok, err := f.store.Acquire(f.Context(), id(byte(n)), generation, time.Hour); {
				case err != nil:
					f.Errorf("Acquire: %v", err)
				case ok:
					holders.Add(1)
				}
			})
			if holders.Load() != 1 {
				f.Errorf("row %d: %d have taken the lease, want 1", n, holders.Load())
			}
		}
	}},
	// Several count in a row. Each reads, acquires what it has read, and writes one more.
	{"no update is lost", func(f *fixture) {
		const counters, each = 6, 5
		var mu sync.Mutex
		fences := map[int64]bool{}
		together(counters, func(int) {
			for total := 0; total < each; {
				row, err := f.store.Get(f.Context(), id(1))
				if err != nil {
					f.Errorf("Get: %v", err)
					return
				}
				lease, ok, err := f.store.Acquire(f.Context(), id(1), row.Generation, time.Hour)
				if err == nil && !ok {
					err = f.store.Wait(f.Context(), id(1), row.Generation)
				}
				if err != nil {
					f.Errorf("Acquire or Wait: %v", err)
					return
				}
				if !ok {
					continue
				}
				mu.Lock()
				if fences[lease.Fence] {
					f.Errorf("two leases have fence %d", lease.Fence)
				}
				fences[lease.Fence] = true
				mu.Unlock()
				n, _ := strconv.Atoi(string(row.Value))
				if ok, err := f.store.Put(f.Context(), lease, []byte(strconv.Itoa(n+1)), 0, true); !ok || err != nil {
					f.Errorf("Put: %t, %v", ok, err)
					return
				}
				total++
			}
		})
		f.wantValue(id(1), strconv.Itoa(counters*each))
	}},
	// Either a late holder writes, and the generation is another one for those who acquire, or one of them has the lease.
	{"of a put and an acquire one succeeds", func(f *fixture) {
		for n := range byte(10) {
			late := f.acquire(id(n))
			f.advance(2 * time.Hour)
			var wrote, acquired atomic.Int32
			together(4, func(i int) {
				var ok bool
				var err error
				count := &acquired
				if i == 0 {
					count = &wrote
					ok, err = f.store.Put(f.Context(), late, []byte("late"), 0, true)
				} else {
					_, ok, err = f.store.Acquire(f.Context(), id(n), late.Generation, time.Hour)
				}
				if err != nil {
					f.Errorf("Put or Acquire: %v", err)
				}
				if ok {
					count.Add(1)
				}
			})
			if wrote.Load()+acquired.Load() != 1 {
				f.Errorf("a late holder has written %d times, and %d have acquired, want one of both", wrote.Load(), acquired.Load())
			}
		}
	}},
}

func (f *fixture) wait(ctx context.Context, id state.ID, generation int64) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f.store.Wait(ctx, id, generation) }()
	return done
}

// together runs n functions that begin at the same time.
func together(n int, run func(i int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			run(i)
		})
	}
	close(begin)
	wg.Wait()
}
