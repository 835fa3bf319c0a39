package kernel_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/keywright/keywright/host/internal/kernel"
	"github.com/keywright/keywright/internal/testworld"
)

func TestBlockContent(t *testing.T) {
	a := kernel.New(1<<20, 10)
	first := testworld.Must(kernel.Put(a, "first"))(t)
	second, err := kernel.Put(a, bytes.Repeat([]byte("x"), 9000)) // makes the arena grow
	testworld.Check(t, err)
	for name, block := range map[string]struct {
		offset uint64
		want   string
	}{
		"small": {first, "first"},
		"large": {second, string(bytes.Repeat([]byte("x"), 9000))},
		"zero":  {0, ""},
	} {
		got, err := a.Block(block.offset)
		if err != nil || string(got) != block.want {
			t.Errorf("%s: Block gave %d bytes, error %v", name, len(got), err)
		}
		if n := a.Length(block.offset); n != uint64(len(block.want)) {
			t.Errorf("%s: Length = %d, want %d", name, n, len(block.want))
		}
	}
}

func TestEmptyBlock(t *testing.T) {
	a := kernel.New(1<<20, 10)
	empty, _ := kernel.Put(a, "")
	next, _ := kernel.Put(a, "next")
	if empty == 0 || empty == next {
		t.Fatalf("the empty block is at %d, the next one at %d", empty, next)
	}
	if a.Length(empty) != 0 || a.Length(next) != 4 {
		t.Errorf("lengths %d and %d, want 0 and 4", a.Length(empty), a.Length(next))
	}
}

func TestLoadsAndStoresMayBeUnaligned(t *testing.T) {
	a := kernel.New(1<<20, 10)
	o, _ := a.Alloc(24)
	if !a.Store64(o+3, 0x0807060504030201) {
		t.Fatal("store in the middle of a block refused")
	}
	if v, ok := a.Load8(o + 4); !ok || v != 2 {
		t.Errorf("Load8 = %d, %t", v, ok)
	}
	if v, ok := a.Load64(o + 4); !ok || v != 0x08070605040302 {
		t.Errorf("Load64 = %x, %t", v, ok)
	}
}

func TestOffsetsOutOfBounds(t *testing.T) {
	a := kernel.New(1<<20, 10)
	o, _ := a.Alloc(16)
	for name, offset := range map[string]uint64{
		"zero":                      0,
		"before the first block":    o - 1,
		"one past the last byte":    o + 16,
		"the greatest there is":     math.MaxUint64,
		"eight before the greatest": math.MaxUint64 - 7,
		"negative":                  uint64(1) << 63,
		"beyond 32 bits":            1<<32 + o,
	} {
		t.Run(name, func(t *testing.T) {
			if _, ok := a.Load8(offset); ok {
				t.Error("Load8 allowed")
			}
			if _, ok := a.Load64(offset); ok {
				t.Error("Load64 allowed")
			}
			if a.Store8(offset, 1) || a.Store64(offset, 1) {
				t.Error("a store is allowed")
			}
			if _, err := a.Range(offset, 1); !errors.Is(err, kernel.ErrBounds) {
				t.Errorf("Range: %v", err)
			}
			if n := a.Length(offset); n != 0 {
				t.Errorf("Length = %d", n)
			}
		})
	}
	for offset, want := range map[uint64]bool{o: true, o + 8: true, o + 9: false} { // the last begins inside and ends outside
		if _, ok := a.Load64(offset); ok != want || a.Store64(offset, 1) != want {
			t.Errorf("the number at %d is in bounds: %t, want %t", offset, ok, want)
		}
	}
	if _, ok := a.Load8(o + 15); !ok {
		t.Error("the last byte is out of bounds")
	}
	if _, err := a.Range(o, math.MaxUint64); !errors.Is(err, kernel.ErrBounds) {
		t.Errorf("a range as long as can be: %v", err)
	}
	if _, err := a.Block(o + 8); !errors.Is(err, kernel.ErrNotBlock) {
		t.Errorf("the middle of a block taken for a block: %v", err)
	}
}

