package main

import (
	"errors"

	"github.com/keywright/keywright/sdk"
)

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
