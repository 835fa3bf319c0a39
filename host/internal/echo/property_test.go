package echo

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// reference finds the same by regular expressions, which say for each character what may stand for it.
type reference []*regexp.Regexp

func newReference(texts []string) (r reference) {
	for _, text := range texts {
		for _, form := range encodings(text) {
			var expression strings.Builder
			for i := range len(form) {
				expression.WriteString(waysOf(form[i]))
			}
			r = append(r, regexp.MustCompile(expression.String()))
		}
	}
	return r
}

// encodings are as the package comment has them, made in another way than the package does.
func encodings(text string) []string {
	all := []string{text, hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text)))}
	for before := range 3 {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			// What is the same whatever stands around it.
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

func waysOf(c byte) string {
	ways := []string{
		regexp.QuoteMeta(string(c)),
		fmt.Sprintf(`%%(?:25){0,3}(?i:%02x)`, c),
		fmt.Sprintf(`\\{1,7}u(?i:%04x)`, c),
		fmt.Sprintf(`\\{1,7}x(?i:%02x)`, c),
	}
	for zeros := range 6 {
		ways = append(ways, fmt.Sprintf(`&(?:amp;){0,3}#%s%d;`, strings.Repeat("0", zeros), c), fmt.Sprintf(`&(?:amp;){0,3}#[xX]%s(?i:%x);`, strings.Repeat("0", zeros), c))
	}
	for _, known := range []struct {
		c   byte
		way string
	}{
		{' ', `\+`},
		{' ', `%(?:25){0,3}2[bB]`},
		{'"', `\\{1,7}"`},
		{'\'', `\\{1,7}'`},
		{'/', `\\{1,7}/`},
		{'\n', `\\{1,7}n`},
		{'\\', `\\{2}`},
		{'\\', `\\{4}`},
		{'&', `&(?:amp;){1,4}`},
		{'<', `&(?:amp;){0,3}lt;`},
		{'>', `&(?:amp;){0,3}gt;`},
		{'"', `&(?:amp;){0,3}quot;`},
		{'\'', `&(?:amp;){0,3}apos;`},
	} {
		if known.c == c {
			ways = append(ways, known.way)
		}
	}
	return "(?:" + strings.Join(ways, "|") + ")"
}

// first gives where the first of what is to be found begins, or -1.
func (r reference) first(body string) int {
	first := -1
	for _, expression := range r {
		if at := expression.FindStringIndex(body); at != nil && (first < 0 || at[0] < first) {
			first = at[0]
		}
	}
	return first
}

// write gives a text with each character written in some way.
func write(t *rapid.T, text string) string {
	var b strings.Builder
	escapes := rapid.IntRange(0, 10).Draw(t, "how much is escaped")
	upper := rapid.Bool().Draw(t, "upper case")
	hexadecimal := func(format string, c byte) string {
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
		switch kind := rapid.IntRange(0, 6).Draw(t, "kind"); {
		case kind == 0:
			b.WriteString("%" + strings.Repeat("25", deep) + hexadecimal("%02x", c))
		case kind == 1:
			b.WriteString(slashes + "u" + hexadecimal("%04x", c))
		case kind == 2:
			b.WriteString(slashes + "x" + hexadecimal("%02x", c))
		case kind == 3:
			b.WriteString("&" + strings.Repeat("amp;", deep) + fmt.Sprintf("#%0*d;", 1+2*deep, c))
		case kind == 4 && c == '&':
			b.WriteString("&amp;" + strings.Repeat("amp;", deep))
		case kind == 4 && c == '\\':
			b.WriteString(strings.Repeat(`\\`, 1+deep%2))
		case kind == 4 && strings.IndexByte(`"'/`, c) >= 0:
			b.WriteString(slashes + string(c))
		case kind == 4 && c == ' ':
			b.WriteByte('+')
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// odd has what escapes are made of, so that some texts look like escapes of others.
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
			all := encodings(rapid.SampledFrom(texts).Draw(t, "of"))
			whole := write(t, rapid.SampledFrom(all).Draw(t, "form"))
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

// chunks gives its texts, each in a Read of its own.
type chunks struct {
	rest     []string
	withLast bool // the end comes with the last bytes
	end      error
	closed   int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, c.end
	}
	n := copy(p, c.rest[0])
	if c.rest[0] = c.rest[0][n:]; c.rest[0] == "" {
		c.rest = c.rest[1:]
	}
	if len(c.rest) == 0 && c.withLast {
		return n, c.end
	}
	return n, nil
}

func (c *chunks) Close() error {
	c.closed++
	return nil
}

// readAll reads with buffers of some size, and looks at what is left in them.
func readAll(t interface{ Errorf(string, ...any) }, r io.Reader, size int) (string, error) {
	var got strings.Builder
	for {
		p := make([]byte, size)
		n, err := r.Read(p)
		got.Write(p[:n])
		if strings.Trim(string(p[n:]), "\x00") != "" {
			t.Errorf("the buffer holds %q beyond what was given", p[n:])
		}
		if err != nil {
			return got.String(), err
		}
	}
}

func same(err error) error { return err }

// threats.md 45: any body that holds a text in some form fails, and gives no byte of it, wherever it is cut; any other
// one passes as it is.
func TestBodiesThatHoldATextAreStopped_threats_45(t *testing.T) {
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
		first := newReference(texts).first(body)
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
