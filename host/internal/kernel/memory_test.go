package kernel

import (
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

func alloc(t *testing.T, a *Arena, n uint64) uint64 {
	t.Helper()
	return testworld.Must(a.Alloc(n))(t)
}

// Each of many blocks is found by its offset. An offset within a block is not one of a block.
func TestBlockLookup(t *testing.T) {
	a := New(1<<20, 100)
	var offsets []uint64
	for i := range 9 {
		offsets = append(offsets, alloc(t, a, uint64(8*i+1)))
	}
	for i, offset := range offsets {
		if n := a.Length(offset); n != uint64(8*i+1) {
			t.Errorf("block %d has length %d", i, n)
		}
		if _, err := a.Block(offset + 1); err == nil {
			t.Errorf("within block %d is a block", i)
		}
	}
}

// An arena's memory grows in steps of increasing size, and not beyond maxBytes.
func TestMemoryOfAnArena(t *testing.T) {
	const most = 10_000
	a := New(most, 100)
	for _, step := range []struct {
		n    uint64
		want int // the size of the arena's memory afterwards
	}{
		{1, firstSize},
		{firstSize - 24, firstSize}, // fills it
		{1, 2 * firstSize},
		{5000, most + start},
		{0, most + start},
	} {
		alloc(t, a, step.n)
		if len(a.bytes) != step.want {
			t.Errorf("after %d bytes more it has %d, want %d", step.n, len(a.bytes), step.want)
		}
	}
}

// Reset releases memory larger than maxKept.
func TestMemoryAfterReset(t *testing.T) {
	for n, kept := range map[uint64]bool{maxKept - start: true, maxKept - start + 1: false} {
		a := New(1<<20, 10)
		alloc(t, a, n)
		a.Reset()
		if (a.bytes != nil) != kept {
			t.Errorf("after %d bytes, %d are kept", n, len(a.bytes))
		}
	}
}
