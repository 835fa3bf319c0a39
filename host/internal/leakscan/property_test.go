package leakscan

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// reference is a slow scanner: it tries every way to write each character, at every offset.
type reference []form

type form struct {
	text   string
	base64 bool
}

func newReference(texts []string) (r reference) {
	for _, text := range texts {
		for i, encoded := range encodings(text) {
			r = append(r, form{encoded, i >= plainForms})
		}
	}
	return r
}

// plainForms is the number of encodings that are not Base64. They come first.
const plainForms = 4

// encodings returns the forms of an ASCII text in the package comment, computed in another way than in the package.
func encodings(text string) []string {
	var wide []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		wide = binary.BigEndian.AppendUint16(wide, unit)
	}
	inHex := hex.EncodeToString([]byte(text))
	all := []string{text, inHex, strings.ToUpper(inHex), string(wide[1:])} // all but the first byte is in both byte orders
	for before := range 3 {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			// The characters that do not depend on the data around the text.
			around := func(c string) string {
				return encoding.EncodeToString([]byte(strings.Repeat(c, before) + text + strings.Repeat(c, 3)))
			}
			one, other := around("\x00"), around("\xff")
			from := 0
			for one[from] != other[from] {
				from++
			}
			to := from
			for to < len(one) && one[to] == other[to] {
				to++
			}
			all = append(all, one[from:to])
		}
	}
	return all
}

// way is one way to write a character.
type way struct {
	text   string
	fold   bool   // regardless of case
	before string // bytes that may not follow
}

const (
	decimal     = "0123456789"
	hexadecimal = decimal + "abcdefABCDEF"
	octal       = "01234567"
)

// ways holds all ways to write each character.
var ways = func() (ways [256][]way) {
	for i := range ways {
		ways[i] = waysOf(byte(i))
	}
	return ways
}()

func waysOf(c byte) []way {
	all := []way{{text: string(c)}}
	for depth := range 4 {
		percent := "%" + strings.Repeat("25", depth)
		all = append(all, way{percent + fmt.Sprintf("%02x", c), true, ""})
		if c == ' ' {
			all = append(all, way{percent + "2b", true, ""})
		}
		for _, amp := range []string{"amp;", "#38;", "#x26;"} {
			all = append(all, referencesTo(c, "&"+strings.Repeat(amp, depth))...)
			if depth == 0 {
				break
			}
		}
	}
	for n := 1; n <= 7; n++ {
		slashes := strings.Repeat(`\`, n)
		all = append(all, way{slashes + "u" + fmt.Sprintf("%04x", c), true, ""}, way{slashes + "x" + fmt.Sprintf("%02x", c), true, ""})
		for zeros := range maxDigits - len(fmt.Sprintf("%x", c)) + 1 {
			all = append(all, way{slashes + "u{" + strings.Repeat("0", zeros) + fmt.Sprintf("%x", c) + "}", true, ""})
		}
		for digits := len(fmt.Sprintf("%o", c)); digits <= 3; digits++ {
			w := way{text: slashes + fmt.Sprintf("%0*o", digits, c)}
			if first := w.text[n]; digits < 2 || digits < 3 && first <= '3' {
				w.before = octal
			}
			all = append(all, w)
		}
		if i := strings.IndexByte("\b\f\n\r\t\v", c); i >= 0 {
			all = append(all, way{text: slashes + "bfnrtv"[i:i+1]})
		}
		if strings.IndexByte(" !\"#$%&'()*+,-./:;<=>?@[]^_`{|}~", c) >= 0 {
			all = append(all, way{text: slashes + string(c)})
		}
		if c == '\\' && (n == 2 || n == 4) {
			all = append(all, way{text: slashes})
		}
	}
	if c == ' ' {
		all = append(all, way{text: "+"})
	}
	return all
}

// referencesTo returns the references of HTML to c, whose ampersand is written as reference.
func referencesTo(c byte, reference string) (all []way) {
	for _, number := range []struct{ prefix, written, digits string }{{"", fmt.Sprint(c), decimal}, {"x", fmt.Sprintf("%x", c), hexadecimal}} {
		for zeros := range maxDigits - len(number.written) + 1 {
			written := reference + "#" + number.prefix + strings.Repeat("0", zeros) + number.written
			all = append(all, way{written + ";", true, ""}, way{written, true, number.digits + ";"})
		}
	}
	for name, of := range map[string]byte{"amp": '&', "lt": '<', "gt": '>', "quot": '"'} {
		if of == c {
			all = append(all, way{reference + name + ";", false, ""}, way{reference + name, false, ";"})
		}
	}
	if c == '\'' {
		all = append(all, way{reference + "apos;", false, ""})
	}
	return all
}

