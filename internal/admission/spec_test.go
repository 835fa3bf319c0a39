package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/keywright/keywright/internal/testworld"
)

// specCommand is a command of a script in wazero's copy of the specification's tests, which is in the module cache.
type specCommand struct {
	Type       string
	Line       int
	Name       string
	Filename   string
	ModuleType string `json:"module_type"`
	Action     struct {
		Type, Module, Field string
		Args                []struct {
			Type  string
			Value any
		}
	}
}

// spec returns the commands of all scripts, by the path of the script.
func spec(t *testing.T) map[string][]specCommand {
	t.Helper()
	dir := testworld.Must(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output())(t)
	scripts, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "internal/integration_test/spectest/v[12]/testdata/*.json"))
	if err != nil || len(scripts) < 200 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	all := map[string][]specCommand{}
	for _, path := range scripts {
		var script struct{ Commands []specCommand }
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &script)
		}
		testworld.Check(t, err)
		all[path] = script.Commands
	}
	return all
}

func (c specCommand) wasm(t *testing.T, script string) []byte {
	t.Helper()
	return testworld.Must(os.ReadFile(filepath.Join(filepath.Dir(script), c.Filename)))(t)
}

// The specification's tests import functions that print, have large br_tables, and run long.
var (
	specRules = ruleset{maxTargets: 100_000, imports: map[Import]host{
		{"spectest", "print"}:         {},
		{"spectest", "print_i32"}:     {Signature: Signature{Params: ofI32}},
		{"spectest", "print_i64"}:     {Signature: Signature{Params: ofI64}},
		{"spectest", "print_f32"}:     {Signature: Signature{Params: ofF32}},
		{"spectest", "print_f64"}:     {Signature: Signature{Params: ofF64}},
		{"spectest", "print_i32_f32"}: {Signature: Signature{Params: ofI32 + ofF32}},
		{"spectest", "print_f64_f64"}: {Signature: Signature{Params: ofF64 + ofF64}},
	}}
	specLimits = Limits{ModuleBytes: testLimits.ModuleBytes, MemoryBytes: 4 << 30, Fuel: 1 << 50}
)

// Modules that are invalid by the specification are refused.
func TestSpecificationInvalidModules(t *testing.T) {
	seen := 0
	for script, commands := range spec(t) {
		for _, c := range commands {
			if c.Type != "assert_invalid" && c.Type != "assert_malformed" || c.ModuleType != "binary" || !strings.HasSuffix(c.Filename, ".wasm") {
				continue
			}
			wasm := c.wasm(t, script)
			if strings.Contains(script, "/v1/") || len(wasm) > 8 && wasm[8] == sectionCustom {
				continue // valid since version 2, or invalid in a custom section, which Admit drops
			}
			seen++
			if _, err := admit(wasm, specLimits, specRules); err == nil {
				t.Errorf("%s:%d: %s is admitted", filepath.Base(script), c.Line, c.Filename)
			}
		}
	}
	if seen < 2000 {
		t.Errorf("only %d modules", seen)
	}
}

// Modules that are valid by the specification are admitted, unless they use something that a plugin does not need.
func TestSpecificationValidModules(t *testing.T) {
	admitted := 0
	for script, commands := range spec(t) {
		for _, c := range commands {
			if c.Type != "module" || !strings.HasSuffix(c.Filename, ".wasm") {
				continue
			}
			_, err := admit(c.wasm(t, script), specLimits, specRules)
			var refused *RefusedError
			switch {
			case err == nil:
				admitted++
			case !errors.As(err, &refused):
				t.Error(err)
			default:
				for _, r := range refused.Reasons {
					if !beyond(r.Text) {
						t.Errorf("%s:%d: %s is refused: %s", filepath.Base(script), c.Line, c.Filename, r)
					}
				}
			}
		}
	}
	if admitted < 1000 {
		t.Errorf("only %d modules", admitted)
	}
}

// beyond reports whether a reason concerns something that is valid but not admitted.
func beyond(reason string) bool {
	for _, text := range []string{
		"a plugin does not need", "it imports", "table 0 grows", "table 1 grows", "can never start", "of a br_table", "it takes too long to compile", "and perhaps more",
		"it has tables that may have", "locals",
	} {
		if strings.Contains(reason, text) {
			return true
		}
	}
	return false
}

// A module behaves in the same way metered or not, and uses the same fuel each time.
func TestMeteringChangesNoResultOfTheSpecification(t *testing.T) {
	s := newSpecRun(t)
	for script, commands := range spec(t) {
		s.run(t, script, commands)
	}
	t.Logf("%d modules, %d calls", s.modules, s.calls)
	if s.modules < 1000 || s.calls < 20_000 {
		t.Errorf("only %d modules and %d calls", s.modules, s.calls)
	}
}

