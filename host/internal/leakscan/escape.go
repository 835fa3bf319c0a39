package leakscan

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits of how deep escapes may be nested.
const (
	maxDepth       = 3 // repetitions of 25 after %, or of amp; after &, before the rest of an escape
	maxBackslashes = 7
	maxDigits      = 8 // digits of a number in HTML or in braces
)

// introducers are the first bytes of escapes and line breaks, in the order of the constants of kinds.
const introducers = "%\\&\n\r"

// kinds is a set of kinds of escapes. It has a bit for each of introducers and one for +, which matters only if a pattern has a space.
type kinds uint8

const (
	percents kinds = 1 << iota
	backslashed
	references
	feeds
	returns
	pluses
)

// secondBytes returns, for each byte, the kinds of escapes that may have it as their second byte and stand for a byte in first.
func secondBytes(first *[256]bool) (escapeSecondBytes [256]kinds) {
	const digits, upper = "0123456789abcdef", "0123456789ABCDEF"
	for c := range first {
		escapeSecondBytes[c] |= pluses
		if first[c] {
			escapeSecondBytes[digits[c>>4]] |= percents
			escapeSecondBytes[upper[c>>4]] |= percents
		}
		if first[c] && punctuation[c] {
			escapeSecondBytes[c] |= backslashed
		}
		if base64Characters[c] || strings.IndexByte(" \t"+introducers, byte(c)) >= 0 {
			escapeSecondBytes[c] |= feeds | returns
		}
	}
	escapeSecondBytes['2'] |= percents  // %25
	escapeSecondBytes['0'] |= percents  // %0A and %0D
	for _, c := range `\ux01234567nr` { // n and r are line breaks
		escapeSecondBytes[c] |= backslashed
	}
	for i := range len(simple) {
		if first[simple[i]] {
			escapeSecondBytes[namedEscapes[i]] |= backslashed
		}
	}
	escapeSecondBytes['#'] |= references
	for _, e := range entities {
		if first[e.c] || e.c == '&' { // &amp;# begins other references
			escapeSecondBytes[e.name[0]] |= references
		}
	}
	return escapeSecondBytes
}

// A backslash and a letter of named stand for the byte of simple at the same index. Punctuation after a backslash stands for itself.
const (
	namedEscapes = "bfnrtv"
	simple       = "\b\f\n\r\t\v"
)

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

