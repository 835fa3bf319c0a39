package sqlstate_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
)

// BenchmarkStore measures reading a row, and acquiring its lease and writing its value, which is that of an exchange. The
// PostgreSQL of the benchmark waits for its disk, as that of the tests does not.
func BenchmarkStore(b *testing.B) {
	server := testworld.Must(postgrestest.Start("fsync=on", "full_page_writes=on", "synchronous_commit=on"))(b)
	defer func() { _ = server.Stop() }()
	address := testworld.Must(server.Database(b.Context()))(b)
	value := string(make([]byte, 2048))
	for _, db := range []database{{name: "sqlite", address: b.TempDir() + "/state.db"}, {name: "postgres", address: address}} {
		store := db.open(b)
		for n := range 1000 {
			put(b, store, acquire(b, store, id(strconv.Itoa(n)), time.Minute), value, time.Hour)
		}
		b.Run(db.name+"/get", func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				get(b, store, id(strconv.Itoa(n%1000)))
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "µs/op")
		})
		b.Run(db.name+"/acquire and put", func(b *testing.B) {
			lease := acquire(b, store, id("0"), time.Nanosecond)
			for b.Loop() {
				next, taken, err := store.Acquire(b.Context(), lease.ID, lease.Generation, time.Minute)
				if lease = next; err != nil || !taken {
					b.Fatal(taken, err)
				}
				put(b, store, lease, value, time.Hour)
				lease.Generation++
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "µs/op")
		})
	}
}
