package sdk

import (
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

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

// EachMember calls f with the name and the value of each member of a JSON object. The name is decoded; the value is JSON
// text. EachMember takes "" for the empty object. It returns the first error of f, or an error if object is not a JSON
// object.
func EachMember(object string, f func(name, value string) error) error {
	if object == "" {
		return nil
	}
	return eachValue(object, '{', '}', f)
}

// eachValue calls f with each value of a JSON object or array, as JSON text, and with its name in an object.
func eachValue(s string, opening, closing byte, f func(name, value string) error) error {
	_, err := each(s, 0, opening, closing, func(name string, i int) (int, error) {
		end := value(s, i)
		if end == i {
			return i, errJSON
		}
		return end, f(name, s[i:end])
	})
	return err
}

// Parameters returns the members of a JSON object as parameters of a form or a query, in their order. A member that is a list
// becomes a parameter for each element. Numbers, true and false are written as in JSON. Parameters takes "" for the empty
// object. It returns an error with the member's name for null, for an object, and for a list in a list.
func Parameters(object string) (parameters []Pair, err error) {
	err = EachMember(object, func(name, value string) error {
		add := func(_, value string) error {
			if value == "null" || value[0] == '{' || value[0] == '[' {
				return errors.New(name + " is no text, number, true or false, nor a list of these")
			}
			parameters = append(parameters, Pair{Name: name, Value: text(value)})
			return nil
		}
		if value[0] == '[' {
			return eachValue(value, '[', ']', add)
		}
		return add(name, value)
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
		digit := nibble(c)
		if digit == 16 {
			return utf8.RuneError
		}
		r = r<<4 | rune(digit)
	}
	return r
}

// integer returns the value of a decimal integer that the host has checked. It does not use strconv, whose parsers add 8 kB
// of error texts to a plugin.
func integer(s string) int64 {
	n := int64(0)
	digits, negative := strings.CutPrefix(s, "-")
	for i := range len(digits) {
		n = n*10 + int64(digits[i]-'0')
	}
	if negative {
		return -n
	}
	return n
}
