// Package echo finds texts in what a server answers, in the forms in which servers write what they were sent, and stops
// an answer that has one.
//
// A text is found as it is; in UTF-16, when it is ASCII; in Base64, with the standard or the URL alphabet, also inside
// the Base64 of something longer; and in hex. In each of these every character may be as it is or escaped, each for
// itself:
//
//   - as in URLs and forms: %2F or %2f, or + for a space; encoded up to four times over (%252F);
//   - as in JSON, JavaScript and the like: \u002f or \u002F, \u{2f}, \x2f, \57, \n and so on, and a backslash before a
//     mark, with up to seven backslashes, which is JSON inside of JSON inside of JSON;
//   - as in HTML: &#47;, &#x2f;, &amp; and its like, as browsers read them also without the semicolon, up to four times
//     over (&amp;#47;).
//
// Base64 may also be broken into lines of 32 characters or more: by LF, CRLF or CR, with white space behind them, each of
// these escaped or not.
//
// Characters of Base64 that also hold bits of what stands before or behind the text are not part of what is found.
//
// No list of what each program escapes is needed so. Not found is a text in another case or yet another character set,
// in pieces, compressed, encrypted, or encoded twice, as in Base64 of Base64. Nor are escapes that only CSS, MIME's
// quoted-printable or other notations have, a backslash before a letter that needs none, and other names of HTML.
package echo

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// MinText is how many bytes a text has at least that is looked for. Shorter ones are there by chance.
const MinText = 8

// Finder finds texts. It is safe for concurrent use. A nil Finder finds nothing.
//
// What has no escape near its beginning is found as Wu and Manber do it ("A fast algorithm for multi-pattern searching",
// 1994): three bytes at a time are looked at, and a table says how far the next three are that can matter. What has one is
// found from its first escape on, so that text without any costs little more than the search for a few bytes.
//
// The texts are sorted, so that all those that begin alike stand together and are followed together.
//
// How much work that can be is limited (see budget).
type Finder struct {
	needles []needle // forms of the texts, without escapes, sorted
	window  int      // how many bytes of each needle shifts has: as many as the shortest has, or maxWindow
	shifts  []uint8  // of three bytes: how far the end of a window is at least
	unused  int      // bits of a hash, beyond the place in shifts

	// What is known of the needles, to reject most places at once.
	intros  string     // the bytes that escapes begin with
	intro   [256]bool  // the same
	worth   [256]kinds // of each byte: the escapes that have it as their second, and may stand for a byte of a needle
	first   [256]span  // of each byte: the needles that begin with it
	pairs   set        // their first two, behind a zero
	triples set        // their first three
}

type needle struct {
	text   string
	base64 bool // may have line breaks in it
}

// span are needles that stand together.
type span struct{ lo, hi int32 }

func (s span) any() bool { return s.lo < s.hi }

const (
	minShifts = 1 << 12
	maxWindow = 32
)

// New makes a finder of texts. It is nil when none has MinText bytes.
func New(texts []string) *Finder {
	f := &Finder{intros: intros, window: maxWindow}
	for _, text := range distinct(texts) {
		f.needles = append(f.needles, forms(text)...)
	}
	if len(f.needles) == 0 {
		return nil
	}
	slices.SortFunc(f.needles, func(a, b needle) int { return strings.Compare(a.text, b.text) })
	for _, needle := range f.needles {
		f.window = min(f.window, len(needle.text))
	}
	size := minShifts
	for size < 8*f.window*len(f.needles) {
		size *= 2
	}
	f.pairs, f.triples = make(set, size/64), make(set, size/64) // of which few are set
	f.unused = 32 - bits.TrailingZeros(uint(size))
	f.shifts = bytes.Repeat([]byte{uint8(f.window - 2)}, size)
	var has [256]bool
	for n, needle := range f.needles {
		f.note(needle.text, &has)
		if first := &f.first[needle.text[0]]; first.any() {
			first.hi++
		} else {
			*first = span{int32(n), int32(n) + 1}
		}
	}
	if has[' '] {
		f.intros += "+"
	}
	for i := range len(f.intros) {
		f.intro[f.intros[i]] = true
	}
	f.worth = worthwhile(&has)
	return f
}

