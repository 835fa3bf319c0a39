package admission

import "unicode/utf8"

// reader takes a part of a module to pieces. Once it has met something that it cannot read it has failed: it gives
// zeros from then on, and fault is the first thing that was wrong. Places are offsets in the whole module.
type reader struct {
	wasm  []byte // the whole module
	at    int    // the next byte to read
	end   int    // of the part
	fault string
	where int // of the fault
}

// sub is a reader of the next n bytes, which this one passes over.
func (r *reader) sub(n uint32) reader {
	begin := r.at
	r.bytes(n)
	return reader{wasm: r.wasm, at: begin, end: r.at, fault: r.fault, where: r.where}
}

func (r *reader) failed() bool { return r.fault != "" }

func (r *reader) fail(where int, fault string) {
	if r.fault == "" {
		r.fault, r.where = fault, where
	}
	r.at = r.end
}

func (r *reader) left() int { return r.end - r.at }

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(r.left()) {
		r.fail(r.at, "it ends in the middle of something")
		return nil
	}
	r.at += int(n)
	return r.wasm[r.at-int(n) : r.at]
}

func (r *reader) byte() byte {
	if r.at >= r.end {
		r.fail(r.at, "it ends in the middle of something")
		return 0
	}
	r.at++
	return r.wasm[r.at-1]
}

// u32 reads an unsigned number in LEB128 of at most five bytes, whose unused bits are zero.
func (r *reader) u32() uint32 {
	if r.at < r.end && r.wasm[r.at] < 0x80 { // nearly always
		r.at++
		return uint32(r.wasm[r.at-1])
	}
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		if shift == 28 && b > 0x0f {
			break
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.fail(r.at, "a number does not fit into 32 bits")
	return 0
}

// signed reads a signed number of that many bits in LEB128, whose unused bits all are as its sign.
func (r *reader) signed(bits int) int64 {
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b >= 0x80 {
			continue
		}
		if unused := shift + 7 - bits; unused > 0 {
			// Bits from the sign up have to be equal, within the seven of this byte.
			high := int8(b<<1) >> (7 - unused)
			if high != 0 && high != -1 {
				break
			}
		}
		if rest := 64 - shift - 7; rest > 0 {
			v = v << rest >> rest
		}
		return v
	}
	r.fail(r.at, "a number does not fit into its bits")
	return 0
}

// count reads the length of a vector, each item of which takes at least a byte.
func (r *reader) count() int {
	where, n := r.at, r.u32()
	if uint64(n) > uint64(r.left()) {
		r.fail(where, "there are more things than bytes for them")
		return 0
	}
	return int(n)
}

func (r *reader) name() string {
	where := r.at
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
