// Package kernel implements the memory blocks in which a guest and its host pass data to each other. The Extism kernel
// calls them memory.
//
// A block is identified by its offset, an i64. Offset 0 is no block; PDKs use it for an empty text, without an
// allocation. A guest may load and store any allocated byte, unaligned and in the middle of a block. So loads and
// stores are checked against the bounds of the arena, and not against those of a block. Only length, and the texts that
// a guest passes to a function, need the offset of a block.
package kernel

import (
	"cmp"
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
	// start is the offset of the first block. It is not 0, so that an offset near 0 is an error and not a block.
	start = 16
	// alignment is the alignment of blocks, in bytes.
	alignment = 8
	// firstSize is the minimum size of the memory once a block has been allocated, in bytes.
	firstSize = 4096
)

// Arena allocates blocks one after the other, and keeps them until Reset. The zero value has no room: use New. It is
// not safe for concurrent use. A slice of its bytes is valid until the next allocation.
type Arena struct {
	// bytes is the memory, indexed by offset. It is zero from end on.
	bytes []byte
	// end is the offset after the last allocated byte.
	end uint64
	// blocks is sorted by offset.
	blocks    []block
	maxBytes  uint64
	maxBlocks int
}

type block struct{ offset, length uint64 }

// New returns an arena for up to maxBlocks blocks with up to maxBytes bytes in all. The latter include up to 7 bytes of
// padding for each block.
func New(maxBytes, maxBlocks int) *Arena {
	return &Arena{end: start, maxBytes: uint64(max(maxBytes, 0)) + start, maxBlocks: maxBlocks}
}

// Alloc allocates a block of n zero bytes and returns its offset. An empty block has an offset of its own too, so that
// "there, but empty" differs from "not there". The error is ErrFull or ErrBlocks.
func (a *Arena) Alloc(n uint64) (offset uint64, err error) {
	if len(a.blocks) >= a.maxBlocks {
		return 0, ErrBlocks
	}
	offset = (a.end + alignment - 1) &^ (alignment - 1)
	if offset > a.maxBytes || n > a.maxBytes-offset {
		return 0, ErrFull
	}
	end := offset + max(n, 1) // an empty block takes a byte, so that the next one has another offset
	if have := uint64(len(a.bytes)); end > have {
		a.bytes = append(a.bytes, make([]byte, max(end, min(2*have, a.maxBytes), firstSize)-have)...)
	}
	a.end = end
	a.blocks = append(a.blocks, block{offset, n})
	return offset, nil
}

// Put allocates a block, copies text into it, and returns its offset. The error is ErrFull or ErrBlocks.
func Put[Text []byte | string](a *Arena, text Text) (offset uint64, err error) {
	offset, err = a.Alloc(uint64(len(text)))
	if err == nil {
		copy(a.bytes[offset:], text)
	}
	return offset, err
}

// Length returns the length of the block at offset, and 0 if there is none. It has no error, because PDKs ask for the
// length of any offset that they get, even 0, before they use it.
func (a *Arena) Length(offset uint64) uint64 {
	b, _ := a.find(offset)
	return b.length
}

// Block returns the bytes of the block at offset, not copied. Offset 0 is an empty block. The error wraps ErrNotBlock.
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

// Range returns n bytes from offset on, not copied. They may begin and end anywhere in the allocated bytes. If n is 0,
// any offset is valid. The error wraps ErrBounds.
func (a *Arena) Range(offset, n uint64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	if !a.contains(offset, n) {
		return nil, fmt.Errorf("%w: %d bytes at offset %d", ErrBounds, n, offset)
	}
	return a.bytes[offset : offset+n], nil
}

// Load8 returns the byte at offset. ok is false if that is out of bounds.
func (a *Arena) Load8(offset uint64) (value byte, ok bool) {
	if !a.contains(offset, 1) {
		return 0, false
	}
	return a.bytes[offset], true
}

// Load64 returns the little-endian number at offset. ok is false if that is out of bounds.
func (a *Arena) Load64(offset uint64) (value uint64, ok bool) {
	if !a.contains(offset, 8) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(a.bytes[offset:]), true
}

// Store8 writes a byte at offset. It returns false, and writes nothing, if that is out of bounds.
func (a *Arena) Store8(offset uint64, value byte) bool {
	if !a.contains(offset, 1) {
		return false
	}
	a.bytes[offset] = value
	return true
}

// Store64 writes a little-endian number at offset. It returns false, and writes nothing, if that is out of bounds.
func (a *Arena) Store64(offset, value uint64) bool {
	if !a.contains(offset, 8) {
		return false
	}
	binary.LittleEndian.PutUint64(a.bytes[offset:], value)
	return true
}

// Used returns all allocated bytes, not copied. Tests search them.
func (a *Arena) Used() []byte { return a.bytes[:min(a.end, uint64(len(a.bytes)))] }

// maxKept is the largest memory, in bytes, that an arena keeps for the next call.
const maxKept = 256 << 10

// Reset frees all blocks and zeroes them, for the next call.
func (a *Arena) Reset() {
	clear(a.Used())
	if len(a.bytes) > maxKept {
		a.bytes = nil
	}
	a.blocks = a.blocks[:0]
	a.end = start
}

// contains reports whether the n bytes at offset have been allocated. It does not compute offset+n, which would overflow
// for an offset near 2⁶⁴.
func (a *Arena) contains(offset, n uint64) bool {
	return offset >= start && offset < a.end && a.end-offset >= n
}

// find returns the block at offset, and reports whether there is one.
func (a *Arena) find(offset uint64) (block, bool) {
	if n := len(a.blocks); n > 0 && a.blocks[n-1].offset == offset { // most calls are about the newest block
		return a.blocks[n-1], true
	}
	i, ok := slices.BinarySearchFunc(a.blocks, offset, func(b block, offset uint64) int { return cmp.Compare(b.offset, offset) })
	if !ok {
		return block{}, false
	}
	return a.blocks[i], true
}
