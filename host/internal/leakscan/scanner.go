// Package leakscan finds texts, such as credentials, in the answers of servers, in the forms in which servers write what they
// were sent. It stops an answer that has one.
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
// This avoids a list of the escaping rules of each program. It does not find a text in another case or in yet another
// character set, in pieces, compressed, encrypted, or encoded twice, as in Base64 of Base64. Nor does it know escapes that only
// CSS, MIME's quoted-printable or other notations have, a backslash before a letter that needs none, and other names of HTML.
package leakscan

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

// MinText is the least length of a text that is looked for, in bytes. Shorter ones are there by chance.
const MinText = 8

// Scanner finds texts. It is safe for concurrent use. A nil Scanner finds nothing.
//
// What has no escape near its beginning is found as Wu and Manber do it ("A fast algorithm for multi-pattern searching",
// 1994): three bytes at a time are looked at, and a table says how far the next three are that can matter. What has one is
// found from its first escape on, so that text without any costs little more than the search for a few bytes.
//
// The texts are sorted, so that all those that begin alike stand together and are followed together.
//
// How much work that can be is limited (see budget).
type Scanner struct {
	patterns []pattern // forms of the texts, without escapes, sorted
	window   int       // how many bytes of each pattern shifts has: as many as the shortest has, or maxWindow
	shifts   []uint8   // of three bytes: how far the end of a window is at least
	unused   int       // bits of a hash, beyond the place in shifts

	// What is known of the patterns, to reject most places at once.
	introducers       string     // the bytes that escapes begin with
	isIntroducer      [256]bool  // the same
	escapeSecondBytes [256]kinds // of each byte: the escapes that have it as their second, and may stand for a byte of a pattern
	firstBytes        [256]span  // of each byte: the patterns that begin with it
	bigrams           bloom      // their first two, behind a zero
	trigrams          bloom      // their first three
}

type pattern struct {
	text   string
	base64 bool // may have line breaks in it
}

// span are patterns that stand together.
type span struct{ lo, hi int32 }

func (s span) any() bool { return s.lo < s.hi }

const (
	minShifts = 1 << 12
	maxWindow = 32
)

// New makes a scanner of texts. It is nil when none has MinText bytes.
func New(texts []string) *Scanner {
	sc := &Scanner{introducers: introducers, window: maxWindow}
	for _, text := range distinct(texts) {
		sc.patterns = append(sc.patterns, forms(text)...)
	}
	if len(sc.patterns) == 0 {
		return nil
	}
	slices.SortFunc(sc.patterns, func(a, b pattern) int { return strings.Compare(a.text, b.text) })
	for _, pattern := range sc.patterns {
		sc.window = min(sc.window, len(pattern.text))
	}
	size := minShifts
	for size < 8*sc.window*len(sc.patterns) {
		size *= 2
	}
	sc.bigrams, sc.trigrams = make(bloom, size/64), make(bloom, size/64) // of which few are set
	sc.unused = 32 - bits.TrailingZeros(uint(size))
	sc.shifts = bytes.Repeat([]byte{uint8(sc.window - 2)}, size)
	var has [256]bool
	for n, pattern := range sc.patterns {
		sc.addPattern(pattern.text, &has)
		if first := &sc.firstBytes[pattern.text[0]]; first.any() {
			first.hi++
		} else {
			*first = span{int32(n), int32(n) + 1}
		}
	}
	if has[' '] {
		sc.introducers += "+"
	}
	for i := range len(sc.introducers) {
		sc.isIntroducer[sc.introducers[i]] = true
	}
	sc.escapeSecondBytes = secondBytes(&has)
	return sc
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
func forms(text string) []pattern {
	all := append(make([]pattern, 0, 10), pattern{text, false})
	if !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		all = append(all, pattern{strings.Join(strings.Split(text, ""), "\x00"), false}) // in UTF-16, of either order
	}
	padded := append(make([]byte, 3, 3+len(text)), text...)
	for before := range 3 { // bytes that stand before the text, modulo three
		part := padded[3-before:]
		// Only the characters that hold nothing of what stands before or behind the text.
		standard := base64.RawStdEncoding.EncodeToString(part)[(before*8+5)/6 : len(part)*8/6]
		all = append(all, pattern{standard, true})
		if strings.ContainsAny(standard, "+/") {
			all = append(all, pattern{strings.NewReplacer("+", "-", "/", "_").Replace(standard), true})
		}
	}
	lower := hex.EncodeToString([]byte(text))
	all = append(all, pattern{lower, false})
	if upper := strings.ToUpper(lower); upper != lower {
		all = append(all, pattern{upper, false})
	}
	return all
}

// addPattern enters a pattern into the tables, and its bytes into has.
func (sc *Scanner) addPattern(pattern string, has *[256]bool) {
	for i := 2; i < sc.window; i++ {
		shift := &sc.shifts[sc.place(pattern[i-2], pattern[i-1], pattern[i])]
		*shift = min(*shift, uint8(sc.window-1-i))
	}
	sc.bigrams.add(0, pattern[0], pattern[1])
	sc.trigrams.add(pattern[0], pattern[1], pattern[2])
	for i := range len(pattern) {
		has[pattern[i]] = true
	}
}

// place hashes three bytes to an index into shifts.
func (sc *Scanner) place(x, y, z byte) uint32 {
	return (uint32(x)<<16 | uint32(y)<<8 | uint32(z)) * 2654435761 >> sc.unused
}

// alphanumeric has the letters and digits.
var alphanumeric = func() (set [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" {
		set[c] = true
	}
	return set
}()

// bloom is a Bloom filter of three bytes: it may have more than was put in.
type bloom []uint64

func (s bloom) add(x, y, z byte) {
	at := s.place(x, y, z)
	s[at/64] |= 1 << (at % 64)
}

func (s bloom) has(x, y, z byte) bool {
	at := s.place(x, y, z)
	return s[at/64]>>(at%64)&1 != 0
}

func (s bloom) place(x, y, z byte) int {
	return int((uint32(x)<<16|uint32(y)<<8|uint32(z))*2654435761>>8) & (64*len(s) - 1)
}

// Size returns the approximate memory that the scanner takes, in bytes.
func (sc *Scanner) Size() int {
	size := int(unsafe.Sizeof(*sc)) + len(sc.shifts) + 8*len(sc.bigrams) + 8*len(sc.trigrams)
	for _, pattern := range sc.patterns {
		size += len(pattern.text) + int(unsafe.Sizeof(pattern))
	}
	return size
}

// Holds reports whether one of the texts is in a text, in any form.
func (sc *Scanner) Holds(text string) bool { return len(text) >= MinText && sc.Found([]byte(text)) }

// Found reports whether one of the texts is in data, in any form.
func (sc *Scanner) Found(data []byte) bool {
	if sc == nil {
		return false
	}
	left := budget(savings + earned*len(data))
	found, _ := sc.scan(data, 0, true, &left)
	return found
}

// HoldsFolded is Holds for a text without escapes whose letters may be in another case, as net/http has names of headers.
func (sc *Scanner) HoldsFolded(text string) bool {
	if sc == nil || len(text) < sc.window {
		return false
	}
	text = strings.ToLower(text)
	return slices.ContainsFunc(sc.patterns, func(n pattern) bool {
		return len(n.text) <= len(text) && strings.Contains(text, strings.ToLower(n.text))
	})
}
