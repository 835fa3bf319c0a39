package main

import (
	"errors"
	"strings"

	"github.com/keywright/keywright/sdk"
)

// split sets the parts of the URL.
func (m *message) split() {
	m.scheme, m.authority, m.path = m.Split()
	if at := strings.IndexByte(m.path, '?'); at >= 0 {
		m.path, m.query = m.path[:at], m.path[at:]
	}
}

// parameter returns the value of a query parameter, RFC 9421 section 2.2.8. The name is as recode returns it.
func (m *message) parameter(name string) (value string, err error) {
	count := 0
	for _, pair := range strings.Split(strings.TrimPrefix(m.query, "?"), "&") {
		encodedName, encodedValue, _ := strings.Cut(pair, "=")
		if recode(encodedName) == name {
			value = recode(encodedValue)
			count++
		}
	}
	switch count {
	case 0:
		err = errors.New("the request's query has no " + name + ", which is to be signed: send it, or take it out of components")
	case 1:
	default:
		err = errors.New("the request's query has " + name + " more than once, so that it cannot be signed: put @query into components")
	}
	return value, err
}

// recode returns a text of a query decoded as a form is, and encoded again, with %20 for a space.
//
//go:noinline
func recode(text string) string {
	const digits = "0123456789ABCDEFabcdef"
	digit := func(c byte) int {
		i := strings.IndexByte(digits, c)
		if i > 15 {
			i -= 6
		}
		return i
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '+' {
			c = ' '
		} else if c == '%' && i+2 < len(text) && digit(text[i+1]) >= 0 && digit(text[i+2]) >= 0 {
			c = byte(digit(text[i+1])<<4 | digit(text[i+2]))
			i += 2
		}
		if '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '*' || c == '-' || c == '.' || c == '_' {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}

// lower returns text with its ASCII letters in lower case. It does not use package unicode, whose tables would add kilobytes.
//
//go:noinline
func lower(text string) string {
	b := []byte(text)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// checkString returns an error unless text can be a string of a structured field, RFC 9651 section 3.3.3. It cannot see the
// sealed parts.
func checkString(text string) error {
	for i := 0; i < len(text); i++ {
		if text[i] < ' ' || text[i] > '~' {
			return errors.New("has a character that is not printable ASCII")
		}
	}
	return nil
}

// quote returns text as a string of a structured field, which has the escapes of a quoted-string. The error names what the
// text is.
//
//go:noinline
func quote(c *sdk.Call, name, text string) (string, error) {
	if err := checkString(text); err != nil {
		return "", errors.New(name + " " + err.Error())
	}
	return c.Quoted(text), nil
}

// isKey reports whether text is a key of a dictionary, RFC 9651 section 3.1.2.
func isKey(text string) bool {
	for i := 0; i < len(text); i++ {
		c := text[i]
		first := 'a' <= c && c <= 'z' || c == '*'
		if !first && (i == 0 || (c < '0' || c > '9') && c != '_' && c != '-' && c != '.') {
			return false
		}
	}
	return text != ""
}
