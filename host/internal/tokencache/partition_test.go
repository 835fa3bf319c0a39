package tokencache_test

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/tokencache"
)

// In a million mixed calls, over more partitions than there is room for, every value that is read was stored with the
// same key. threats.md 29
func TestNoPartitionReadsAnothersValue(t *testing.T) {
	const (
		calls      = 1_000_000
		workers    = 8
		partitions = 500
		names      = 6
	)
	type value struct {
		key    tokencache.Key
		worker int
	}
	cache := tokencache.New[value](1000, 4, time.Now)
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(29, uint64(worker)))
			last := map[tokencache.Key]uint64{}
			check := func(k tokencache.Key, e tokencache.Entry[value]) {
				if e.Value.key != k || e.Generation == 0 {
					t.Errorf("read from %x what belongs to %x", k.Partition[:8], e.Value.key.Partition[:8])
				}
				if e.Generation < last[k] {
					t.Errorf("read an older value after a newer one")
				}
				last[k] = e.Generation
			}
			for range calls / workers {
				k := tokencache.Key{Name: string(rune('a' + random.IntN(names)))}
				binary.BigEndian.PutUint64(k.Partition[:], uint64(random.IntN(partitions)))
				v := value{k, worker}
				switch random.IntN(8) {
				case 0:
					check(k, cache.Set(k, v, time.Hour))
				case 1, 2, 3:
					e, hit, l, holder := cache.Acquire(k)
					switch {
					case hit:
						check(k, e)
					case holder && random.IntN(8) == 0:
						l.End(nil)
					case holder:
						check(k, l.Set(v, time.Hour, 0))
					default:
						if o, err := l.Wait(t.Context()); err != nil || o.Set && o.Entry.Value.key != k {
							t.Errorf("waited for %x and got %x, %v", k.Partition[:8], o.Entry.Value.key.Partition[:8], err)
						}
					}
				case 4:
					cache.Reject(k, last[k])
				default:
					if e, ok := cache.Get(k); ok {
						check(k, e)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := cache.Len(); n > 1000 {
		t.Errorf("%d entries, want no more than 1000", n)
	}
}

func BenchmarkGet(b *testing.B) {
	cache := tokencache.New[string](10_000, 16, time.Now)
	cache.Set(token, "t1", time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		cache.Get(token)
	}
}
