package tokencache

import (
	"testing"
	"time"

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
			"get": func(t *rapid.T) { c.Get(keys.Draw(t, "key")) },
			"acquire": func(t *rapid.T) {
				if _, _, l, holder := c.Acquire(keys.Draw(t, "key")); holder {
					l.Set(1, ttls.Draw(t, "ttl"), 0)
				}
			},
			"reject": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				e, _ := c.Get(k)
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
