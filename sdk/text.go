package sdk

import "strings"

// This file has what plugins need of packages strings, net/url, net/http and unicode. Those would add kilobytes to a plugin.

// Lower returns text with its ASCII letters in lower case.
//
//go:noinline
func Lower(text string) string {
	var b []byte
	for i := 0; i < len(text); i++ {
		if c := text[i]; 'A' <= c && c <= 'Z' {
			if b == nil {
				b = []byte(text)
			}
			b[i] = c + 'a' - 'A'
		}
	}
	if b == nil {
		return text
	}
	return string(b)
}

// percentEncode returns text with all bytes percent-encoded but the ASCII letters and digits and those of plain. With "-._~" it
// does what [Call.Percent] does, which also encodes what sealed values stand for.
//
//go:noinline
func percentEncode(text, plain string) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 3*len(text))
	n := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if letter := c | 0x20; 'a' <= letter && letter <= 'z' || '0' <= c && c <= '9' || strings.IndexByte(plain, c) >= 0 {
			b[n] = c
			n++
			continue
		}
		b[n], b[n+1], b[n+2] = '%', digits[c>>4], digits[c&15]
		n += 3
	}
	return string(b[:n])
}

// formDecode returns a name or a value of a form or a query decoded. A % that begins no escape stays as it is. The result may
// hold bytes that are not UTF-8.
//
//go:noinline
func formDecode(text string) string {
	b := make([]byte, len(text))
	n := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(text):
			if high, low := nibble(text[i+1]), nibble(text[i+2]); high < 16 && low < 16 {
				c = high<<4 | low
				i += 2
			}
		}
		b[n] = c
		n++
	}
	return string(b[:n])
}

// nibble returns the value of a hexadecimal digit, or 16 for any other byte.
func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}
