package echo

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

// broken is escaped for what has a line break here, before any escape. Base64 may have one anywhere but at its beginning.
func (s *search) broken(at int) (found bool, safe int) {
	data := s.data
	safe = len(data)
	if at == 0 || !base64Characters[data[at-1]] {
		return false, safe
	}
	end := at + s.x.lineBreak(data[at:])
	if end == at || !s.goesOn(at, end) || line(data[:at], s.line) < minLine {
		return false, safe
	}
	last := data[at-1]
	for n := range s.needles {
		if !s.needles[n].base64 {
			continue
		}
		needle := s.needles[n].text
		for i := next(needle, 0, last) + 1; i > 0 && i <= at && i < len(needle); i = next(needle, i, last) + 1 {
			*s.effort--
			if needle[:i] != string(data[at-i:at]) {
				continue
			}
			switch s.follow(&s.needles[n], i, end) {
			case matched:
				return true, 0
			case begun:
				safe = min(safe, at-i)
			}
		}
	}
	return false, safe
}

// goesOn reports whether what stands around a line break may be part of a needle, of which at least one byte stands
// before the break. It rejects most breaks.
func (s *search) goesOn(at, end int) bool {
	data := s.data
	last := data[at-1]
	two := at > 1 && s.second.has(0, data[at-2], last)
	three := two || at > 2 && s.around.has(data[at-3], data[at-2], last)
	switch {
	case end == len(data), strings.IndexByte(intros, data[end]) >= 0:
		return three || s.first[last]
	case !base64Characters[data[end]]:
		return false
	}
	return s.second.has(0, last, data[end]) || three && s.around.has(data[at-2], last, data[end])
}

// hopeless reports whether no needle may have the line break that begins here. It is quick, and rejects most breaks.
func (s *search) hopeless(at int) bool {
	if at == 0 || !base64Characters[s.data[at-1]] {
		return true
	}
	end := at + 1
	if end < len(s.data) && s.data[at] == '\r' && s.data[end] == '\n' {
		end++
	}
	return end < len(s.data) && base64Characters[s.data[end]] && !s.goesOn(at, end)
}
