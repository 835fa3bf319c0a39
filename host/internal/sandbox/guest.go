package sandbox

import (
	"bytes"
	"context"
	"strings"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/keywright/keywright/internal/admission"
	"github.com/keywright/keywright/internal/contract"
)

// guest is an instance of a module, for one call at a time. It keeps functions and globals: a look-up costs more than a call.
type guest struct {
	instance api.Module
	fuel     api.MutableGlobal
	// globals holds all other mutable globals.
	globals []api.MutableGlobal
	exports map[string]api.Function
}

// newGuest instantiates the module. None of its code runs: package admission has turned its start function into an export.
func (m *Module) newGuest(ctx context.Context, memory *memory, stderr *lines) (*guest, error) {
	config := m.runtime.config
	if m.stderr {
		config = config.WithStderr(stderr)
	}
	instance, err := m.runtime.wazero.InstantiateModule(experimental.WithMemoryAllocator(ctx, memory), m.compiled, config)
	if err != nil {
		return nil, err
	}
	g := &guest{instance: instance, fuel: mutable(instance, admission.FuelExport), exports: map[string]api.Function{}}
	for _, global := range m.admitted.Globals {
		g.globals = append(g.globals, mutable(instance, global.Export))
	}
	for _, name := range contract.Exports {
		if m.Has(name) {
			g.exports[name] = instance.ExportedFunction(name)
		}
	}
	return g, nil
}

func mutable(instance api.Module, name string) api.MutableGlobal {
	return instance.ExportedGlobal(name).(api.MutableGlobal) // package admission exports every mutable global
}

// close closes the instance. The error is ignored: it can only come from open files, and there are none.
func (g *guest) close() { _ = g.instance.Close(context.Background()) }

// snapshot is the state of a module's guest after its initialisation.
type snapshot struct {
	size int
	// segments holds the parts of the memory that are not zero.
	segments []segment
	globals  []uint64
	// fuel is the number of units that initialisation uses.
	fuel int64
}

type segment struct {
	offset int
	bytes  []byte
}

// snapshotOf returns a snapshot of a guest whose initialisation has just used an amount of fuel.
func snapshotOf(g *guest, memory []byte, fuel int64) *snapshot {
	const minZeroRun = 64 // the number of consecutive zero bytes that end a segment. Copying fewer costs less than another segment
	s := &snapshot{size: len(memory), fuel: fuel}
	for _, global := range g.globals {
		s.globals = append(s.globals, global.Get())
	}
	zeros := make([]byte, minZeroRun)
	for offset := 0; offset < len(memory); {
		if memory[offset] == 0 {
			offset++
			continue
		}
		end := len(memory)
		if next := bytes.Index(memory[offset:], zeros); next >= 0 {
			end = offset + next
		}
		s.segments = append(s.segments, segment{offset, bytes.Clone(memory[offset:end])})
		offset = end
	}
	return s
}

// restore resets a guest to the snapshot, and reports whether it could: memory that has grown cannot shrink.
func (s *snapshot) restore(g *guest, memory []byte) bool {
	if len(memory) != s.size {
		return false
	}
	clear(memory)
	for _, part := range s.segments {
		copy(memory[part.offset:], part.bytes)
	}
	for i, global := range g.globals {
		global.Set(s.globals[i])
	}
	return true
}

// memory is the linear memory of a guest. Its run keeps it, zeroed: to allocate it is most of the cost of an instance.
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

// A guest's WASI has the host's clock and random bytes, and a stderr that goes to the log. There are no arguments, environment, input or
// files, and the functions for these report that. A module that imports a function that opens a file or a socket is not admitted.

// wasiWrite is the function of WASI that writes to stderr.
const wasiWrite = "fd_write"

// lines is a writer for stderr, which calls write for each line. It drops the bytes of a line beyond maxLineBytes.
type lines struct {
	write func(line string)
	// proceed ends the call if its time is over. Each Write calls it, since one fd_write may have millions of parts.
	proceed func()
	partial []byte
}

// Write returns no error. It may end the call by a panic of proceed or write.
func (l *lines) Write(text []byte) (int, error) {
	n := len(text)
	l.proceed()
	for {
		line, rest, complete := bytes.Cut(text, []byte{'\n'})
		l.partial = append(l.partial, line[:min(len(line), maxLineBytes-len(l.partial))]...)
		if !complete {
			return n, nil
		}
		l.flush()
		text = rest
	}
}

func (l *lines) flush() {
	if len(l.partial) == 0 {
		return
	}
	line := strings.ToValidUTF8(string(l.partial), "\uFFFD")
	l.partial = l.partial[:0]
	l.write(line)
}
