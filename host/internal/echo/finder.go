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
	"slices"
	"strings"
	"unicode/utf8"
)

// MinText is how many bytes a text has at least that is looked for. Shorter ones are there by chance.
const MinText = 8

// Finder finds texts. It is safe for concurrent use. A nil Finder finds nothing.
//
// What has no escape in it is found as Wu and Manber do it ("A fast algorithm for multi-pattern searching", 1994): two
// bytes at a time are looked at, and a table says how far the next two are that can matter. What has escapes is found
// from the first of them on, so that text without any costs no more than the search for three bytes.
type Finder struct {
	needles []needle // forms of the texts, without escapes; none is part of another text's
	window  int      // how many bytes of each needle shifts has: as many as the shortest has, or maxWindow
	shifts  [shifts]uint8

	// What is known of the needles, to reject most escapes at once.
	intros string     // the bytes that escapes begin with
	worth  [256]kinds // of each byte: the escapes that have it as their second, and may stand for a byte of a needle
	first  [256]bool  // the bytes that needles begin with
	second bits       // their first two
	later  bits       // each byte but letters and digits with the two before it
	around bits       // in Base64, each byte with the two before it: what stands around a line break
}

type needle struct {
	text   string
	base64 bool // may have line breaks in it
}

const (
	shifts    = 1 << 12
	maxWindow = 64
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
	characters := 0 // of Base64
	for _, needle := range f.needles {
		f.window = min(f.window, len(needle.text))
		if needle.base64 {
			characters += len(needle.text)
		}
	}
	f.second, f.later, f.around = newBits(0), newBits(0), newBits(characters)
	for i := range f.shifts {
		f.shifts[i] = uint8(f.window - 1)
	}
	var has [256]bool
	for _, needle := range f.needles {
		f.note(needle, &has)
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
func (f *Finder) note(n needle, has *[256]bool) {
	needle := n.text
	for i := 1; i < f.window; i++ {
		shift := &f.shifts[pair(needle[i-1], needle[i])]
		*shift = min(*shift, uint8(f.window-1-i))
	}
	f.first[needle[0]] = true
	f.second.set(0, needle[0], needle[1])
	for i := range len(needle) {
		has[needle[i]] = true
		if i > 1 && !alphanumeric[needle[i]] {
			f.later.set(needle[i-2], needle[i-1], needle[i])
		}
		if i > 1 && n.base64 {
			f.around.set(needle[i-2], needle[i-1], needle[i])
		}
	}
	if strings.Contains(needle, " ") && !strings.Contains(f.intros, "+") {
		f.intros += "+"
	}
}

// pair is where the table has two bytes: most pairs of ASCII have a place of their own.
func pair(a, b byte) uint32 { return (uint32(a)<<5 ^ uint32(b)) % shifts }

// alphanumeric has the letters and digits.
var alphanumeric = func() (set [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" {
		set[c] = true
	}
	return set
}()

// bits is a set of three bytes. It may have more than was put in.
type bits []uint64

// newBits makes a set that seldom has more than so many elements that are put in.
func newBits(elements int) bits {
	size := 1 << 13
	for size < 4*elements && size < 1<<maxPlace {
		size *= 2
	}
	return make(bits, size/64)
}

const maxPlace = 17 // bits

func (b bits) set(x, y, z byte) {
	at := b.place(x, y, z)
	b[at/64] |= 1 << (at % 64)
}

func (b bits) has(x, y, z byte) bool {
	at := b.place(x, y, z)
	return b[at/64]>>(at%64)&1 != 0
}

func (b bits) place(x, y, z byte) uint32 {
	return (uint32(x)<<16 | uint32(y)<<8 | uint32(z)) * 2654435761 >> (32 - maxPlace) & uint32(len(b)*64-1)
}

// Size is how many bytes the finder takes, about.
func (f *Finder) Size() int {
	size := shifts + 8*(len(f.second)+len(f.later)+len(f.around)) + 2*256
	for _, needle := range f.needles {
		size += len(needle.text) + 24
	}
	return size
}

// Holds reports whether a text holds what the finder finds.
func (f *Finder) Holds(text string) bool { return len(text) >= MinText && f.Found([]byte(text)) }

// Found is Holds of data. It is true also of data that takes too long to search.
func (f *Finder) Found(data []byte) bool {
	if f == nil {
		return false
	}
	effort := effortFor(len(data))
	found, _ := f.scan(data, 0, true, &effort)
	return found || effort < 0
}

// How much a search may take, in steps: a comparison, or a character that is followed. Texts seldom take one for a byte. But a
// text that repeats itself, in data that repeats it with escapes, takes as many for each byte as it is long.
const (
	stepsPerByte = 16
	stepsAtLeast = 1 << 20
)

func effortFor(bytes int) int { return stepsAtLeast + stepsPerByte*bytes }

// HoldsFolded is Holds for a text without escapes whose letters may be in another case, as net/http has names of headers.
func (f *Finder) HoldsFolded(text string) bool {
	for i := range f.needles {
		needle := f.needles[i].text
		for at := 0; at+len(needle) <= len(text); at++ {
			if strings.EqualFold(text[at:at+len(needle)], needle) {
				return true
			}
		}
	}
	return false
}

// search is the search of some data.
type search struct {
	*Finder
	data []byte
	line int // bytes without white space that stand before the data, up to minLine
	x    escape

	effort *int // the steps that are left; below 0, the search ends
}

// scan searches the data, and returns how many bytes at its beginning are part of nothing that can still be found when
// more data comes. last reports that none comes. line is how many bytes without white space stand before the data, up to
// minLine. The effort is taken from; when it ends below 0, not all was searched.
func (f *Finder) scan(data []byte, line int, last bool, effort *int) (found bool, safe int) {
	s := search{Finder: f, data: data, line: line, effort: effort}
	s.x.last = last
	found, safe = s.plain()
	for i := 0; i < len(f.intros) && !found; i++ {
		for at := -1; !found && *effort >= 0; {
			next := bytes.IndexByte(data[at+1:], f.intros[i])
			if next < 0 {
				break
			}
			at += 1 + next
			if at+1 < len(data) && f.worth[data[at+1]]&(1<<i) == 0 {
				continue
			}
			if kinds(1<<i)&(feeds|returns) != 0 && s.hopeless(at) {
				continue
			}
			var start int
			found, start = s.escaped(at)
			safe = min(safe, start)
		}
	}
	return found, safe
}

// plain is scan for what has no escapes.
func (s *search) plain() (found bool, safe int) {
	f, data := s.Finder, s.data
	safe = len(data)
	last := f.window - 1 // of the window
	for last < len(data) && *s.effort >= 0 {
		if shift := f.shifts[pair(data[last-1], data[last])]; shift > 0 {
			last += int(shift)
			continue
		}
		start := last - f.window + 1
		found, begun := s.begins(data[start:])
		if found {
			return true, 0
		}
		if begun {
			safe = min(safe, start)
		}
		last++
	}
	for start := max(0, last-f.window+1); start < safe; start++ { // where no window fits any more
		if !f.first[data[start]] {
			continue
		}
		if _, begun := s.begins(data[start:]); begun {
			safe = start
		}
	}
	return false, safe
}

// begins reports whether the data begins with a needle, or is the beginning of one.
func (s *search) begins(data []byte) (found, begun bool) {
	for n := range s.needles {
		needle := s.needles[n].text
		if needle[0] != data[0] {
			continue
		}
		if len(needle) > maxWindow && len(data) > maxWindow && needle[:maxWindow] == string(data[:maxWindow]) {
			*s.effort -= len(needle) / maxWindow // a step compares as many at once
		}
		switch {
		case len(data) < len(needle):
			begun = begun || needle[:len(data)] == string(data)
		case needle == string(data[:len(needle)]):
			return true, true
		}
	}
	return false, begun
}