// specRun runs scripts on three instances of each module: one as delivered, and two metered ones.
type specRun struct {
	ctx            context.Context
	runtimes       [3]wazero.Runtime
	modules, calls int
}

func newSpecRun(t *testing.T) *specRun {
	s := &specRun{ctx: context.Background()}
	for i := range s.runtimes {
		s.runtimes[i] = wazero.NewRuntimeWithConfig(s.ctx, wazero.NewRuntimeConfig().WithCoreFeatures(features))
		t.Cleanup(func() { _ = s.runtimes[i].Close(s.ctx) })
		printing := s.runtimes[i].NewHostModuleBuilder("spectest")
		for name, h := range specRules.imports {
			printing.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(context.Context, []uint64) {}), []byte(h.Params), []byte(h.Results)).Export(name.Name)
		}
		testworld.Must(printing.Instantiate(s.ctx))(t)
	}
	return s
}

type triple struct{ instances [3]api.Module }

func (s *specRun) run(t *testing.T, script string, commands []specCommand) {
	named := map[string]*triple{}
	var current *triple
	var all []*triple
	for _, c := range commands {
		where := filepath.Base(script) + ":" + strconv.Itoa(c.Line)
		switch c.Type {
		case "module", "assert_uninstantiable":
			made := s.instantiate(t, where, c.wasm(t, script))
			if made != nil {
				all = append(all, made)
			}
			if c.Type == "module" {
				current = made
				named[c.Name] = made
			}
		case "assert_return", "assert_trap", "assert_exhaustion", "action":
			on := current
			if c.Action.Module != "" {
				on = named[c.Action.Module]
			}
			if on != nil && c.Action.Type == "invoke" {
				s.call(t, where, on, c)
			}
		}
	}
	for _, on := range all {
		s.compareState(t, filepath.Base(script), on)
		for _, instance := range on.instances {
			_ = instance.Close(s.ctx)
		}
	}
}

func (s *specRun) instantiate(t *testing.T, where string, wasm []byte) *triple {
	m, err := admit(wasm, specLimits, specRules)
	if err != nil {
		return nil
	}
	var made triple
	var errs [3]error
	for i, r := range s.runtimes {
		if i > 0 {
			wasm = m.Wasm
		}
		made.instances[i], errs[i] = r.InstantiateWithConfig(s.ctx, wasm, wazero.NewModuleConfig().WithName("").WithStartFunctions(startExport))
	}
	if cause(errs[0]) != cause(errs[1]) {
		t.Errorf("%s: without fuel %v, with it %v", where, errs[0], errs[1])
	}
	if errs[0] != nil || errs[1] != nil {
		return nil
	}
	s.modules++
	return &made
}

func (s *specRun) call(t *testing.T, where string, on *triple, c specCommand) {
	var args []uint64
	for _, a := range c.Action.Args {
		text, _ := a.Value.(string)
		v, err := strconv.ParseUint(text, 10, 64)
		if err != nil || a.Type == "externref" || a.Type == "funcref" {
			return
		}
		args = append(args, v)
	}
	var results [3][]uint64
	var errs [3]error
	for i, instance := range on.instances {
		f := instance.ExportedFunction(c.Action.Field)
		if f == nil {
			t.Fatalf("%s: no export %q", where, c.Action.Field)
		}
		for _, result := range f.Definition().ResultTypes() {
			if result == api.ValueTypeExternref || result == funcref {
				return // references are addresses, which differ
			}
		}
		results[i], errs[i] = f.Call(s.ctx, args...)
	}
	s.calls++
	if cause(errs[0]) != cause(errs[1]) {
		t.Errorf("%s: without fuel %v, with it %v", where, errs[0], errs[1])
	}
	for i := range results[0] {
		if errs[0] == nil && errs[1] == nil && results[0][i] != results[1][i] {
			t.Errorf("%s: without fuel %v, with it %v", where, results[0], results[1])
		}
	}
	if a, b := on.instances[1].ExportedGlobal(FuelExport).Get(), on.instances[2].ExportedGlobal(FuelExport).Get(); a != b || a >= uint64(specLimits.Fuel) {
		t.Errorf("%s: first %d are left, then %d", where, a, b)
	}
}

// compareState compares the memories of the instance as delivered and of a metered one.
func (s *specRun) compareState(t *testing.T, where string, on *triple) {
	if reflect.ValueOf(on.instances[0].Memory()).IsNil() {
		return
	}
	var memories [3][]byte
	for i, instance := range on.instances {
		memories[i], _ = instance.Memory().Read(0, instance.Memory().Size())
	}
	if !bytes.Equal(memories[0], memories[1]) {
		t.Errorf("%s: memories of %d and %d bytes differ", where, len(memories[0]), len(memories[1]))
	}
}

// cause returns the text of the innermost error: a trap without its stack trace.
func cause(err error) string {
	for err != nil {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
	return ""
}
