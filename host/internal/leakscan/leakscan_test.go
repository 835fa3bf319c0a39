package leakscan

import (
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// secret has characters of each kind that programs escape.
const secret = `s3cr/t+k "<y>&'\p %2F=~`

// written returns the forms in which servers write the secret, by encoding.
func written() map[string]string {
	special := func(_ int, c byte) bool { return !strings.Contains(alphanumeric, string(rune(c))) }
	inJSON := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	ways := map[string]string{
		"plain":                              secret,
		"a query of net/url":                 url.QueryEscape(secret),
		"a path of net/url":                  url.PathEscape(secret),
		"encodeURIComponent":                 strings.NewReplacer("%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*", "+", "%20").Replace(url.QueryEscape(secret)),
		"only what a query cannot have":      strings.NewReplacer(" ", "%20", `"`, "%22", "<", "%3C", ">", "%3E").Replace(secret),
		"everything percent-encoded":         each("%%%02X")(secret),
		"everything, lower case":             each("%%%02x")(secret),
		"a URL in a URL":                     url.QueryEscape(url.QueryEscape(secret)),
		"a URL in a URL in a URL":            url.QueryEscape(url.QueryEscape(url.QueryEscape(secret))),
		"JSON":                               inJSON.Replace(secret),
		"JSON of PHP":                        strings.ReplaceAll(inJSON.Replace(secret), "/", `\/`),
		"JSON of Go":                         strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(inJSON.Replace(secret)),
		"JSON, everything":                   each(`\u%04x`)(secret),
		"JSON, everything, upper case":       each(`\u%04X`)(secret),
		"JSON in JSON":                       inJSON.Replace(inJSON.Replace(secret)),
		"JSON of PHP in JSON of PHP":         strings.ReplaceAll(inJSON.Replace(strings.ReplaceAll(inJSON.Replace(secret), "/", `\/`)), "/", `\/`),
		"JavaScript":                         some(`\x%02x`, special)(secret),
		"a query in JSON of PHP":             strings.ReplaceAll(url.QueryEscape(secret), "/", `\/`),
		"HTML":                               html.EscapeString(secret),
		"HTML in HTML":                       html.EscapeString(html.EscapeString(secret)),
		"HTML, decimal":                      some("&#%d;", special)(secret),
		"HTML, decimal, with zeros":          some("&#%05d;", special)(secret),
		"HTML, hexadecimal":                  each("&#x%x;")(secret),
		"HTML, hexadecimal, upper case":      each("&#X%04X;")(secret),
		"HTML, decimal, without semicolons":  each("&#%d")(secret),
		"HTML, hexadecimal, the same":        each("&#x%x")(secret),
		"HTML, decimal, in the same":         strings.ReplaceAll(each("&#%d;")(secret), "&", "&#38;"),
		"HTML, hexadecimal, in the same":     strings.ReplaceAll(strings.ReplaceAll(some("&#x%x;", special)(secret), "&", "&#x26;"), "&", "&#x26;"),
		"HTML, names in numbers":             strings.ReplaceAll(html.EscapeString(secret), "&", "&#38"),
		"HTML without semicolons":            strings.NewReplacer("&", "&amp", "<", "&lt", ">", "&gt", `"`, "&quot").Replace(secret),
		"JavaScript, braces":                 each(`\u{%x}`)(secret),
		"JavaScript, braces and zeros":       some(`\u{%06X}`, special)(secret),
		"octal":                              each(`\%o`)(secret),
		"octal in JSON":                      some(`\\%03o`, special)(secret),
		"a shell's":                          some(`\%c`, special)(secret),
		"UTF-16, little endian":              each("%c\x00")(secret),
		"UTF-16, big endian":                 each("\x00%c")(secret),
		"UTF-16 in JSON":                     each(`%c\u0000`)(secret),
		"UTF-16 in JavaScript":               each(`%c\x00`)(secret),
		"UTF-16, everything percent-encoded": each("%%%02X%%00")(secret),
		"UTF-16 in HTML":                     each("&#%d;&#0;")(secret),
		"hex":                                fmt.Sprintf("%x", secret),
		"hex, upper case":                    fmt.Sprintf("%X", secret),
		"Base64 with slashes in JSON of PHP": strings.ReplaceAll(base64.StdEncoding.EncodeToString([]byte("??>>"+secret)), "/", `\/`),
		"Base64 in a query":                  url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("id:" + secret))),
	}
	for before := range 4 {
		for after := range 4 {
			longer := []byte(strings.Repeat("\xfb", before) + secret + strings.Repeat("\xff", after))
			for name, encoding := range map[string]*base64.Encoding{"Base64": base64.StdEncoding, "Base64 without =": base64.RawStdEncoding, "base64url": base64.URLEncoding} {
				ways[fmt.Sprintf("%s, %d before and %d behind", name, before, after)] = encoding.EncodeToString(longer)
			}
		}
	}
	return ways
}

