package admission

import "bytes"

// functionNames is the ID of the subsection of the custom section "name" that holds the names of functions.
// https://www.w3.org/TR/wasm-core-2/#name-section
const functionNames = 1

// name sets the Name of the reasons from the module's name section. The section is optional and only helps the module's
// author, so a module whose names cannot be read is not refused for that.
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
