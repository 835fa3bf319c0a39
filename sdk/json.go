package sdk

import (
	"errors"
	"strconv"
)

// This file and jsonread.go replace encoding/json, which would account for most of a plugin's size and time (RATIONALE.md). This one
// writes objects. The other walks over objects that the host has written.
//
// Functions with many callers are not inlined: with them inlined, the host takes a tenth longer to compile a plugin.

// Members builds a JSON object, member by member. The zero value is the empty object. Members does not check for duplicate
// names.
type Members struct{ b []byte }

// String adds a member with a string.
//
//go:noinline
func (m *Members) String(name, value string) {
	m.name(name)
	m.b = appendString(m.b, value)
}

// Integer adds a member with a number.
func (m *Members) Integer(name string, value int64) {
	m.name(name)
	m.b = strconv.AppendInt(grow(m.b, 20), value, 10)
}

// Raw adds a member whose value is already JSON.
func (m *Members) Raw(name, value string) {
	m.name(name)
	m.b = add(m.b, value)
}

// Append adds the members of a JSON object. It takes "" for the empty object, and returns an error if object is not a JSON
// object.
func (m *Members) Append(object string) error {
	return EachMember(object, func(name, value string) error {
		m.Raw(name, value)
		return nil
	})
}

// JSON returns the object.
func (m *Members) JSON() string {
	if len(m.b) == 0 {
		return "{}"
	}
	return string(add(m.b, "}"))
}

//go:noinline
func (m *Members) name(name string) {
	separator := ","
	if len(m.b) == 0 {
		separator = "{"
	}
	m.b = add(appendString(add(m.b, separator), name), ":")
}

// appendPairs appends a list of pairs as JSON. It makes room for all of them at once, unless they have escapes.
//
//go:noinline
func appendPairs(b []byte, pairs []Pair) []byte {
	const overhead = len(`,{"name":"","value":""}`)
	size := len("[]")
	for _, p := range pairs {
		size += overhead + len(p.Name) + len(p.Value)
	}
	b = add(grow(b, size), "[")
	for i, p := range pairs {
		if i > 0 {
			b = add(b, ",")
		}
		b = appendString(add(b, `{"name":`), p.Name)
		b = appendString(add(b, `,"value":`), p.Value)
		b = add(b, "}")
	}
	return add(b, "]")
}

// Strings returns a JSON array of texts.
func Strings(texts []string) string {
	b := []byte{'['}
	for i, s := range texts {
		if i > 0 {
			b = add(b, ",")
		}
		b = appendString(b, s)
	}
	return string(add(b, "]"))
}

// add appends s to b.
//
//go:noinline
func add(b []byte, s string) []byte { return append(grow(b, len(s)), s...) }

// grow returns b with a capacity for n more bytes. TinyGo cannot run an append that grows a slice while it compiles, and so
// could not describe a plugin then, see Register.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	grown := make([]byte, len(b), 2*(len(b)+n)+64)
	copy(grown, b)
	return grown
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string, RFC 8259 section 7.
//
//go:noinline
func appendString(b []byte, s string) []byte {
	b = add(b, `"`)
	for {
		n := plain(s)
		b = add(b, s[:n])
		if n == len(s) {
			return add(b, `"`)
		}
		if c := s[n]; c < ' ' {
			b = add(b, `\u00`)
			b = add(b, hexDigits[c>>4:c>>4+1])
			b = add(b, hexDigits[c&15:c&15+1])
		} else {
			b = add(b, `\`)
			b = add(b, s[n:n+1])
		}
		s = s[n+1:]
	}
}

// plain returns the number of bytes before the first that needs an escape.
func plain(s string) int {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return len(s)
}

var errJSON = errors.New("the document is not a JSON object")
