package seal_test

import (
	"testing"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/internal/testworld"
)

// BenchmarkCall measures a call with one sealed value: make a table, seal the value, and open a header with it.
func BenchmarkCall(b *testing.B) {
	for b.Loop() {
		table := newTable()
		ref := sealed(b, table, "secret", seal.Header)
		if _, _, err := table.Open("Bearer "+ref, seal.Header); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	v := seal.Value{Text: "secret", Sinks: seal.Header, Mask: "<secret>"}
	table := newTable()
	for i := 0; b.Loop(); i++ {
		if i%4 == 3 {
			table = newTable()
		}
		testworld.Must(table.Seal(v))(b)
	}
}

func BenchmarkOpen(b *testing.B) {
	table := newTable()
	ref := sealed(b, table, "secret", seal.Header)
	for name, text := range map[string]string{"plain": "application/json", "alone": ref, "bearer": "Bearer " + ref} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := table.Open(text, seal.Header); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
