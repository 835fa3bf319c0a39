package admission

import "unicode/utf8"

// reader reads a part of a module. After the first fault it has failed: all its methods return zero values from then on.
// Offsets are those in the whole module.
type reader struct {
	// wasm is the whole module.
	wasm []byte
	// pos is the offset of the next byte, and end that of the end of the part.
	pos, end int
	// fault describes the first fault, and where is its offset.
	fault string
	where int
}

// sub returns a reader of the next n bytes, and skips them in r.
func (r *reader) sub(n uint32) reader {
	begin := r.pos
	r.bytes(n)
	return reader{wasm: r.wasm, pos: begin, end: r.pos, fault: r.fault, where: r.where}
}

func (r *reader) failed() bool { return r.fault != "" }

func (r *reader) fail(where int, fault string) {
	if r.fault == "" {
		r.fault, r.where = fault, where
	}
	r.pos = r.end
}

func (r *reader) remaining() int { return r.end - r.pos }

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(r.remaining()) {
		r.fail(r.pos, "it ends in the middle of something")
		return nil
	}
	r.pos += int(n)
	return r.wasm[r.pos-int(n) : r.pos]
}

func (r *reader) byte() byte {
	if r.pos >= r.end {
		r.fail(r.pos, "it ends in the middle of something")
		return 0
	}
	r.pos++
	return r.wasm[r.pos-1]
}

// u32 reads an unsigned number in LEB128 of at most five bytes. It fails if an unused bit is set.
func (r *reader) u32() uint32 {
	if r.pos < r.end && r.wasm[r.pos] < 0x80 { // the usual case
		r.pos++
		return uint32(r.wasm[r.pos-1])
	}
	var v uint32
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if shift == 28 && b > 0x0f {
			r.fail(r.pos, "a number does not fit into 32 bits")
			return 0
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
}

// signed reads a signed number of 32, 33 or 64 bits in LEB128. It fails if an unused bit differs from the sign.
func (r *reader) signed(bits int) int64 {
	last := bits / 7 * 7 // shift of the last byte, of which bits - last bits are used
	var v int64
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if shift == last {
			// The bits from the sign to the highest of this byte's seven have to be equal, and no byte may follow.
			high := int8(b<<1) >> (bits - last)
			if b >= 0x80 || high != 0 && high != -1 {
				r.fail(r.pos, "a number does not fit into its bits")
				return 0
			}
		}
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			rest := max(0, 57-shift) // bits of v above those that have been read
			return v << rest >> rest
		}
	}
}

// count reads the length of a vector. It fails if fewer bytes than that are left, because each item takes at least one.
func (r *reader) count() int {
	where := r.pos
	n := r.u32()
	if uint64(n) > uint64(r.remaining()) {
		r.fail(where, "there are more things than bytes for them")
		return 0
	}
	return int(n)
}

func (r *reader) name() string {
	where := r.pos
	name := r.bytes(r.u32())
	switch {
	case len(name) > maxNameBytes:
		r.fail(where, "a name is too long")
	case !utf8.Valid(name):
		r.fail(where, "a name is not UTF-8")
	default:
		return string(name)
	}
	return ""
}
