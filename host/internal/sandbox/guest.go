package sandbox

import (
	"bytes"
	"context"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/keywright/keywright/internal/admission"
	"github.com/keywright/keywright/internal/contract"
)

// guest is an instance of a module. It serves one call at a time. It keeps the functions and globals that it looks up,
// because a look-up costs more than a call.
type guest struct {
	instance api.Module
	fuel     api.MutableGlobal
	// globals holds all other mutable globals.
	globals []api.MutableGlobal
	exports map[string]api.Function
}

// newGuest instantiates the module. None of its code runs yet: package admission has turned its start function into an
// export.
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
	// size is the size of the memory, in bytes.
	size int
	// segments holds the parts of the memory that are not zero.
	segments []segment
	globals  []uint64
	// fuel is the number of units that initialisation uses.
	fuel int64
}

// segment is a part of a guest's memory.
type segment struct {
	offset int
	bytes  []byte
}

// minZeroRun is the number of consecutive zero bytes that end a segment. Copying fewer costs less than another segment.
const minZeroRun = 64

// snapshotOf returns a snapshot of a guest that has just been initialised. fuel is the amount
// that its initialisation used.
func snapshotOf(g *guest, memory []byte, fuel int64) *snapshot {
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

// restore resets a guest to the snapshot. It reports whether it could: a guest whose memory has grown cannot be reset,
// since memory cannot shrink.
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
