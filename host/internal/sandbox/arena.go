package sandbox

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	// firstBlock is the offset of the first block. It is not 0, so that an offset near 0 is an error and not a block.
	firstBlock = 16
	alignment  = 8
	// firstSize is the minimum size of the memory once a block has been allocated, in bytes.
	firstSize = 4096
	// maxKept is the largest memory, in bytes, that an arena keeps for the next call.
	maxKept = 256 << 10
)

// arena has the memory blocks in which a guest and its host pass data to each other. The Extism kernel calls them memory. It allocates
// them one after the other, and keeps them until reset. A slice of its bytes is valid until the next allocation.
//
// A block is identified by its offset, an i64. Offset 0 is no block; PDKs use it for an empty text, without an allocation. A guest may load
// and store any allocated byte, unaligned and in the middle of a block. So loads and stores are checked against the bounds of the arena,
// and not against those of a block. Only length, and the texts that a guest passes to a function, need the offset of a block.
type arena struct {
	// bytes is the memory, indexed by offset. It is zero from end on.
	bytes []byte
	// end is the offset after the last allocated byte.
	end uint64
	// blocks is sorted by offset.
	blocks    []memoryBlock
	maxBytes  uint64
	maxBlocks int
}

type memoryBlock struct{ offset, length uint64 }

// newArena returns an arena for up to maxBlocks blocks. maxBytes includes up to 7 bytes of padding for each block.
func newArena(maxBytes, maxBlocks int) *arena {
	return &arena{end: firstBlock, maxBytes: uint64(max(maxBytes, 0)) + firstBlock, maxBlocks: maxBlocks}
}

// alloc allocates a block of n zero bytes and returns its offset. An empty block has an offset of its own too, so that
// "there, but empty" differs from "not there". The error names the limit that would be exceeded.
func (a *arena) alloc(n uint64) (offset uint64, err error) {
	if len(a.blocks) >= a.maxBlocks {
		return 0, fmt.Errorf("more than %d memory blocks in a call", a.maxBlocks)
	}
	offset = (a.end + alignment - 1) &^ (alignment - 1)
	if offset > a.maxBytes || n > a.maxBytes-offset {
		return 0, fmt.Errorf("more than %d bytes of memory blocks in a call", a.maxBytes-firstBlock)
	}
	end := offset + max(n, 1) // an empty block takes a byte, so that the next one has another offset
	if have := uint64(len(a.bytes)); end > have {
		a.bytes = append(a.bytes, make([]byte, max(end, min(2*have, a.maxBytes), firstSize)-have)...)
	}
	a.end = end
	a.blocks = append(a.blocks, memoryBlock{offset, n})
	return offset, nil
}

// block returns the block at offset, not copied, and reports whether there is one. Offset 0 is an empty block.
func (a *arena) block(offset uint64) (block []byte, ok bool) {
	if offset == 0 {
		return nil, true
	}
	i := len(a.blocks) - 1
	if i < 0 || a.blocks[i].offset != offset { // most calls are about the newest block
		i, ok = slices.BinarySearchFunc(a.blocks, offset, func(b memoryBlock, offset uint64) int { return cmp.Compare(b.offset, offset) })
		if !ok {
			return nil, false
		}
	}
	return a.bytes[offset : offset+a.blocks[i].length], true
}

// bytesAt returns n bytes from offset on, not copied, or nil. offset+n would overflow for an offset near 2⁶⁴, so it comes last.
func (a *arena) bytesAt(offset, n uint64) []byte {
	if offset < firstBlock || offset >= a.end || a.end-offset < n {
		return nil
	}
	return a.bytes[offset : offset+n]
}

// used returns all allocated bytes, not copied.
func (a *arena) used() []byte { return a.bytes[:min(a.end, uint64(len(a.bytes)))] }

// reset frees all blocks and zeroes them, for the next call.
func (a *arena) reset() {
	clear(a.used())
	if len(a.bytes) > maxKept {
		a.bytes = nil
	}
	a.blocks = a.blocks[:0]
	a.end = firstBlock
}