// taken returns the number of bytes at the beginning of body that are written in that way, or 0.
func (w way) taken(body string) int {
	n := len(w.text)
	switch {
	case len(body) < n, body[0] != w.text[0]:
	case body[:n] != w.text && (!w.fold || !strings.EqualFold(body[:n], w.text)):
	case n < len(body) && strings.IndexByte(w.before, body[n]) >= 0:
	default:
		return n
	}
	return 0
}

// white returns the number of bytes of the character of white space, one of characters, at the beginning of body, or 0.
func white(body, characters string) int {
	for i := range len(characters) {
		for _, w := range ways[characters[i]] {
			if n := w.taken(body); n > 0 && !strings.HasSuffix(w.text, "+") && !strings.HasSuffix(w.text, "2b") {
				return n
			}
		}
	}
	return 0
}

// lineBreak returns the number of bytes of the line break at the beginning of body, or 0.
func lineBreak(body string) int {
	at := white(body, "\r")
	at += white(body[at:], "\n")
	for n := at; n > 0 && at < maxBreak; at += n {
		n = white(body[at:], " \t")
	}
	return at
}

// at reports whether the rest of a form, from character i on, is at this offset of body.
func (f form) at(body string, at, i int, seen map[[2]int]bool) bool {
	switch here := [2]int{at, i}; {
	case i == len(f.text):
		return true
	case at == len(body) || seen[here]:
		return false
	default:
		seen[here] = true
	}
	if c := body[at]; c != f.text[i] && strings.IndexByte("%\\&+\r\n", c) < 0 {
		return false
	}
	for _, w := range ways[f.text[i]] {
		if n := w.taken(body[at:]); n > 0 && f.at(body, at+n, i+1, seen) {
			return true
		}
	}
	if !f.base64 || i == 0 {
		return false
	}
	before := body[max(0, at-minLine):at]
	if len(before) < minLine || strings.ContainsFunc(before, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return false
	}
	n := lineBreak(body[at:])
	return n > 0 && f.at(body, at+n, i, seen)
}

// first returns the offset of the first match, or -1.
func (r reference) first(body string) int {
	for at := range len(body) {
		for _, f := range r {
			if f.at(body, at, 0, map[[2]int]bool{}) {
				return at
			}
		}
	}
	return -1
}

