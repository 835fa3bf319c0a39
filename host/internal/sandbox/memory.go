package sandbox

import "github.com/tetratelabs/wazero/experimental"

const pageBytes = 64 << 10

// memory is a guest's own memory. It goes back to its module's pool, zeroed, when the call is over:
// asking Go for fresh memory would be most of the cost of an instance.
type memory struct {
	bytes []byte // zero from its length to its capacity
	max   uint64 // bytes that this instance may ever have
}

var _ experimental.MemoryAllocator = (*memory)(nil)

// Allocate is called by wazero once for an instance: a module has one memory at most.
func (m *memory) Allocate(_, limit uint64) experimental.LinearMemory {
	m.max = limit
	return m
}

// Reallocate grows to size bytes. Capacity doubles, so that a guest that grows by one page at a time does not have
// its memory copied each time.
func (m *memory) Reallocate(size uint64) []byte {
	if have := uint64(cap(m.bytes)); size > have {
		grown := make([]byte, size, max(size, min(2*have, m.max)))
		copy(grown, m.bytes)
		m.bytes = grown
	}
	m.bytes = m.bytes[:size]
	return m.bytes
}

// Free does nothing: wazero calls it in the middle of a call too, when the guest exits.
func (m *memory) Free() {}

func (m *memory) zero() {
	clear(m.bytes)
	m.bytes = m.bytes[:0]
}
