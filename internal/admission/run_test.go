package admission

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// features are the WebAssembly features that package sandbox enables in wazero.
const features = api.CoreFeaturesV2 &^ api.CoreFeatureSIMD

// assemble translates a module in text format with wat2wasm, which is in the Debian package wabt.
func assemble(t testing.TB, text string) []byte {
	t.Helper()
	source := filepath.Join(t.TempDir(), "guest.wat")
	testworld.Check(t, os.WriteFile(source, []byte(text), 0o600))
	var stdout, stderr bytes.Buffer
	command := exec.Command("wat2wasm", "--output=-", source)
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("wat2wasm (install wabt): %v\n%s", err, &stderr)
	}
	return stdout.Bytes()
}

// machine runs modules, metered or not, with host functions that return fixed results.
type machine struct {
	ctx     context.Context
	runtime wazero.Runtime
	// arena holds the blocks of the running module, each preceded by its length.
	arena []byte
	// asked lists the calls of host functions.
	asked  []string
	stderr bytes.Buffer
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{ctx: context.Background()}
	m.runtime = wazero.NewRuntimeWithConfig(m.ctx, wazero.NewRuntimeConfig().WithCoreFeatures(features).WithMemoryLimitPages(256))
	t.Cleanup(func() { _ = m.runtime.Close(m.ctx) })
	for _, module := range []string{contract.ModuleEnv, contract.ModuleUser} {
		builder := m.runtime.NewHostModuleBuilder(module)
		for i, f := range plugins.imports {
			if i.Module == module {
				builder.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, guest api.Module, stack []uint64) { m.host(guest, i.Name, f.Signature, stack) }),
					[]byte(f.Params), []byte(f.Results)).Export(i.Name)
			}
		}
		testworld.Must(builder.Instantiate(m.ctx))(t)
	}
	testworld.Must(wasi_snapshot_preview1.Instantiate(m.ctx, m.runtime))(t)
	return m
}

// start makes an instance, and runs its start function and _initialize.
func (m *machine) start(t testing.TB, wasm []byte) api.Module {
	t.Helper()
	m.arena, m.asked = make([]byte, 8), nil
	instance, err := m.runtime.InstantiateWithConfig(m.ctx, wasm, wazero.NewModuleConfig().WithName("").
		WithStartFunctions(startExport, Initialize).WithStderr(&m.stderr))
	testworld.Check(t, err)
	t.Cleanup(func() { _ = instance.Close(m.ctx) })
	return instance
}

func (m *machine) admit(t testing.TB, wat string) *Module {
	t.Helper()
	return testworld.Must(admit(assemble(t, wat), testLimits, open))(t)
}

func (m *machine) put(text string) uint64 {
	m.arena = binary.LittleEndian.AppendUint64(m.arena, uint64(len(text)))
	offset := len(m.arena)
	m.arena = append(append(m.arena, text...), make([]byte, 8)...)
	return uint64(offset)
}

func (m *machine) block(offset uint64) string {
	return string(m.arena[offset:][:binary.LittleEndian.Uint64(m.arena[offset-8:])])
}

const (
	sealedValue = "kw_abcdefghijklmnopqrstuvw"
	request     = `{"method":"GET","url":"https://api.test/v1","headers":[{"name":"Accept","value":"*/*"}]}`
)

