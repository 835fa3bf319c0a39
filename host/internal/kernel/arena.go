// Package kernel holds the blocks that a guest and its host pass to each other: what the Extism kernel calls memory.
//
// A block is named by its offset, an i64. Offset 0 names no block; PDKs give it for an empty text without allocating one.
// The contract lets a guest load and store at any byte of what has been handed
// out, in the middle of a block and unaligned, so that bounds are those of the arena and not of a block; only length,
// and text that a function is given, go by blocks.
package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Errors of an Arena.
var (
	ErrFull     = errors.New("the host side memory of the call is full")
	ErrBlocks   = errors.New("the call has too many memory blocks")
	ErrBounds   = errors.New("outside the memory blocks of the call")
	ErrNotBlock = errors.New("not the offset of a memory block")
)

const (
	start     = 16   // of the first block, so that an offset near 0 is an error and not a block
	alignment = 8    // of each block, in bytes
	firstSize = 4096 // bytes that the first block makes room for
)

// Arena hands out blocks one after the other, and keeps them until Reset. The zero value has no room: use New.
// It is not safe for concurrent use, and slices of it go stale with the next allocation.
type Arena struct {
	bytes     []byte  // indexed by offset; zero from end on
	end       uint64  // one past the last byte handed out
	blocks    []block // in the order of their offsets
	maxBytes  uint64
	maxBlocks int
}

type block struct{ offset, length uint64 }

// New makes an arena that holds up to maxBytes bytes, which includes up to 7 bytes of padding a block, in up to
// maxBlocks blocks.
func New(maxBytes, maxBlocks int) *Arena {
	return &Arena{end: start, maxBytes: uint64(max(maxBytes, 0)) + start, maxBlocks: maxBlocks}
}

// Alloc makes a block of n zero bytes. A block of no bytes has an offset of its own too, so that "there, but empty"
// differs from "not there". Errors: ErrFull, ErrBlocks.
func (a *Arena) Alloc(n uint64) (offset uint64, err error) {
	if len(a.blocks) >= a.maxBlocks {
		return 0, ErrBlocks
	}
	offset = (a.end + alignment - 1) &^ (alignment - 1)
	if offset > a.maxBytes || n > a.maxBytes-offset {
		return 0, ErrFull
	}
	end := offset + max(n, 1) // the next block starts elsewhere even when this one is empty
	if have := uint64(len(a.bytes)); end > have {
		a.bytes = append(a.bytes, make([]byte, max(end, min(2*have, a.maxBytes), firstSize)-have)...)
	}
	a.end = end
	a.blocks = append(a.blocks, block{offset, n})
	return offset, nil
}

// Put makes a block that holds the bytes of text. Errors: ErrFull, ErrBlocks.
func Put[Text []byte | string](a *Arena, text Text) (offset uint64, err error) {
	offset, err = a.Alloc(uint64(len(text)))
	if err == nil {
		copy(a.bytes[offset:], text)
	}
	return offset, err
}

// Length returns the length of the block at offset, and 0 for an offset that is none: PDKs ask for the length of
// whatever they were given, 0 included, before they look at it.
func (a *Arena) Length(offset uint64) uint64 {
	b, _ := a.find(offset)
	return b.length
}

// Block returns the bytes of the block at offset; offset 0 is an empty one. Error: ErrNotBlock.
func (a *Arena) Block(offset uint64) ([]byte, error) {
	if offset == 0 {
		return nil, nil
	}
	b, ok := a.find(offset)
	if !ok {
		return nil, fmt.Errorf("%w: %d", ErrNotBlock, offset)
	}
	return a.bytes[b.offset : b.offset+b.length], nil
}

// Range returns n bytes from offset on, which may begin and end anywhere in what has been handed out. No bytes are a
// range of every offset. Error: ErrBounds.
func (a *Arena) Range(offset, n uint64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	if !a.holds(offset, n) {
		return nil, fmt.Errorf("%w: %d bytes at offset %d", ErrBounds, n, offset)
	}
	return a.bytes[offset : offset+n], nil
}

// Load8 returns the byte at offset. ok is false when it is out of bounds.
func (a *Arena) Load8(offset uint64) (value byte, ok bool) {
	if !a.holds(offset, 1) {
		return 0, false
	}
	return a.bytes[offset], true
}

// Load64 returns the little-endian number at offset. ok is false when it is out of bounds.
func (a *Arena) Load64(offset uint64) (value uint64, ok bool) {
	if !a.holds(offset, 8) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(a.bytes[offset:]), true
}

// Store8 writes the byte at offset. It gives false, and writes nothing, when that is out of bounds.
func (a *Arena) Store8(offset uint64, value byte) bool {
	if !a.holds(offset, 1) {
		return false
	}
	a.bytes[offset] = value
	return true
}

// Store64 writes the little-endian number at offset. It gives false, and writes nothing, when that is out of bounds.
func (a *Arena) Store64(offset, value uint64) bool {
	if !a.holds(offset, 8) {
		return false
	}
	binary.LittleEndian.PutUint64(a.bytes[offset:], value)
	return true
}

// Used returns everything that has been handed out, for a test to look through.
func (a *Arena) Used() []byte { return a.bytes[:min(a.end, uint64(len(a.bytes)))] }

// maxKept is how many bytes an arena keeps for the next call.
const maxKept = 256 << 10

// Reset takes all blocks back and zeroes them, for the next call.
func (a *Arena) Reset() {
	clear(a.Used())
	if len(a.bytes) > maxKept {
		a.bytes = nil
	}
	a.blocks = a.blocks[:0]
	a.end = start
}

// holds subtracts where the obvious way is to add: an offset near 2⁶⁴ would wrap round and pass.
func (a *Arena) holds(offset, n uint64) bool {
	return offset >= start && offset < a.end && a.end-offset >= n
}

func (a *Arena) find(offset uint64) (block, bool) {
	if n := len(a.blocks); n > 0 && a.blocks[n-1].offset == offset { // most ask for what they have just been given
		return a.blocks[n-1], true
	}
	i, ok := slices.BinarySearchFunc(a.blocks, offset, func(b block, offset uint64) int {
		switch {
		case b.offset < offset:
			return -1
		case b.offset > offset:
			return 1
		}
		return 0
	})
	if !ok {
		return block{}, false
	}
	return a.blocks[i], true
}
