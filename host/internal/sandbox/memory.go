package sandbox

import "github.com/tetratelabs/wazero/experimental"

// maxPages is the number of pages of 64 KiB that WebAssembly can address.
const maxPages = 1 << 16

// memory is the linear memory of a guest. It is zeroed and pooled with its run after a call, because allocating it
// would be most of the cost of an instance.
type memory struct {
	// bytes is zero from its length to its capacity.
	bytes []byte
	// max is the maximum size for the instance, in bytes: limit, or less if the module has a maximum of its own.
	max uint64
	// limit is the maximum size for all instances, in bytes.
	limit uint64
	// exceeded is set if the guest has wanted more than limit in this call.
	exceeded bool
}

var _ experimental.MemoryAllocator = (*memory)(nil)

// Allocate returns m. wazero calls it once for an instance, since a module has at most one memory.
func (m *memory) Allocate(_, limit uint64) experimental.LinearMemory {
	m.max = min(limit, m.limit)
	return m
}

// Reallocate grows the memory to size bytes. It doubles the capacity, so that memory that grows by one page at a time
// is not copied each time. It returns nil, so that memory.grow fails, if that is more than the limit.
func (m *memory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.exceeded = true
		return nil
	}
	if have := uint64(cap(m.bytes)); size > have {
		grown := make([]byte, size, max(size, min(2*have, m.max)))
		if size <= maxIdle { // its instance may be reused, and is read as a whole before it is written: each page would fault twice
			clear(grown)
		}
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
