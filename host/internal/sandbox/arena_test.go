package sandbox

import (
	"bytes"
	"math"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

func allocated(t *testing.T, a *arena, n uint64) uint64 {
	t.Helper()
	return testworld.Must(a.alloc(n))(t)
}

// lengthOf returns the length of the block at an offset, or -1 if there is none.
func lengthOf(a *arena, offset uint64) int {
	if block, ok := a.block(offset); ok {
		return len(block)
	}
	return -1
}

// Each of many blocks is found by its offset, with its content. An offset within a block is not one of a block.
func TestBlocks(t *testing.T) {
	a := newArena(1<<20, 100)
	var offsets []uint64
	for i := range 9 {
		offset := allocated(t, a, uint64(1000*i+1)) // makes the arena grow
		copy(a.bytesAt(offset, uint64(1000*i+1)), bytes.Repeat([]byte{byte(i)}, 1000*i+1))
		offsets = append(offsets, offset)
	}
	for i, offset := range offsets {
		if block, ok := a.block(offset); !ok || !bytes.Equal(block, bytes.Repeat([]byte{byte(i)}, 1000*i+1)) {
			t.Errorf("block %d = %d bytes, %t, want %d", i, len(block), ok, 1000*i+1)
		}
		if n := lengthOf(a, offset+1); n >= 0 {
			t.Errorf("within block %d is a block of %d bytes", i, n)
		}
	}
	if n := lengthOf(a, 0); n != 0 {
		t.Errorf("the block at offset 0 has %d bytes, want 0", n)
	}
}

func TestEmptyBlock(t *testing.T) {
	a := newArena(1<<20, 10)
	empty, next := allocated(t, a, 0), allocated(t, a, 4)
	if empty == 0 || empty == next {
		t.Fatalf("the empty block is at %d, the next one at %d", empty, next)
	}
	if lengthOf(a, empty) != 0 || lengthOf(a, next) != 4 {
		t.Errorf("lengths %d and %d, want 0 and 4", lengthOf(a, empty), lengthOf(a, next))
	}
}

func TestOffsetsOutOfBounds(t *testing.T) {
	a := newArena(1<<20, 10)
	o := allocated(t, a, 16)
	for name, offset := range map[string]uint64{
		"zero":                      0,
		"before the first block":    o - 1,
		"one past the last byte":    o + 16,
		"the greatest there is":     math.MaxUint64,
		"eight before the greatest": math.MaxUint64 - 7,
		"negative":                  uint64(1) << 63,
		"beyond 32 bits":            1<<32 + o,
	} {
		for _, n := range []uint64{1, 8} {
			if a.bytesAt(offset, n) != nil {
				t.Errorf("%s: %d bytes are in bounds", name, n)
			}
		}
		if n := lengthOf(a, offset); n > 0 {
			t.Errorf("%s: a block of %d bytes", name, n)
		}
	}
	for offset, want := range map[uint64]bool{o: true, o + 3: true, o + 8: true, o + 9: false} { // the last begins inside and ends outside
		if got := len(a.bytesAt(offset, 8)) == 8; got != want {
			t.Errorf("the number at %d is in bounds: %t, want %t", offset, got, want)
		}
	}
	if a.bytesAt(o+15, 1) == nil {
		t.Error("the last byte is out of bounds")
	}
	if a.bytesAt(o, math.MaxUint64) != nil {
		t.Error("a range as long as can be is in bounds")
	}
}

func TestArenaLimits(t *testing.T) {
	full := newArena(64, 100)
	for _, c := range []struct {
		n    uint64
		fits bool
	}{{65, false}, {math.MaxUint64, false}, {64, true}, {0, true}, {1, false}} { // the last but one is an empty block in a full arena
		_, err := full.alloc(c.n)
		if (err == nil) != c.fits || err != nil && err.Error() != "more than 64 bytes of memory blocks in a call" {
			t.Errorf("a block of %d bytes: %v, want it to fit: %t", c.n, err, c.fits)
		}
	}
	many := newArena(1<<20, 2)
	allocated(t, many, 0)
	allocated(t, many, 0)
	testworld.Fails(many.alloc(0))(t, "more than 2 memory blocks in a call")
}

// After reset, there is no block, and the memory is zero (threats.md 5).
func TestResetLeavesNothing(t *testing.T) {
	a := newArena(1<<20, 10)
	old := allocated(t, a, 64)
	copy(a.bytesAt(old, 64), "what the last call left")
	a.reset()
	if lengthOf(a, old) >= 0 || len(bytes.Trim(a.used(), "\x00")) != 0 {
		t.Fatal("something is left")
	}
	if next := allocated(t, a, 64); next != old || !bytes.Equal(a.bytesAt(next, 64), make([]byte, 64)) {
		t.Errorf("the new block at %d is %q, want zeroes at %d", next, a.bytesAt(next, 64), old)
	}
}

// An arena's memory grows in steps of increasing size, and not beyond maxBytes.
func TestMemoryOfAnArena(t *testing.T) {
	const maxBytes = 10_000
	a := newArena(maxBytes, 100)
	for _, step := range []struct {
		n    uint64
		want int // the size of the arena's memory afterwards
	}{
		{1, firstSize},
		{firstSize - 24, firstSize}, // fills it
		{1, 2 * firstSize},
		{5000, maxBytes + firstBlock},
		{0, maxBytes + firstBlock},
	} {
		allocated(t, a, step.n)
		if len(a.bytes) != step.want {
			t.Errorf("after %d bytes more it has %d, want %d", step.n, len(a.bytes), step.want)
		}
	}
}

// Reset releases memory larger than maxKept.
func TestMemoryAfterReset(t *testing.T) {
	for n, keeps := range map[uint64]bool{maxKept - firstBlock: true, maxKept - firstBlock + 1: false} {
		a := newArena(1<<20, 10)
		allocated(t, a, n)
		a.reset()
		if (a.bytes != nil) != keeps {
			t.Errorf("after %d bytes, %d are kept", n, len(a.bytes))
		}
	}
}

// Whatever a guest passes, an arena does not panic, and behaves like a map from offsets to blocks (threats.md 9).
func FuzzArena(f *testing.F) {
	f.Add([]byte{0, 5, 1, 16, 4, 17, 2, 200})
	f.Add([]byte{0, 0, 0, 0, 3, 16, 5, 255})
	f.Fuzz(func(t *testing.T, program []byte) {
		a := newArena(512, 8)
		lengths := map[uint64]int{}
		var end uint64
		for len(program) >= 2 {
			op, v := program[0], uint64(program[1])
			program = program[2:]
			if v >= 250 { // use an offset near 2⁶⁴, where sums overflow
				v -= 256
			}
			switch op % 4 {
			case 0:
				if o, err := a.alloc(v); err == nil {
					if _, twice := lengths[o]; twice || o < end || o == 0 {
						t.Fatalf("alloc(%d) = %d, end is %d", v, o, end)
					}
					lengths[o], end = int(v), o+max(v, 1)
				}
			case 1, 2:
				n := map[byte]uint64{1: 8, 2: 1}[op%4]
				inside := v >= 16 && v < end && v+n <= end && v+n > v
				if got := a.bytesAt(v, n); (got != nil) != inside {
					t.Fatalf("bytesAt(%d, %d) has %d bytes, end is %d", v, n, len(got), end)
				}
			case 3:
				want, ok := lengths[v]
				if !ok && v != 0 {
					want = -1
				}
				if got := lengthOf(a, v); got != want {
					t.Fatalf("the block at %d has %d bytes, want %d", v, got, want)
				}
			}
		}
	})
}
