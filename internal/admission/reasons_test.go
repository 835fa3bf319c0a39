package admission

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// An error has each reason with the place that it concerns: a function, an offset, or the module as a whole.
func TestRefusalReasons(t *testing.T) {
	small := testLimits
	small.ModuleBytes = 50
	tables := list("\x70\x00" + number(10_001))
	exports := func(more ...string) []byte {
		return list(append([]string{text("describe") + "\x00\x00", text("authenticate") + "\x00\x01"}, more...)...)
	}
	initialising := "\x41\x00\x41\x00\x41\x00\xfc\x08\x00\x00" // memory.init of segment 0
	for name, c := range map[string]struct {
		parts  parts
		limits Limits
		want   string
	}{
		"a module that is too large": {plugin(), small, "it has 65 bytes, and 50 are allowed: build it without debug information, or raise the limit"},
		"a list that is cut off":     {parts{sectionType: []byte("\x01")}, testLimits, "there are more things than bytes for them (byte 0xa)"},
		"a table that is too large":  {plugin().with(sectionTable, tables), testLimits, "it has tables that may have 10001 elements, and 10000 are allowed"},
		"an import that is none": {
			plugin().with(sectionImport, list(text("env")+text("gone")+"\x00\x00")), testLimits,
			`it imports "env" "gone": only extism:host/env, extism:host/user and wasi_snapshot_preview1 may be imported from; see ABI.md (byte 0x15)`,
		},
		"an export with a name of the host": {
			plugin().with(sectionExport, exports(text("kw:x")+"\x00\x00")), testLimits,
			`its export "kw:x" has a name that begins with "kw:", which is the host's: rename it (byte 0x34)`,
		},
		"data that is not announced": {
			plugin(function(noLocals, initialising)).with(sectionMemory, list("\x00\x01")), testLimits,
			"it uses data segments, but their number is not announced (function 2, byte 0x4f)",
		},
		"data that is none": {
			plugin(function(noLocals, initialising)).with(sectionMemory, list("\x00\x01")).with(sectionDataCount, []byte{0}), testLimits,
			"there is no data segment 0 (function 2, byte 0x54)",
		},
		"no exports": {
			plugin().with(sectionExport, list()), testLimits,
			`it has no function "describe" to export: add one of type () → i32; it has no function "authenticate" to export: add one of type () → i32`,
		},
		"an export of another type": {
			plugin(function(noLocals, "")).with(sectionExport, list(text("describe")+"\x00\x00", text("authenticate")+"\x00\x02")), testLimits,
			`its export "authenticate" is () → (), but has to be () → i32`,
		},
		"no exports, which are not missed in a module with faults": {
			plugin().with(sectionExport, list()).with(sectionTable, tables), testLimits, "it has tables that may have 10001 elements, and 10000 are allowed",
		},
	} {
		if _, err := Admit(build(c.parts), c.limits); err == nil || err.Error() != "the module is refused: "+c.want {
			t.Errorf("%s: error %q, want %q", name, err, c.want)
		}
	}
}

// An error has at most 20 reasons, and says whether there may be more.
func TestAnErrorHasTwentyReasons(t *testing.T) {
	for n, want := range map[int]int{19: 19, 20: 20, 21: 21, 30: 21} {
		functions := make([]string, n)
		for i := range functions {
			functions[i] = function(noLocals, "\x1a")
		}
		_, err := Admit(build(plugin(functions...)), testLimits)
		var refused *RefusedError
		if !errors.As(err, &refused) || len(refused.Reasons) != want {
			t.Errorf("%d reasons: %v", n, err)
			continue
		}
		for i, r := range refused.Reasons {
			if i < 20 && (r.Text != "an instruction lacks an operand" || r.Function != 2+i) {
				t.Errorf("reason %d of %d: %s", i, n, r)
			}
			if i == 20 && r != (Reason{Text: "and perhaps more", Function: -1}) {
				t.Errorf("the last of %d reasons: %s", n, r)
			}
		}
	}
}

