package leakscan

import "strings"

// Lines that Base64 may be broken into.
const (
	minLine  = 32 // bytes without white space before the break: MIME's have 64 or 76, and short ones are other text
	maxBreak = 64 // bytes of a break, with the white space behind it
)

// white returns the white space that the data begins with, as it is or as the escape that was read last, and how many
// bytes it takes. The character is 0 when the data begins with another one.
func (x *escape) white(data []byte) (c byte, taken int) {
	c, taken = data[0], 1
	if x.count > 0 && c != '+' { // in Base64, + is no space
		r := &x.readings[x.count-1] // the longest
		c, taken = r.text[0], r.taken
	}
	if strings.IndexByte("\r\n \t", c) < 0 {
		return 0, 0
	}
	return c, taken
}

// lineBreak returns how many bytes of the data, which was read last, are a line break: CR, LF or CRLF, and the white
// space that the next line begins with. The result is 0 when there is none.
func (x *escape) lineBreak(data []byte) int {
	c, taken := x.white(data)
	if c != '\r' && c != '\n' {
		return 0
	}
	next := escape{last: true} // what is cut off is no part of it
	feed := c == '\r'
	for at := taken; ; at += taken {
		if at >= min(len(data), maxBreak) || base64Characters[data[at]] {
			return at
		}
		next.read(data[at:])
		switch c, taken = next.white(data[at:]); {
		case c == '\n' && feed, c == ' ', c == '\t':
			feed = false
		default:
			return at
		}
	}
}

// line returns how many bytes without white space the data ends with, up to minLine. Before is how many stand before it.
func line(data []byte, before int) int {
	n := 0
	for n < minLine {
		if n == len(data) {
			return min(n+before, minLine)
		}
		if c := data[len(data)-1-n]; c <= ' ' || c >= 0x7f {
			break
		}
		n++
	}
	return n
}

// hopeless reports whether no pattern may have the line break that begins here. It is quick, and rejects most breaks.
func (s *search) hopeless(at int) bool {
	return at == 0 || !base64Characters[s.data[at-1]] || line(s.data[:at], s.line) < minLine
}