// distinct drops the texts that are too short, and those that hold another one: that is found in all their forms.
func distinct(texts []string) (kept []string) {
	texts = slices.Clone(texts)
	slices.SortStableFunc(texts, func(a, b string) int { return len(a) - len(b) })
	for _, text := range texts {
		if len(text) >= MinText && !slices.ContainsFunc(kept, func(part string) bool { return strings.Contains(text, part) }) {
			kept = append(kept, text)
		}
	}
	return kept
}

// forms are a text and its encodings.
func forms(text string) []needle {
	all := append(make([]needle, 0, 10), needle{text, false})
	if !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		all = append(all, needle{strings.Join(strings.Split(text, ""), "\x00"), false}) // in UTF-16, of either order
	}
	padded := append(make([]byte, 3, 3+len(text)), text...)
	for before := range 3 { // bytes that stand before the text, modulo three
		part := padded[3-before:]
		// Only the characters that hold nothing of what stands before or behind the text.
		standard := base64.RawStdEncoding.EncodeToString(part)[(before*8+5)/6 : len(part)*8/6]
		all = append(all, needle{standard, true})
		if strings.ContainsAny(standard, "+/") {
			all = append(all, needle{strings.NewReplacer("+", "-", "/", "_").Replace(standard), true})
		}
	}
	lower := hex.EncodeToString([]byte(text))
	all = append(all, needle{lower, false})
	if upper := strings.ToUpper(lower); upper != lower {
		all = append(all, needle{upper, false})
	}
	return all
}

// note enters a needle into the tables, and its bytes into what all have.
func (f *Finder) note(needle string, has *[256]bool) {
	for i := 2; i < f.window; i++ {
		shift := &f.shifts[f.place(needle[i-2], needle[i-1], needle[i])]
		*shift = min(*shift, uint8(f.window-1-i))
	}
	f.pairs.add(0, needle[0], needle[1])
	f.triples.add(needle[0], needle[1], needle[2])
	for i := range len(needle) {
		has[needle[i]] = true
	}
}

// place returns where shifts has three bytes.
func (f *Finder) place(x, y, z byte) uint32 {
	return (uint32(x)<<16 | uint32(y)<<8 | uint32(z)) * 2654435761 >> f.unused
}

// alphanumeric has the letters and digits.
var alphanumeric = func() (set [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" {
		set[c] = true
	}
	return set
}()

// set is a set of three bytes. It may have more than was put in.
type set []uint64

func (s set) add(x, y, z byte) {
	at := s.place(x, y, z)
	s[at/64] |= 1 << (at % 64)
}

func (s set) has(x, y, z byte) bool {
	at := s.place(x, y, z)
	return s[at/64]>>(at%64)&1 != 0
}

func (s set) place(x, y, z byte) int {
	return int((uint32(x)<<16|uint32(y)<<8|uint32(z))*2654435761>>8) & (64*len(s) - 1)
}

// Size is how many bytes the finder takes, about.
func (f *Finder) Size() int {
	size := int(unsafe.Sizeof(*f)) + len(f.shifts) + 8*len(f.pairs) + 8*len(f.triples)
	for _, needle := range f.needles {
		size += len(needle.text) + int(unsafe.Sizeof(needle))
	}
	return size
}

// Holds reports whether a text holds what the finder finds.
func (f *Finder) Holds(text string) bool { return len(text) >= MinText && f.Found([]byte(text)) }

// Found is Holds of data.
func (f *Finder) Found(data []byte) bool {
	if f == nil {
		return false
	}
	left := budget(savings + earned*len(data))
	found, _ := f.scan(data, 0, true, &left)
	return found
}

// HoldsFolded is Holds for a text without escapes whose letters may be in another case, as net/http has names of headers.
func (f *Finder) HoldsFolded(text string) bool {
	if f == nil || len(text) < f.window {
		return false
	}
	text = strings.ToLower(text)
	return slices.ContainsFunc(f.needles, func(n needle) bool {
		return len(n.text) <= len(text) && strings.Contains(text, strings.ToLower(n.text))
	})
}