// write returns a text with each character written in a random way.
func write(t *rapid.T, text string) string {
	var b strings.Builder
	escapes := rapid.IntRange(0, 10).Draw(t, "how much is escaped")
	upper := rapid.Bool().Draw(t, "upper case")
	inHex := func(format string, c byte) string {
		if upper {
			return strings.ToUpper(fmt.Sprintf(format, c))
		}
		return fmt.Sprintf(format, c)
	}
	for i := range len(text) {
		c := text[i]
		if rapid.IntRange(0, 9).Draw(t, "escape") >= escapes {
			b.WriteByte(c)
			continue
		}
		deep := rapid.IntRange(0, 3).Draw(t, "depth")
		slashes := strings.Repeat(`\`, rapid.IntRange(1, 7).Draw(t, "backslashes"))
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
		case kind == 0:
			b.WriteString("%" + strings.Repeat("25", deep) + inHex("%02x", c))
		case kind == 1:
			b.WriteString(slashes + "u" + inHex("%04x", c))
		case kind == 2:
			b.WriteString(slashes + "x" + inHex("%02x", c))
		case kind == 3:
			amp := rapid.SampledFrom([]string{"amp;", "#38;", "#x26;"}).Draw(t, "ampersand")
			b.WriteString("&" + strings.Repeat(amp, deep) + fmt.Sprintf("#%0*d;", 1+2*deep, c))
		case kind == 7:
			b.WriteString("&" + strings.Repeat("amp;", deep) + rapid.SampledFrom([]string{inHex("#x%x", c), fmt.Sprintf("#%d", c)}).Draw(t, "without a semicolon"))
		case kind == 8:
			b.WriteString(slashes + "u{" + strings.Repeat("0", deep) + inHex("%x", c) + "}")
		case kind == 9:
			b.WriteString(slashes + fmt.Sprintf("%0*o", deep, c))
		case kind == 4 && c == '&':
			b.WriteString("&amp;" + strings.Repeat("amp;", deep))
		case kind == 4 && c == '\\':
			b.WriteString(strings.Repeat(`\\`, 1+deep%2))
		case kind == 4 && strings.IndexByte(`"'/+-_.%`, c) >= 0:
			b.WriteString(slashes + string(c))
		case kind == 4 && c == ' ':
			b.WriteByte('+')
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// odd is an alphabet of the characters of escapes, so that some texts look like escapes of others.
const odd = `ab25%\&"/+ '<u0;#xamp`

func drawText(t *rapid.T) string {
	alphabet := rapid.SampledFrom([]string{odd, odd, "ab", "%25", `\u005c`, "&amp;", "abcdefXYZ0123-_./+=~"}).Draw(t, "alphabet")
	return rapid.StringOfN(rapid.RuneFrom([]rune(alphabet)), MinText, 24, -1).Draw(t, "text")
}

func drawBody(t *rapid.T, texts []string) string {
	var b strings.Builder
	for range rapid.IntRange(0, 6).Draw(t, "pieces") {
		switch rapid.IntRange(0, 3).Draw(t, "piece") {
		case 0:
			b.WriteString(rapid.StringOfN(rapid.RuneFrom([]rune(odd)), 0, 20, -1).Draw(t, "odd"))
		case 1:
			b.WriteString(rapid.StringOfN(rapid.RuneFrom([]rune(`{"a":1, "b":"c d"}`)), 0, 100, -1).Draw(t, "other"))
		default:
			whole := drawForm(t, rapid.SampledFrom(texts).Draw(t, "of"))
			from, to := 0, len(whole)
			if rapid.IntRange(0, 3).Draw(t, "only a part") > 0 {
				from = rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "from")
				to = rapid.IntRange(from, len(whole)).Draw(t, "to")
			}
			b.WriteString(whole[from:to])
		}
	}
	return b.String()
}

// drawForm writes a text in one of its forms. Base64 may have lines.
func drawForm(t *rapid.T, text string) string {
	all := encodings(text)
	n := rapid.IntRange(0, len(all)-1).Draw(t, "form")
	if n < plainForms || rapid.Bool().Draw(t, "one line") {
		return write(t, all[n])
	}
	before := strings.Repeat("A", rapid.IntRange(20, 70).Draw(t, "line"))
	form, width := all[n], rapid.SampledFrom([]int{64, 76, 40}).Draw(t, "width")
	end := rapid.SampledFrom(slices.Sorted(maps.Values(lineBreaks))).Draw(t, "line break")
	var b strings.Builder
	for i, line := range split(before+form, width) {
		if i > 0 {
			b.WriteString(end)
		}
		b.WriteString(write(t, line))
	}
	return b.String()
}

// A body that holds a text in some form fails before the first byte of the match, in whatever chunks it comes. Any other
// body is passed on unchanged. threats.md 45
func TestBodyWithText_threats_45(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		texts := []string{drawText(t)}
		if rapid.Bool().Draw(t, "two") {
			texts = append(texts, drawText(t))
		}
		body := drawBody(t, texts)
		source := &chunks{end: io.EOF, withLast: rapid.Bool().Draw(t, "end with the last bytes")}
		for rest := body; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "chunk")
			source.rest, rest = append(source.rest, rest[:n]), rest[n:]
		}
		size := rapid.SampledFrom([]int{1, 2, 7, 100, 600, 4096}).Draw(t, "buffer")
		got, err := readAll(t, New(texts).Body(source, same), size)
		first := newReference(distinct(texts)).first(body) // of a text within another one, the inner text is found
		if f := New(texts); f.Holds(body) != (first >= 0) {
			t.Fatalf("%q is in %q: %t", texts, body, first < 0)
		}
		if first < 0 {
			if got != body || !errors.Is(err, io.EOF) {
				t.Fatalf("of %q\ncame    %q\nwith %v, and %q is not in it", body, got, err, texts)
			}
			return
		}
		found++
		if !errors.Is(err, ErrFound) || len(got) > first || !strings.HasPrefix(body, got) || source.closed != 1 {
			t.Fatalf("of %q\ncame    %q\nwith %v, closed %d times; %q is at %d", body, got, err, source.closed, texts, first)
		}
	})
	if found == 0 {
		t.Error("no body held a text: the test shows nothing")
	}
}