func TestLimits(t *testing.T) {
	full := kernel.New(64, 100)
	if _, err := full.Alloc(65); !errors.Is(err, kernel.ErrFull) {
		t.Errorf("a block beyond the limit: %v", err)
	}
	if _, err := full.Alloc(math.MaxUint64); !errors.Is(err, kernel.ErrFull) {
		t.Errorf("a block as long as can be: %v", err)
	}
	if _, err := full.Alloc(64); err != nil {
		t.Errorf("a block of just the limit: %v", err)
	}
	if _, err := full.Alloc(0); err != nil {
		t.Errorf("an empty block in a full arena: %v", err)
	}
	if _, err := full.Alloc(1); !errors.Is(err, kernel.ErrFull) {
		t.Errorf("one byte more: %v", err)
	}
	many := kernel.New(1<<20, 2)
	for range 2 {
		testworld.Must(many.Alloc(0))(t)
	}
	if _, err := many.Alloc(0); !errors.Is(err, kernel.ErrBlocks) {
		t.Errorf("one block more: %v", err)
	}
}

// After Reset, there is no block, and the memory is zero (threats.md 5).
func TestResetLeavesNothing(t *testing.T) {
	a := kernel.New(1<<20, 10)
	old, _ := kernel.Put(a, "what the last call left")
	a.Reset()
	if a.Length(old) != 0 || len(bytes.Trim(a.Used(), "\x00")) != 0 {
		t.Fatal("something is left")
	}
	again, err := a.Alloc(64)
	if err != nil || again != old {
		t.Fatalf("offset %d, error %v; want %d", again, err, old)
	}
	if got, _ := a.Block(again); !bytes.Equal(got, make([]byte, 64)) {
		t.Errorf("a new block is not zero: %q", got)
	}
}

// Whatever a guest passes, an arena does not panic, and behaves like a map from offsets to blocks (threats.md 9).
func FuzzArena(f *testing.F) {
	f.Add([]byte{0, 5, 1, 16, 4, 17, 2, 200})
	f.Add([]byte{0, 0, 0, 0, 3, 16, 5, 255})
	f.Fuzz(func(t *testing.T, program []byte) {
		a := kernel.New(512, 8)
		lengths := map[uint64]uint64{}
		var end uint64
		for len(program) >= 2 {
			op, v := program[0], uint64(program[1])
			program = program[2:]
			if v >= 250 { // use an offset near 2⁶⁴, where sums overflow
				v -= 256
			}
			inside := func(n uint64) bool { return v >= 16 && v < end && v+n <= end && v+n > v }
			switch op % 6 {
			case 0:
				if o, err := a.Alloc(v); err == nil {
					if _, twice := lengths[o]; twice || o < end || o == 0 {
						t.Fatalf("Alloc(%d) gave %d, end is %d", v, o, end)
					}
					lengths[o], end = v, o+max(v, 1)
				}
			case 1:
				if _, ok := a.Load64(v); ok != inside(8) {
					t.Fatalf("Load64(%d) = %t, end is %d", v, ok, end)
				}
			case 2:
				if ok := a.Store64(v, math.MaxUint64); ok != inside(8) {
					t.Fatalf("Store64(%d) = %t, end is %d", v, ok, end)
				}
			case 3:
				if got := a.Length(v); got != lengths[v] {
					t.Fatalf("Length(%d) = %d, want %d", v, got, lengths[v])
				}
			case 4:
				if got, err := a.Block(v); err == nil && uint64(len(got)) != lengths[v] {
					t.Fatalf("Block(%d) has %d bytes, want %d", v, len(got), lengths[v])
				}
			case 5:
				if ok := a.Store8(v, 1); ok != inside(1) {
					t.Fatalf("Store8(%d) = %t, end is %d", v, ok, end)
				}
			}
		}
	})
}
