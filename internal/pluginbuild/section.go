package pluginbuild

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
)

// Section is the name of the custom section that holds the digest of a module's sources, as 64 lower-case hexadecimal
// digits.
const Section = "keywright.sources"

// ErrNoDigest is the error for a module without a section named [Section]: one that this package has not built.
var ErrNoDigest = errors.New("no " + Section + " section, build the plugin with tools/plugin")

var wasmHeader = []byte("\x00asm\x01\x00\x00\x00")

const customSection = 0

// recordDigest appends the section to a module. Custom sections may be anywhere in it.
func recordDigest(wasm []byte, digest string) []byte {
	content := binary.AppendUvarint(nil, uint64(len(Section)))
	content = append(content, Section...)
	content = append(content, digest...)
	wasm = append(wasm, customSection)
	wasm = binary.AppendUvarint(wasm, uint64(len(content)))
	return append(wasm, content...)
}

// RecordedDigest returns the digest in a module, to be compared with [SourceDigest]. The error is [ErrNoDigest] if the module
// is well-formed but has no digest.
func RecordedDigest(wasm []byte) (string, error) {
	rest, ok := bytes.CutPrefix(wasm, wasmHeader)
	if !ok {
		return "", errors.New("not a WebAssembly module of version 1")
	}
	for len(rest) > 0 {
		id := rest[0]
		content, tail, ok := cutSized(rest[1:])
		if !ok {
			return "", fmt.Errorf("section at byte %d is cut off", len(wasm)-len(rest))
		}
		rest = tail
		if id != customSection {
			continue
		}
		name, digest, ok := cutSized(content)
		if !ok || string(name) != Section {
			continue
		}
		if raw, err := hex.DecodeString(string(digest)); err != nil || len(raw) != 32 || hex.EncodeToString(raw) != string(digest) {
			return "", fmt.Errorf("section %s does not hold a SHA-256 digest", Section)
		}
		return string(digest), nil
	}
	return "", ErrNoDigest
}

// cutSized splits b after a field that is preceded by its length, an unsigned LEB128 number.
func cutSized(b []byte) (content, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > math.MaxUint32 || size > uint64(len(b)-n) {
		return nil, nil, false
	}
	return b[n : n+int(size)], b[n+int(size):], true
}