// Each form is stopped at every split into two chunks and byte by byte, and no byte of it is passed on. threats.md 45
func TestEachForm_threats_45(t *testing.T) {
	for name, form := range written() {
		t.Run(name, func(t *testing.T) {
			f := New([]string{"another text", secret})
			const before, behind = `{"url": "https://api.test/?q=%7B&k=`, `", "x": 1}`
			body := before + form + behind
			if !f.Holds(body) || !f.Holds(form) {
				t.Fatalf("%s is not found", form)
			}
			for cut := range len(body) + 1 {
				parts := slices.DeleteFunc([]string{body[:cut], body[cut:]}, func(part string) bool { return part == "" })
				expectStopped(t, f, &chunks{rest: parts, end: io.EOF}, before, form)
			}
			expectStopped(t, f, &chunks{rest: strings.Split(body, ""), end: io.EOF}, before, form)
		})
	}
}

// expectStopped checks that a body ends with ErrFound before form. It allows a character of Base64 that form shares
// with the data before it.
func expectStopped(t *testing.T, f *Scanner, source *chunks, before, form string) {
	t.Helper()
	got, err := readAll(t, f.Body(source, same), 4096)
	if rest, longer := strings.CutPrefix(got, before); !errors.Is(err, ErrFound) || longer && !strings.HasPrefix(form, rest) || len(got) > len(before)+14 || source.closed != 1 {
		t.Errorf("%q came with %v, closed %d times", got, err, source.closed)
	} else if longer && rest != "" && !f.Holds(form[len(rest):]) {
		t.Errorf("%q of what is found came", rest)
	}
}

func TestOtherForms(t *testing.T) {
	f := New([]string{secret, "short", "seven77", "aaaaaaaaaaaaab"})
	for name, body := range map[string]string{
		"nothing":                "",
		"all but the last byte":  secret[:len(secret)-1],
		"all but the first byte": secret[1:],
		"too short a text":       "short seven77",
		"other data":             strings.Repeat(`{"a": "b\/c\u00fc &amp; %41"}`, 100),
		"an escape at the end":   `\u00`,
		"many beginnings":        strings.Repeat(secret[:9], 50) + strings.Repeat("a", 500),
		"zeros":                  strings.Repeat("\x00", 1000),
		"no characters":          "\xff\xfe\x80%FF%C3%28\\uD83D\\uFFFF\\uD83D\\u0041&#x110000;&#99999999;&#;",
	} {
		for _, size := range []int{1, 3, 1000} {
			source := &chunks{rest: split(body, size), end: io.EOF}
			if got, err := readAll(t, f.Body(source, same), 600); got != body || !errors.Is(err, io.EOF) {
				t.Errorf("%s in chunks of %d: %q, %v", name, size, got, err)
			}
		}
	}
}

func TestNonASCIITexts(t *testing.T) {
	f := New([]string{"pässwörd€😀"})
	for _, form := range []string{
		"pässwörd€😀", "p%C3%A4ssw%c3%b6rd%E2%82%AC%F0%9F%98%80", `p\u00e4ssw\u00F6rd\u20ac\ud83d\ude00`, "p&#228;ssw&#xf6;rd&#8364;&#128512;",
		`p\u00c3\u00a4ssw\u00c3\u00b6rd\u00e2\u0082\u00ac\u00f0\u009f\u0098\u0080`, // UTF-8 read as Latin-1
	} {
		if !f.Holds("x" + form + "y") {
			t.Errorf("%s is not found", form)
		}
		expectStopped(t, f, &chunks{rest: strings.Split("x"+form, ""), end: io.EOF}, "x", form)
	}
}

