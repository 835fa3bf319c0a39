package admission

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

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
