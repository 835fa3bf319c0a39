package tokencache

import (
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

// After any operations on a cache, its two lists hold the same keys within their limits, and nothing is kept for a
// partition without entries. From outside, a fault here would show only as a memory leak.
func TestWholeAndPartitionsHoldTheSame(t *testing.T) {
	const entries, perPartition = 6, 3
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_800_000_000, 0)
		c := New[int](entries, perPartition, func() time.Time { return now })
		keys := rapid.Custom(func(t *rapid.T) Key {
			return Key{
				Partition: [32]byte{rapid.ByteRange(0, 4).Draw(t, "partition")},
				Name:      rapid.StringMatching(`[a-e]`).Draw(t, "name"),
			}
		})
		ttls := rapid.SampledFrom([]time.Duration{-1, 0, time.Second, time.Minute})
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) { c.Set(keys.Draw(t, "key"), 1, ttls.Draw(t, "ttl")) },
			"get": func(t *rapid.T) { c.Lookup(keys.Draw(t, "key")) },
			"acquire": func(t *rapid.T) {
				if _, _, l, holder := c.Acquire(keys.Draw(t, "key")); holder {
					l.Set(1, ttls.Draw(t, "ttl"), 0)
				}
			},
			"reject": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				e, _ := c.Lookup(k)
				c.Reject(k, max(e.Generation, 1))
			},
			"clock": func(t *rapid.T) {
				now = now.Add(rapid.SampledFrom([]time.Duration{-time.Second, time.Second, 20 * time.Second}).Draw(t, "step"))
			},
			"": func(t *rapid.T) {
				sum := 0
				for id, p := range c.partitions {
					if p.Len() == 0 || p.Len() > perPartition {
						t.Fatalf("partition %d has %d entries", id[0], p.Len())
					}
					for _, name := range p.Keys() {
						if _, ok := c.all.Peek("", Key{"", id, name}); !ok {
							t.Fatalf("partition %d has %s, the whole has not", id[0], name)
						}
					}
					sum += p.Len()
				}
				if sum != c.all.Len() || sum > entries {
					t.Fatalf("the partitions have %d entries, the whole has %d", sum, c.all.Len())
				}
				if len(c.leases) != 0 || c.renewals.Len() > entries || len(c.renewing) > c.renewals.Len() {
					t.Fatalf("%d leases, %d renewals of %d partitions", len(c.leases), c.renewals.Len(), len(c.renewing))
				}
			},
		})
	})
}

// clocks returns a time that is later than since by different durations of the monotonic clock and of the wall clock, as
// after the wall clock has been set. It changes the wall clock's seconds, which package time keeps from bit 30 of the
// first word on.
func clocks(t *testing.T, since time.Time, monotonic, wall time.Duration) time.Time {
	t.Helper()
	later := since.Add(monotonic)
	*(*uint64)(unsafe.Pointer(&later)) += uint64((wall-monotonic)/time.Second) << 30
	if got := later.Sub(since); got != monotonic {
		t.Fatalf("the monotonic clock has gone on by %s, want %s: package time keeps it elsewhere", got, monotonic)
	}
	if got := later.Round(0).Sub(since.Round(0)); got != wall {
		t.Fatalf("the wall clock has gone on by %s, want %s: package time keeps it elsewhere", got, wall)
	}
	return later
}

// An entry is used until its time has passed, or lies in the future, by either of the two clocks, as after the wall clock was set or
// the machine slept. (threats.md 33)
func TestNeitherClockKeepsAnEntryBeyondItsTime(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		ttl, monotonic, wall time.Duration
		want                 bool
	}{
		{10 * time.Second, 0, 0, true},
		{10 * time.Second, 5000 * ms, 5000 * ms, true},
		{10 * time.Second, 9999 * ms, 9999 * ms, true},
		{10 * time.Second, 0, 9000 * ms, true},
		{10 * time.Second, 9000 * ms, 0, true},
		{10 * time.Second, 9000 * ms, 1000 * ms, true},
		{10500 * ms, 10200 * ms, 10200 * ms, true},
		{500 * ms, 400 * ms, 400 * ms, true},

		{10 * time.Second, 10000 * ms, 5000 * ms, false},
		{10 * time.Second, 3600000 * ms, 5000 * ms, false},
		{10 * time.Second, -1000 * ms, 5000 * ms, false},
		{10 * time.Second, 5000 * ms, 10000 * ms, false},
		{10 * time.Second, 5000 * ms, 11000 * ms, false},
		{10 * time.Second, 5200 * ms, 10200 * ms, false},
		{10 * time.Second, 5000 * ms, 3600000 * ms, false},
		{3 * time.Second, 1000 * ms, 3600000 * ms, false},
		{10 * time.Second, 5000 * ms, -5000 * ms, false},
		{10 * time.Second, 200 * ms, -800 * ms, false},
		{10500 * ms, 5500 * ms, 10500 * ms, false},
		{500 * ms, 400 * ms, 1400 * ms, false},
		{500 * ms, 500 * ms, 500 * ms, false},
	} {
		for fraction := range 10 { // of the second in which the entry was stored
			since := time.Now()
			since = since.Add(time.Duration(fraction)*100*ms - time.Duration(since.Nanosecond()))
			if got := WithinPeriod(since, clocks(t, since, tt.monotonic, tt.wall), tt.ttl); got != tt.want {
				t.Errorf("of %s, %s have passed by the monotonic clock and %s by the wall clock, from %d00 ms on: used: %t", tt.ttl, tt.monotonic, tt.wall, fraction, got)
			}
		}
	}
}