// A text that looks like escapes of itself can be read in countless ways. Each state of the search is followed only
// once.
func TestEscapeLookalikes(t *testing.T) {
	for part, times := range map[string]int{"%25": 30, `\`: 8, "&amp;": 20, `\u005c`: 8, "%%": 8} {
		text := strings.Repeat(part, times) + "x"
		f := New([]string{text})
		for _, body := range []string{strings.Repeat(part, 5*times) + "y", strings.Repeat(part, times-1)} {
			if f.Holds(body) {
				t.Errorf("%s is found in %s", text, body)
			}
		}
		if !f.Holds(strings.Repeat(part, 3*times) + "x") {
			t.Errorf("%s is not found", text)
		}
	}
}

func TestFindersOfNothing(t *testing.T) {
	if f := New([]string{"", "1234567"}); f != nil || f.Holds("1234567") {
		t.Error("a text under 8 bytes is looked for")
	}
	if !New([]string{"12345678"}).Holds("12345678") {
		t.Error("a text of 8 bytes is not found")
	}
	if f := New([]string{"Bearer the-token", "the-token", "the-token"}); len(f.patterns) != len(New([]string{"the-token"}).patterns) {
		t.Errorf("what is found in another form anyway is looked for: %v", f.patterns)
	}
}

// At the end of a body, an escape without a terminator is complete. If more data comes, it may stand for another
// character. threats.md 72
func TestEscapesAtTheEnd_threats_72(t *testing.T) {
	for _, last := range []string{"&#110", "&#x6e", `\156`, "&#110;", `\u{6e}`} {
		f := New([]string{"the-token"})
		expectStopped(t, f, &chunks{rest: []string{"is the-toke" + last}, end: io.EOF}, "is ", "the-toke"+last)
		expectStopped(t, f, &chunks{rest: []string{"is the-toke" + last}, end: io.EOF, withLast: true}, "is ", "the-toke"+last)
	}
	for _, parts := range [][]string{{"the-toke&#110", "5;"}, {"the-toke&#x6", "e7"}, {"the-toke&#11", "00"}} {
		source := &chunks{rest: slices.Clone(parts), end: io.EOF}
		if got, err := readAll(t, New([]string{"the-token"}).Body(source, same), 600); got != strings.Join(parts, "") || !errors.Is(err, io.EOF) {
			t.Errorf("of %q came %q, %v", parts, got, err)
		}
	}
}

// A stream is passed on as it comes. Only bytes that may be the beginning of the text are held back.
func TestUndelayedStream(t *testing.T) {
	f := New([]string{"the-token"})
	reader, writer := io.Pipe()
	body := f.Body(reader, same)
	buffer := make([]byte, 1024)
	for _, c := range []struct{ sent, want string }{
		{"data: 1\n\n", "data: 1\n\n"},
		{"data: the", "data: "},
		{"-toka\n\n", "the-toka\n\n"},
		{"all of it: %", "all of it: "},
		{" or not\n", "% or not\n"},
		{`is the-tok\171`, `is the-tok\171`}, // three octal digits are a whole escape
		{"is the&ac", "is the&ac"},           // no reference of HTML begins with &ac
	} {
		go writer.Write([]byte(c.sent))
		n, err := body.Read(buffer)
		if got := string(buffer[:n]); got != c.want || err != nil {
			t.Fatalf("after %q comes %q, %v", c.sent, got, err)
		}
	}
}

// The end of a part looks like the middle of one text, and like the beginning of another up to its last byte. An escape behind it holds
// back nothing but itself.
func TestHeldEscape(t *testing.T) {
	f := New([]string{"the-token", "my he-X-12"})
	body := f.Body(&chunks{rest: []string{"is the-X%", "20"}, end: io.EOF}, same)
	n, err := body.Read(make([]byte, 1024))
	if n != len("is the-X") || err != nil {
		t.Errorf("%d bytes come first, %v", n, err)
	}
}

func TestHeldTextDroppedOnFailure(t *testing.T) {
	failure := errors.New("reset")
	body := New([]string{"the-token"}).Body(&chunks{rest: []string{"is the-tok"}, end: failure}, func(err error) error { return fmt.Errorf("told: %w", err) })
	got, err := readAll(t, body, 1024)
	if got != "is " || !errors.Is(err, failure) || err.Error() != "told: reset" {
		t.Errorf("got = %q, err = %v", got, err)
	}
	if n, again := body.Read(make([]byte, 10)); n != 0 || !errors.Is(again, failure) {
		t.Errorf("then %d bytes, %v", n, again)
	}
}

func TestBodyReader(t *testing.T) {
	f := New([]string{"the-token"})
	source := &chunks{rest: []string{"", "abc", "", "", "def"}, end: io.EOF}
	body := f.Body(source, same)
	if n, err := body.Read(nil); n != 0 || err != nil || len(source.rest) != 5 {
		t.Errorf("reading nothing results in %d, %v", n, err)
	}
	if _, ok := body.(io.WriterTo); ok {
		t.Error("there is a way past Read")
	}
	got, err := io.ReadAll(body)
	if string(got) != "abcdef" || err != nil {
		t.Errorf("got = %q, err = %v", got, err)
	}
	for range 2 {
		if err := body.Close(); err != nil || source.closed != 1 {
			t.Errorf("%v, closed %d times", err, source.closed)
		}
	}
	if _, err := body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("after Close: %v", err)
	}
}

func TestCloseWhileReading(*testing.T) {
	for range 50 {
		reader, writer := io.Pipe()
		body := New([]string{"the-token"}).Body(reader, same)
		var all sync.WaitGroup
		all.Go(func() { _, _ = io.Copy(io.Discard, body) })
		all.Go(func() { _, _ = io.Copy(writer, strings.NewReader(strings.Repeat("the-tok", 1000))) })
		all.Go(func() { _ = body.Close() })
		all.Wait()
	}
}

// chunks is a reader that returns each of its texts in a Read of its own.
type chunks struct {
	rest     []string
	withLast bool // the last Read returns data and end
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

// readAll reads with buffers of this size. It checks that they are cleared behind the data, and that each Read returns
// data or an error.
func readAll(t interface{ Errorf(string, ...any) }, r io.Reader, size int) (string, error) {
	var got strings.Builder
	for {
		p := make([]byte, size)
		n, err := r.Read(p)
		got.Write(p[:n])
		if strings.Trim(string(p[n:]), "\x00") != "" {
			t.Errorf("the buffer holds %q beyond what was given", p[n:])
		}
		if n == 0 && err == nil {
			t.Errorf("Read returns neither data nor an error, after %q", got.String())
		}
		if err != nil {
			return got.String(), err
		}
	}
}

func same(err error) error { return err }
