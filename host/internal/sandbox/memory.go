package sandbox

import "github.com/tetratelabs/wazero/experimental"

const pageBytes = 64 << 10

// memory is the linear memory of a guest. It is zeroed and pooled with its run after a call, because allocating it
// would be most of the cost of an instance.
type memory struct {
	// bytes is zero from its length to its capacity.
	bytes []byte
	// max is the maximum size for the instance, in bytes.
	max uint64
}

var _ experimental.MemoryAllocator = (*memory)(nil)

// Allocate returns m. wazero calls it once for an instance, since a module has at most one memory.
func (m *memory) Allocate(_, limit uint64) experimental.LinearMemory {
	m.max = limit
	return m
}

// Reallocate grows the memory to size bytes. It doubles the capacity, so that memory that grows by one page at a time
// is not copied each time.
func (m *memory) Reallocate(size uint64) []byte {
	if have := uint64(cap(m.bytes)); size > have {
		grown := make([]byte, size, max(size, min(2*have, m.max)))
		copy(grown, m.bytes)
		m.bytes = grown
	}
	m.bytes = m.bytes[:size]
	return m.bytes
}

// Free does nothing, because wazero also calls it during a call, when the guest exits.
func (m *memory) Free() {}

func (m *memory) zero() {
	clear(m.bytes)
	m.bytes = m.bytes[:0]
}
