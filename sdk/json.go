package sdk

import (
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// This file replaces encoding/json, which would account for most of a plugin's size and time (RATIONALE.md). It writes
// objects, and walks over objects that the host has written.
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
	before := ","
	if len(m.b) == 0 {
		before = "{"
	}
	m.b = add(appendString(add(m.b, before), name), ":")
}

func pairsJSON(pairs []Pair) string { return string(appendPairs(nil, pairs)) }

// appendPairs appends a list of pairs as JSON. It makes room for all of them at once, unless they have escapes.
//
//go:noinline
func appendPairs(b []byte, pairs []Pair) []byte {
	const beside = len(`,{"name":"","value":""}`)
	size := len("[]")
	for _, p := range pairs {
		size += beside + len(p.Name) + len(p.Value)
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
func Strings(texts []string) string { return stringsJSON(texts) }

// Pairs returns the members of a JSON object as pairs, for a form, a query or headers, in their order. It takes "" for the empty
// object. The members are texts, numbers and booleans. With any other it returns an error.
func Pairs(object string) (pairs []Pair, err error) {
	err = EachMember(object, func(name, value string) error {
		switch value[0] {
		case '{', '[', 'n':
			return errors.New(name + " is no text, number or boolean")
		}
		pairs = append(pairs, Pair{name, text(value)})
		return nil
	})
	return pairs, err
}

func stringsJSON(texts []string) string {
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

// EachMember calls f with the name and the value of each member of a JSON object. The name is decoded; the value is JSON
// text. EachMember takes "" for the empty object. It returns the first error of f, or an error if object is not a JSON
// object.
func EachMember(object string, f func(name, value string) error) error {
	if object == "" {
		return nil
	}
	_, err := each(object, 0, '{', '}', func(name string, i int) (int, error) {
		end := value(object, i)
		if end == i {
			return i, errJSON
		}
		return end, f(name, object[i:end])
	})
	return err
}

// eachElement calls f with each element of a JSON array, as JSON text.
func eachElement(array string, f func(element string) error) error {
	_, err := each(array, 0, '[', ']', func(_ string, i int) (int, error) {
		end := value(array, i)
		if end == i {
			return i, errJSON
		}
		return end, f(array[i:end])
	})
	return err
}

// Parameters returns the members of a JSON object as parameters of a form or a query, in their order. A member that is a list
// becomes a parameter for each element. Numbers, true and false are written as in JSON. Parameters takes "" for the empty
// object. It returns an error with the member's name for null, for an object, and for a list in a list.
func Parameters(object string) (parameters []Pair, err error) {
	err = EachMember(object, func(name, value string) error {
		add := func(value string) error {
			if value == "null" || value[0] == '{' || value[0] == '[' {
				return errors.New(name + " is no text, number, true or false, nor a list of these")
			}
			parameters = append(parameters, Pair{Name: name, Value: text(value)})
			return nil
		}
		if value[0] == '[' {
			return eachElement(value, add)
		}
		return add(value)
	})
	return parameters, err
}

// each walks over the object or the array that begins at i, or behind white space there. It calls f with the name of each
// member, and with the index at which the value begins. f returns the index behind the value, so that a document of many
// levels is read only once. each returns the index behind the object or the array. The host has written s, so it is
// well-formed JSON, and each does not validate it.
func each(s string, i int, opening, closing byte, f func(name string, i int) (int, error)) (int, error) {
	i = space(s, i)
	if i >= len(s) || s[i] != opening {
		return i, errJSON
	}
	i = space(s, i+1)
	if i < len(s) && s[i] == closing {
		return i + 1, nil
	}
	for i < len(s) {
		name := ""
		if opening == '{' {
			name, i = textAt(s, i)
			i = space(s, i)
			if i >= len(s) || s[i] != ':' {
				return i, errJSON
			}
			i = space(s, i+1)
		}
		end, err := f(name, i)
		if err != nil {
			return end, err
		}
		if end == i {
			return i, errJSON
		}
		i = space(s, end)
		if i < len(s) && s[i] == closing {
			return i + 1, nil
		}
		if i >= len(s) || s[i] != ',' {
			return i, errJSON
		}
		i = space(s, i+1)
	}
	return i, errJSON
}

// space returns the index of the first byte at or after i that is not white space.
func space(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

// value returns the end of the JSON value that begins at i.
func value(s string, i int) int {
	for depth := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			if i = quoted(s, i); depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			if depth == 0 {
				return i + 1
			}
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return len(s)
}

// quoted returns the index of the quote that ends the JSON string that begins at i, or that of the last byte of s.
func quoted(s string, i int) int {
	for i++; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(s) - 1
}

// textAt returns the JSON string that begins at i, decoded, and the index behind it. It returns other JSON unchanged.
//
//go:noinline
func textAt(s string, i int) (string, int) {
	if i >= len(s) || s[i] != '"' {
		end := value(s, i)
		return s[i:end], end
	}
	for end := i + 1; end < len(s); end++ {
		switch s[end] {
		case '"':
			return s[i+1 : end], end + 1
		case '\\':
			end = quoted(s, i)
			return unescape(s[i+1 : end]), end + 1
		}
	}
	return "", len(s)
}

// text decodes a JSON string. It returns other JSON unchanged.
func text(s string) string {
	decoded, _ := textAt(s, 0)
	return decoded
}

// unescape replaces the escapes of a JSON string.
func unescape(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' || i+1 >= len(s) {
			b = append(b, c)
			continue
		}
		i++
		switch c = s[i]; c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := unit(s, i+1)
			i += 4
			if utf16.IsSurrogate(r) && i+2 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
				r = utf16.DecodeRune(r, unit(s, i+3))
				i += 6
			}
			b = append(b, string(r)...)
			continue
		}
		b = append(b, c)
	}
	return string(b)
}

// unit returns the value of the four hexadecimal digits at i, or utf8.RuneError.
func unit(s string, i int) rune {
	if i+4 > len(s) {
		return utf8.RuneError
	}
	r := rune(0)
	for _, c := range []byte(s[i : i+4]) {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return utf8.RuneError
		}
	}
	return r
}

// integer returns the value of a decimal integer that the host has checked. It does not use strconv, whose parsers add 8 kB
// of error texts to a plugin.
func integer(s string) int64 {
	n, negative := int64(0), false
	for i := 0; i < len(s); i++ {
		if i == 0 && s[0] == '-' {
			negative = true
			continue
		}
		n = n*10 + int64(s[i]-'0')
	}
	if negative {
		return -n
	}
	return n
}
