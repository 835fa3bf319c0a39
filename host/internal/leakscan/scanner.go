// Package leakscan finds texts, such as credentials, in the answers of servers that repeat what they were sent. It
// stops an answer that holds such a text.
//
// The comment of host.Connector.GuardedTransport lists the forms in which it finds a text, and those in which it does not. In each form,
// each character may be escaped or not, independently of the others, so the package needs no list of each program's escaping rules.
//
// Characters of Base64 that also hold bits of other data, before or behind the text, are not part of the match.
package leakscan

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"math/bits"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/net/http/httpguts"
)

// MinText is the least length in bytes of a text to search for. Shorter texts occur by chance.
const MinText = 8

// Scanner finds texts. It is safe for concurrent use. A nil Scanner finds nothing.
//
// A match without an escape near its beginning is found by Wu and Manber's algorithm ("A fast algorithm for multi-pattern searching",
// 1994): the scanner looks up three bytes in a table, which says how far it may skip. Any other match is found from its first escape on, so
// data without escapes costs little more than a search for a few bytes.
//
// The patterns are sorted, so patterns with a common beginning are adjacent and are followed together.
//
// The number of steps of a search is limited (see budget).
type Scanner struct {
	// patterns are the forms of the texts without escapes, sorted.
	patterns []pattern
	// window is the number of bytes of each pattern that shifts covers: the length of the shortest pattern, at most maxWindow.
	window int
	// shifts has, by the hash of three bytes, how far the end of the next possible window is at least.
	shifts []uint8
	// unused is the number of bits of a hash beyond an index of shifts.
	unused int

	// The fields below reject most of the data without following a pattern.

	// introducers are the bytes that escapes begin with, and isIntroducer is the set of them.
	introducers  string
	isIntroducer [256]bool
	// escapeSecondBytes has, for each byte, the kinds of escapes that may have it as their second byte and stand for a byte of a pattern.
	escapeSecondBytes [256]kinds
	// firstBytes has, for each byte, the patterns that begin with it.
	firstBytes [256]span
	// bigrams has the first two bytes of each pattern, behind a zero, and trigrams the first three.
	bigrams, trigrams bloom
}

// pattern is a form of a text. Only Base64 may have line breaks in it.
type pattern struct {
	text   string
	base64 bool
}

// span is the range of patterns from lo up to hi.
type span struct{ lo, hi int32 }

func (s span) any() bool { return s.lo < s.hi }

const (
	minShifts = 1 << 12
	maxWindow = 32
)

// New returns a scanner of the texts that have at least MinText bytes. It returns nil if there are none.
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
	sc.bigrams, sc.trigrams = make(bloom, size/64), make(bloom, size/64) // few of the bits are set
	sc.unused = 32 - bits.TrailingZeros(uint(size))
	sc.shifts = bytes.Repeat([]byte{uint8(sc.window - 2)}, size)
	var first [256]bool
	for n, pattern := range sc.patterns {
		sc.addPattern(pattern.text, &first)
		if first := &sc.firstBytes[pattern.text[0]]; first.any() {
			first.hi++
		} else {
			*first = span{int32(n), int32(n) + 1}
		}
	}
	if first[' '] {
		sc.introducers += "+"
	}
	for i := range len(sc.introducers) {
		sc.isIntroducer[sc.introducers[i]] = true
	}
	sc.escapeSecondBytes = secondBytes(&first)
	return sc
}

// distinct drops texts that are too short, and texts that contain another one, which is found in all their forms.
func distinct(texts []string) (unique []string) {
	texts = slices.Clone(texts)
	slices.SortStableFunc(texts, func(a, b string) int { return len(a) - len(b) })
	for _, text := range texts {
		if len(text) >= MinText && !slices.ContainsFunc(unique, func(part string) bool { return strings.Contains(text, part) }) {
			unique = append(unique, text)
		}
	}
	return unique
}