func (m *machine) host(guest api.Module, name string, s Signature, stack []uint64) {
	for i, param := range []byte(s.Params) {
		if param == i32 {
			stack[i] = uint64(uint32(stack[i])) // the upper bits are undefined
		}
	}
	note := fmt.Sprintf("%s%v", name, stack[:len(s.Params)])
	switch name {
	case contract.EnvInputOffset:
		stack[0] = m.put(request)
	case contract.EnvInputLength:
		stack[0] = uint64(len(request))
	case contract.EnvAlloc:
		stack[0] = m.put(strings.Repeat("\x00", int(stack[0])))
	case contract.EnvLength, contract.EnvLengthUnsafe:
		stack[0] = binary.LittleEndian.Uint64(m.arena[stack[0]-8:])
	case contract.EnvLoadU8:
		stack[0] = uint64(m.arena[stack[0]])
	case contract.EnvLoadU64:
		stack[0] = binary.LittleEndian.Uint64(m.arena[stack[0]:])
	case contract.EnvStoreU8:
		m.arena[stack[0]] = byte(stack[1])
	case contract.EnvStoreU64:
		binary.LittleEndian.PutUint64(m.arena[stack[0]:], stack[1])
	case contract.EnvOutputSet:
		note += string(m.arena[stack[0]:][:stack[1]])
	case contract.EnvErrorSet:
		note += m.block(stack[0])
	case contract.EnvConfigGet:
		name := m.block(stack[0])
		note += name
		stack[0] = m.put(map[string]string{"algorithm": "HS256", "in": "header"}[name] + "value")
	case contract.UserBlockNew:
		text, _ := guest.Memory().Read(uint32(stack[0]), uint32(stack[1]))
		note += string(text)
		stack[0] = m.put(string(text))
	case contract.UserBlockRead:
		text := m.block(stack[0])
		guest.Memory().WriteString(uint32(stack[1]), text[:min(len(text), int(stack[2]))])
		stack[0] = uint64(len(text))
	case contract.UserTokenRequest:
		note += m.block(stack[0])
		stack[0] = m.put(`{"status":200,"access_token":"` + sealedValue + `","token_type":"bearer","expires_in":300}`)
	case contract.UserCompose:
		template := m.block(stack[0])
		note += template
		stack[0] = m.put(template)
	case contract.UserCacheGet:
		stack[0] = 0
	case contract.UserTimeNow:
		stack[0] = 1700000000
	case contract.UserJWTSign, contract.UserJWSSign, contract.UserMAC:
		note += m.block(stack[0])
		stack[0] = m.put(sealedValue)
	default:
		if len(s.Results) > 0 {
			stack[0] = m.put(name)
		}
	}
	m.asked = append(m.asked, note)
}

// left returns the remaining fuel of an instance.
func left(instance api.Module) int64 { return int64(instance.ExportedGlobal(FuelExport).Get()) }

func refuel(instance api.Module, units int64) {
	instance.ExportedGlobal(FuelExport).(api.MutableGlobal).Set(uint64(units))
}

// The shipped plugins make the same calls of the host and return the same results, metered or not. They use the same
// fuel each time.
func TestMeteringKeepsBehaviour(t *testing.T) {
	m := newMachine(t)
	for name, wasm := range shipped(t) {
		admitted, err := Admit(wasm, testLimits)
		if err != nil {
			t.Fatal(name, err)
		}
		if admitted.NotPooled != "" {
			t.Errorf("instances of %s are not pooled: %s", name, admitted.NotPooled)
		}
		for _, export := range []string{contract.ExportDescribe, contract.ExportValidate, contract.ExportAuthenticate} {
			var asked [3][]string
			var results [3][]uint64
			var memories [3][]byte
			var used [3]int64
			for i := range asked {
				code := admitted.Wasm
				if i == 0 {
					code = wasm
				}
				instance := m.start(t, code)
				results[i], err = instance.ExportedFunction(export).Call(m.ctx)
				if err != nil {
					t.Errorf("%s: export = %s: err = %v", name, export, err)
				}
				asked[i] = m.asked
				memory, _ := instance.Memory().Read(0, instance.Memory().Size())
				memories[i] = bytes.Clone(memory)
				if i > 0 {
					used[i] = testLimits.Fuel - left(instance)
				}
			}
			t.Logf("%s: %s: %d calls of the host, %d units", name, export, len(asked[0]), used[1])
			if strings.Join(asked[0], "\n") != strings.Join(asked[1], "\n") || !bytes.Equal(memories[0], memories[1]) || results[0][0] != results[1][0] {
				t.Errorf("%s: %s does something else with fuel", name, export)
			}
			if used[1] != used[2] || used[1] < 170*int64(len(asked[0])) {
				t.Errorf("%s: %s used %d, then %d", name, export, used[1], used[2])
			}
		}
	}
}

// The WASI functions have the same signatures in the contract as in wazero, which implements them.
func TestWASIMatchesWazero(t *testing.T) {
	m := newMachine(t)
	compiled := testworld.Must(wasi_snapshot_preview1.NewBuilder(m.runtime).Compile(m.ctx))(t)
	for i, f := range plugins.imports {
		if i.Module != contract.ModuleWASI {
			continue
		}
		wazeros, ok := compiled.ExportedFunctions()[i.Name]
		if !ok || (Signature{string(wazeros.ParamTypes()), string(wazeros.ResultTypes())}) != f.Signature {
			t.Errorf("%s is not as in wazero", i.Name)
		}
	}
}