var (
	// punctuation is the set of ASCII punctuation and the space.
	punctuation = setOf(" !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
	// base64Characters is the set of the characters of both Base64 alphabets.
	base64Characters = setOf(alphanumeric + "+/-_")
)

func setOf(characters string) (set [256]bool) {
	for i := range len(characters) {
		set[characters[i]] = true
	}
	return set
}

// escape holds the possible readings of an escape.
type escape struct {
	// last is set by the caller if no data follows.
	last bool
	// The first count readings are valid.
	readings [8]reading
	count    int
	// partial is set if the data may be the beginning of a longer escape.
	partial bool
}

// reading is one way to read an escape: the first length bytes of text, for which taken bytes of the data stand.
type reading struct {
	text   [utf8.UTFMax]byte
	length int
	span   int
}

func (r *reading) bytes() []byte { return r.text[:r.length] }

// read reads the escape at the beginning of data.
func (x *escape) read(data []byte) {
	x.count, x.partial = 0, false
	switch data[0] {
	case '%':
		x.percent(data)
	case '\\':
		x.backslash(data)
	case '&':
		x.entities(data)
	case '+':
		x.byte(' ', 1)
	}
}

// byte adds the reading c.
func (x *escape) byte(c byte, width int) {
	r := &x.readings[x.count]
	r.text[0], r.length, r.span = c, 1, width
	x.count++
}

// rune adds the reading r, in Latin-1 and in UTF-8.
func (x *escape) rune(r rune, width int) {
	if r < 0x100 { // the server may have read the bytes of a header as Latin-1
		x.byte(byte(r), width)
	}
	if r >= 0x80 {
		found := &x.readings[x.count]
		found.length, found.span = utf8.EncodeRune(found.text[:], r), width
		x.count++
	}
}

// percent reads a percent-encoded byte, RFC 3986 section 2.1.
func (x *escape) percent(data []byte) {
	for pos := 1; pos <= 1+2*maxDepth; pos += 2 {
		c, complete := number(data[pos:], 2, 16)
		switch {
		case c < 0:
			return
		case !complete:
			x.partial = true
			return
		}
		if c == '+' { // a form's space, encoded once more
			x.byte(' ', pos+2)
		}
		x.byte(byte(c), pos+2)
		if c != '%' {
			return
		}
	}
}

// backslash reads the escapes of JSON, RFC 8259 section 7, and those of JavaScript and similar languages.
func (x *escape) backslash(data []byte) {
	n := backslashes(data)
	for nested := 2; nested <= n; nested *= 2 {
		x.byte('\\', nested)
	}
	if n == len(data) {
		x.partial = true
		return
	}
	switch c := data[n]; c {
	default:
		if i := strings.IndexByte(namedEscapes, c); i >= 0 {
			x.byte(simple[i], n+1)
		} else if punctuation[c] {
			x.byte(c, n+1)
		}
	case '0', '1', '2', '3', '4', '5', '6', '7':
		x.octal(data, n)
	case 'x':
		if value, complete := number(data[n+1:], 2, 16); !complete {
			x.partial = true
		} else if value >= 0 {
			x.byte(byte(value), n+3)
		}
	case 'u':
		x.unicode(data, n+1)
	}
}

// octal reads the digits of an escape such as \163. It takes as many digits as fit into a byte, ECMA-262 section B.1.2.
func (x *escape) octal(data []byte, pos int) {
	limit := 3
	if data[pos] > '3' {
		limit = 2
	}
	digits := digitsAt(data, pos, limit, 8)
	if digits < limit && pos+digits == len(data) && !x.last {
		x.partial = true
		return
	}
	value, _ := number(data[pos:], digits, 8)
	x.rune(value, pos+digits)
}

// braced reads the digits behind \u{ and the closing brace, ECMA-262 section 12.9.4.
func (x *escape) braced(data []byte, pos int) {
	digits := digitsAt(data, pos, maxDigits, 16)
	end := pos + digits
	switch {
	case end == len(data):
		x.partial = true
	case digits > 0 && data[end] == '}':
		if value, _ := number(data[pos:], digits, 16); utf8.ValidRune(value) {
			x.rune(value, end+1)
		}
	}
}

// unicode reads the digits behind \u, and the second half of a surrogate pair.
func (x *escape) unicode(data []byte, pos int) {
	if pos < len(data) && data[pos] == '{' {
		x.braced(data, pos+1)
		return
	}
	value, complete := number(data[pos:], 4, 16)
	pos += 4
	switch {
	case !complete:
		x.partial = true
		return
	case !utf16.IsSurrogate(value):
		if value >= 0 {
			x.rune(value, pos)
		}
		return
	}
	n := backslashes(data[pos:])
	if x.partial = pos+n == len(data); x.partial || n == 0 || data[pos+n] != 'u' {
		return
	}
	pos += n + 1
	low, complete := number(data[pos:], 4, 16)
	if !complete {
		x.partial = true
		return
	}
	if r := utf16.DecodeRune(value, low); r != utf8.RuneError {
		x.rune(r, pos+4)
	}
}

// backslashes returns the number of backslashes at the beginning of data, at most maxBackslashes.
func backslashes(data []byte) int {
	n := 0
	for n < len(data) && n < maxBackslashes && data[n] == '\\' {
		n++
	}
	return n
}

// entities are the named references of HTML that programs write. Browsers accept all but the last one without
// a semicolon, too, so only the last one includes it here.
var entities = [...]struct {
	name string
	c    byte
}{{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos;", '\''}}

// entities reads the character references of HTML that programs write.
func (x *escape) entities(data []byte) {
	for depth, pos := 0, 1; depth <= maxDepth; depth++ {
		rest := data[pos:]
		if len(rest) == 0 {
			x.partial = true
			return
		}
		next := 0 // the end of a reference to an ampersand
		if rest[0] == '#' {
			next = x.reference(data, pos+1)
		}
		for _, e := range entities {
			switch {
			case len(rest) < len(e.name):
				x.partial = x.partial || e.name[:len(rest)] == string(rest)
			case e.name == string(rest[:len(e.name)]):
				width := x.semicolon(data, pos+len(e.name))
				if e.c == '&' {
					next = width
				}
				x.byte(e.c, width)
			}
		}
		if next == 0 {
			return
		}
		pos = next
	}
}

// semicolon returns the end of a reference whose name or number ends at offset pos.
func (x *escape) semicolon(data []byte, pos int) int {
	switch {
	case pos == len(data):
		x.partial = !x.last
	case data[pos] == ';':
		return pos + 1
	}
	return pos
}

// reference reads the number behind &#. It returns the end of the reference if that stands for an ampersand, or else 0.
func (x *escape) reference(data []byte, pos int) (amp int) {
	base := rune(10)
	if pos < len(data) && data[pos]|0x20 == 'x' {
		base = 16
		pos++
	}
	digits := digitsAt(data, pos, maxDigits+1, base)
	end := pos + digits
	switch {
	case digits > maxDigits:
	case end == len(data) && !x.last:
		x.partial = true
	case digits > 0:
		if value, _ := number(data[pos:end], digits, base); utf8.ValidRune(value) {
			width := x.semicolon(data, end)
			if x.rune(value, width); value == '&' {
				return width
			}
		}
	}
	return 0
}

// values has the value of each hexadecimal digit, and 16 for all other bytes.
var values = func() (values [256]uint8) {
	for c := range values {
		values[c] = 16
	}
	for i, c := range "0123456789abcdef" {
		values[c], values[strings.ToUpper(string(c))[0]] = uint8(i), uint8(i)
	}
	return values
}()

// digitsAt returns the number of digits at offset pos of data, at most limit.
func digitsAt(data []byte, pos, limit int, base rune) (digits int) {
	for digits < limit && pos+digits < len(data) && rune(values[data[pos+digits]]) < base {
		digits++
	}
	return digits
}

// number reads a number of that many digits, at most maxDigits. value is -1 if another character is among them.
// It may be no valid rune if there are more than four digits. complete is false if data ends before the last digit.
func number(data []byte, digits int, base rune) (value rune, complete bool) {
	n := min(digits, len(data))
	for _, c := range data[:n] {
		v := rune(values[c])
		if v >= base {
			return -1, true
		}
		value = value*base + v
	}
	return value, n == digits
}
