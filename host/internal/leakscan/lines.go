package leakscan

import "strings"

// Limits of line breaks in Base64.
const (
	// minLine is the least number of bytes without white space before a line break. Lines of MIME have 64 or 76, and
	// shorter lines are other text.
	minLine = 32
	// maxBreak is the greatest number of bytes of a line break together with the white space behind it.
	maxBreak = 64
)

// white returns the character of white space at the beginning of data and the number of bytes that it takes. If data
// begins with an escape, x must have read it. c is 0 if data begins with another character.
func (x *escape) white(data []byte) (c byte, width int) {
	c, width = data[0], 1
	if x.count > 0 && c != '+' { // + is a character of Base64
		r := &x.readings[x.count-1] // the longest reading
		c, width = r.text[0], r.span
	}
	if strings.IndexByte("\r\n \t", c) < 0 {
		return 0, 0
	}
	return c, width
}

// lineBreak returns the number of bytes of the line break at the beginning of data, or 0 if there is no line break. If
// data begins with an escape, x must have read it. A line break is CR, LF or CRLF, and the white space that the next
// line begins with.
func (x *escape) lineBreak(data []byte) int {
	c, taken := x.white(data)
	if c != '\r' && c != '\n' {
		return 0
	}
	next := escape{last: true} // an incomplete escape is not part of the line break
	feed := c == '\r'
	for pos := taken; ; pos += taken {
		if pos >= min(len(data), maxBreak) || base64Characters[data[pos]] {
			return pos
		}
		next.read(data[pos:])
		switch c, taken = next.white(data[pos:]); {
		case c == '\n' && feed, c == ' ', c == '\t':
			feed = false
		default:
			return pos
		}
	}
}

// line returns the number of bytes without white space at the end of data, at most minLine. prefix is the number of such
// bytes in front of data.
func line(data []byte, prefix int) int {
	n := 0
	for n < minLine {
		if n == len(data) {
			return min(n+prefix, minLine)
		}
		if c := data[len(data)-1-n]; c <= ' ' || c >= 0x7f {
			break
		}
		n++
	}
	return n
}

// hopeless reports whether the line break at offset pos cannot be part of Base64. It is fast and rejects most line
// breaks.
func (s *search) hopeless(pos int) bool {
	return pos == 0 || !base64Characters[s.data[pos-1]] || line(s.data[:pos], s.line) < minLine
}
