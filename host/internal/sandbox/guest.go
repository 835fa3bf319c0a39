package sandbox

import (
	"bytes"
	"context"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/admission"
)

// guest is an instance of a module, with all that is ever looked up in it: looking a function up costs more than a call.
// It serves one call at a time.
type guest struct {
	instance api.Module
	fuel     api.MutableGlobal
	globals  []api.MutableGlobal // all others that are mutable
	exports  map[string]api.Function
}

// newGuest instantiates the module. No code of it runs yet: package admission has made an export of its start function.
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
	for _, name := range []string{abi.ExportDescribe, abi.ExportValidate, abi.ExportAuthenticate} {
		if m.Has(name) {
			g.exports[name] = instance.ExportedFunction(name)
		}
	}
	return g, nil
}

func mutable(instance api.Module, name string) api.MutableGlobal {
	return instance.ExportedGlobal(name).(api.MutableGlobal) // package admission has exported it
}

// close makes wazero forget the instance. Its error is about files, of which there are none.
func (g *guest) close() { _ = g.instance.Close(context.Background()) }

// snapshot is the state of a module's guest after its initialisation.
type snapshot struct {
	size     int       // of its memory, in bytes
	segments []segment // of its memory, that are not zero
	globals  []uint64
	fuel     int64 // that initialising it takes
}

// segment is a part of a memory.
type segment struct {
	offset int
	bytes  []byte
}

// minZeroRun is how many zero bytes end a segment: to copy a few costs less than to begin anew.
const minZeroRun = 64

// snapshotOf makes a snapshot of a guest that has been initialised.
func snapshotOf(g *guest, memory []byte, fuel int64) *snapshot {
	s := &snapshot{size: len(memory), fuel: fuel}
	for _, global := range g.globals {
		s.globals = append(s.globals, global.Get())
	}
	zeros := make([]byte, minZeroRun)
	for at := 0; at < len(memory); {
		if memory[at] == 0 {
			at++
			continue
		}
		end := len(memory)
		if next := bytes.Index(memory[at:], zeros); next >= 0 {
			end = at + next
		}
		s.segments = append(s.segments, segment{at, bytes.Clone(memory[at:end])})
		at = end
	}
	return s
}

// restore puts a guest back to what it was. It gives false when that cannot be done: memory cannot shrink.
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
