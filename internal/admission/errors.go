package admission

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Reason is one reason why a module is refused.
type Reason struct {
	Text string
	// Name is the name of the function in the module's name section, or "".
	Name string
	// Function is the index of the function, imports included, or -1 if the reason does not concern a function.
	Function int
	// Offset is the offset in bytes in the module as delivered, or 0 if the reason concerns the module as a whole.
	Offset int
}

// String returns the text, followed by the function and the offset if there are any.
func (r Reason) String() string {
	switch {
	case r.Function >= 0 && r.Name != "":
		return fmt.Sprintf("%s (function %d, %q, byte %#x)", r.Text, r.Function, r.Name, r.Offset)
	case r.Function >= 0:
		return fmt.Sprintf("%s (function %d, byte %#x)", r.Text, r.Function, r.Offset)
	case r.Offset > 0:
		return fmt.Sprintf("%s (byte %#x)", r.Text, r.Offset)
	}
	return r.Text
}

// RefusedError is the error for a module that is not admitted. It holds every reason that was found, up to a limit. If a
// part of the module cannot be read, reasons in what follows are not found.
type RefusedError struct {
	Reasons []Reason
}

func (e *RefusedError) Error() string {
	texts := make([]string, len(e.Reasons))
	for i, r := range e.Reasons {
		texts[i] = r.String()
	}
	return "the module is refused: " + strings.Join(texts, "; ")
}

// cut shortens a name from a module to at most 80 bytes, so that it fits an error message.
func cut(text string) string {
	short := Cut(text, 80)
	if short == text {
		return text
	}
	return short + "…"
}

// Cut shortens text to at most n bytes, and does not split a character.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// functionNames is the ID of the subsection of the custom section "name" that holds the names of functions.
// https://www.w3.org/TR/wasm-core-2/#name-section
const functionNames = 1

// name sets the Name of the reasons from the module's name section. It is no fault if that cannot be read.
func name(wasm []byte, reasons []Reason) {
	indexes := map[uint32][]int{} // reasons, by function
	for i, reason := range reasons {
		if reason.Function >= 0 {
			indexes[uint32(reason.Function)] = append(indexes[uint32(reason.Function)], i)
		}
	}
	if len(indexes) == 0 {
		return
	}
	r := reader{wasm: wasm, pos: len(magic), end: len(wasm)}
	for !r.failed() { // reading at the end fails
		id := r.byte()
		section := r.sub(r.u32())
		if id != sectionCustom || string(section.bytes(section.u32())) != "name" {
			continue
		}
		for !section.failed() {
			part := section.byte()
			names := section.sub(section.u32())
			if part != functionNames {
				continue
			}
			for range names.count() {
				function := names.u32()
				text := names.bytes(names.u32())
				if names.failed() {
					break
				}
				for _, i := range indexes[function] {
					reasons[i].Name = cut(string(bytes.ToValidUTF8(text, []byte("\uFFFD"))))
				}
			}
		}
		return
	}
}