// An admitted module comes with the functions that it imports and exports.
func TestAdmittedModule(t *testing.T) {
	now := text(contract.ModuleUser) + text(contract.UserTimeNow) + "\x00\x02"
	p := plugin().with(sectionType, list(typeNone, typeResult, "\x60\x00\x01\x7e")).with(sectionImport, list(now, now)).with(sectionMemory, list("\x00\x02"))
	p = p.with(sectionExport, list(text("memory")+"\x02\x00", text("describe")+"\x00\x02", text("authenticate")+"\x00\x03"))
	m := testworld.Must(Admit(build(p), testLimits))(t)
	if want := []Import{{contract.ModuleUser, contract.UserTimeNow}}; !reflect.DeepEqual(m.Imports, want) {
		t.Errorf("it imports %v", m.Imports)
	}
	if want := []string{"describe", "authenticate"}; !reflect.DeepEqual(m.Exports, want) {
		t.Errorf("it exports %v", m.Exports)
	}
}

// A reason has the function's name from the module's name section.
func TestRefusedFunctionNamed(t *testing.T) {
	module := `(module (func) (func (local` + strings.Repeat(" i32", maxLocals+1) + `)))`
	// Subsection 0 is the module's name, subsection 1 the names of functions.
	section := func(names string) string {
		content := "\x04name\x00\x02\x01m\x01" + string(rune(len(names))) + names
		return "\x00" + string(rune(len(content))) + content
	}
	for name, test := range map[string]struct{ sections, want string }{
		"named":              {section("\x02\x00\x01a\x01\x08main.big"), `(function 1, "main.big", byte 0x`},
		"another is named":   {section("\x01\x00\x01a"), "(function 1, byte 0x"},
		"no names":           {"", "(function 1, byte 0x"},
		"other sections":     {"\x00\x03\x01xy" + section("\x01\x01\x01a"), `(function 1, "a", byte 0x`},
		"not for a terminal": {section("\x01\x01\x05a\x1b[3m"), `(function 1, "a\x1b[3m", byte 0x`},
		"not UTF-8":          {section("\x01\x01\x02\xffa"), "(function 1, \"\uFFFDa\", byte 0x"},
		"too long":           {section("\x01\x01\x5a" + strings.Repeat("x", 90)), `(function 1, "` + strings.Repeat("x", 80) + `…", byte 0x`},
		"just short enough":  {section("\x01\x01\x50" + strings.Repeat("x", 80)), `(function 1, "` + strings.Repeat("x", 80) + `", byte 0x`},
		"a character is cut": {section("\x01\x01\x51" + strings.Repeat("x", 79) + "é"), `(function 1, "` + strings.Repeat("x", 79) + `…", byte 0x`},
		"cut off":            {"\x00\x20\x04name\x01\x7f\x05", "ends in the middle"},
		"more than there is": {section("\x7f\x01\x01a"), "(function 1, byte 0x"},
		"a part that is cut": {"\x00\x08\x04name\x01\x7f\x05", "(function 1, byte 0x"},
	} {
		t.Run(name, func(t *testing.T) {
			wasm := append(assemble(t, module), test.sections...)
			_, err := admit(wasm, testLimits, open)
			testworld.WantError(t, "", err, test.want)
		})
	}
}

// The first function is named, too, also if the names end too early.
func TestFirstFunctionNamed(t *testing.T) {
	module := assemble(t, `(module (func (local`+strings.Repeat(" i32", maxLocals+1)+`)))`)
	for names, want := range map[string]string{
		"\x01\x00\x04main":         `(function 0, "main", byte 0x`,
		"\x02\x00\x04main":         `(function 0, "main", byte 0x`,
		"\x02\x00\x04main\x00\x09": `(function 0, "main", byte 0x`,
		"\x00":                     "(function 0, byte 0x",
	} {
		content := "\x04name\x01" + text(names)
		_, err := admit(append(module[:len(module):len(module)], "\x00"+text(content)...), testLimits, open)
		testworld.WantError(t, names, err, want)
	}
}