func forms(text string) []pattern {
	all := append(make([]pattern, 0, 10), pattern{text, false})
	if !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		all = append(all, pattern{strings.Join(strings.Split(text, ""), "\x00"), false}) // UTF-16 in either byte order
	}
	padded := append(make([]byte, 3, 3+len(text)), text...)
	for prefix := range 3 { // number of bytes before the text, modulo three
		part := padded[3-prefix:]
		// Only the characters that hold no bits of data before or behind the text.
		standard := base64.RawStdEncoding.EncodeToString(part)[(prefix*8+5)/6 : len(part)*8/6]
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

// addPattern adds a pattern to the tables, and its bytes to first.
func (sc *Scanner) addPattern(pattern string, first *[256]bool) {
	for i := 2; i < sc.window; i++ {
		shift := &sc.shifts[sc.place(pattern[i-2], pattern[i-1], pattern[i])]
		*shift = min(*shift, uint8(sc.window-1-i))
	}
	sc.bigrams.add(0, pattern[0], pattern[1])
	sc.trigrams.add(pattern[0], pattern[1], pattern[2])
	for i := range len(pattern) {
		first[pattern[i]] = true
	}
}

// place hashes three bytes to an index into shifts.
func (sc *Scanner) place(x, y, z byte) uint32 {
	return (uint32(x)<<16 | uint32(y)<<8 | uint32(z)) * 2654435761 >> sc.unused
}

// bloom is a Bloom filter of three-byte sequences.
type bloom []uint64

func (s bloom) add(x, y, z byte) {
	pos := s.place(x, y, z)
	s[pos/64] |= 1 << (pos % 64)
}

func (s bloom) contains(x, y, z byte) bool {
	pos := s.place(x, y, z)
	return s[pos/64]>>(pos%64)&1 != 0
}

// place hashes three bytes to the index of a bit.
func (s bloom) place(x, y, z byte) int {
	return int((uint32(x)<<16|uint32(y)<<8|uint32(z))*2654435761>>8) & (64*len(s) - 1)
}

// Size returns the approximate size of the scanner in bytes.
func (sc *Scanner) Size() int {
	size := int(unsafe.Sizeof(*sc)) + len(sc.shifts) + 8*len(sc.bigrams) + 8*len(sc.trigrams)
	for _, pattern := range sc.patterns {
		size += len(pattern.text) + int(unsafe.Sizeof(pattern))
	}
	return size
}

// Holds reports whether text holds one of the scanner's texts in any form.
func (sc *Scanner) Holds(text string) bool { return len(text) >= MinText && sc.Found([]byte(text)) }

// Found reports whether data holds one of the scanner's texts in any form. It also does if the search takes too long.
func (sc *Scanner) Found(data []byte) bool {
	if sc == nil {
		return false
	}
	effort := budget(savings + earned*len(data))
	found, _ := sc.scan(data, 0, true, &effort)
	return found
}

// HoldsFolded reports whether text holds one of the scanner's texts in a form without escapes, regardless of case. It
// is for names of header fields, whose case net/http changes.
func (sc *Scanner) HoldsFolded(text string) bool {
	if sc == nil || len(text) < sc.window {
		return false
	}
	text = strings.ToLower(text)
	return slices.ContainsFunc(sc.patterns, func(n pattern) bool {
		return len(n.text) <= len(text) && strings.Contains(text, strings.ToLower(n.text))
	})
}

// Decoded returns texts and the texts that an API may read when it decodes them: from percent-encoding, Base64 or hex,
// and the password of user:password. A server that quotes a credential may quote it decoded.
func Decoded(texts []string) []string {
	const maxDecodings = 3 // the maximum number of nested encodings that Decoded undoes. It also bounds the work
	all := slices.Clone(texts)
	begin := 0
	for range maxDecodings {
		end := len(all)
		for _, text := range all[begin:end] {
			for _, decoded := range decodings(text) {
				if !slices.Contains(all, decoded) {
					all = append(all, decoded)
				}
			}
		}
		begin = end
	}
	return all
}

func decodings(text string) (all []string) {
	if strings.Contains(text, "%") {
		for _, decode := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
			if decoded, err := decode(text); err == nil {
				all = append(all, decoded)
			}
		}
	}
	packed, ok := basic(text)
	if !ok || !IsText(packed) {
		decoded, err := hex.DecodeString(text)
		if packed = string(decoded); err != nil || !IsText(packed) {
			return all
		}
	}
	all = append(all, packed)
	if _, password, found := strings.Cut(packed, ":"); found {
		all = append(all, password)
	}
	return all
}

// IsText reports whether text is UTF-8 without control characters. If a decoded text is not, it was not encoded at
// all, or is a binary key, which no server quotes.
func IsText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// basic decodes Base64, as in the credentials of Basic (RFC 7617 section 2), in the standard or the URL alphabet.
func basic(text string) (pair string, ok bool) {
	text = strings.TrimRight(text, "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if decoded, err := encoding.DecodeString(text); err == nil {
			return string(decoded), true
		}
	}
	return "", false
}

// Parts returns value, the value of a header with a credential, and the parts of it that are credentials by themselves: the text after an
// authentication scheme (RFC 9110 section 11.4), and for Basic the user and password, and the password (RFC 7617).
func Parts(value string) []string {
	all := []string{value}
	scheme, rest, found := strings.Cut(strings.TrimSpace(value), " ")
	if !found || !httpguts.ValidHeaderFieldName(scheme) {
		return all
	}
	rest = strings.TrimSpace(rest)
	all = append(all, rest)
	if strings.EqualFold(scheme, "Basic") {
		if pair, ok := basic(rest); ok {
			_, password, _ := strings.Cut(pair, ":")
			all = append(all, pair, password)
		}
	}
	return all
}
