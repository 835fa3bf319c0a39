package leakscan

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// lineBreaks are the forms in which servers write the end of a line of Base64.
var lineBreaks = map[string]string{
	"LF": "\n", "CRLF": "\r\n", "CR": "\r", "LF and spaces": "\n            ", "CRLF and a tab": "\r\n\t",
	"LF in JSON": `\n`, "CRLF in JSON": `\r\n`, "CRLF in JSON in JSON": `\\r\\n`, "JSON in numbers": `\u000d\u000A`, "octal": `\015\12`,
	"a form": "%0D%0A", "a form in a form": "%250D%250A", "a form, and a space": "%0A%20", "HTML": "&#13;&#10;", "HTML, hexadecimal": "&#xD;&#xA;",
}

func split(text string, size int) (parts []string) {
	for ; text != ""; text = text[len(parts[len(parts)-1]):] {
		parts = append(parts, text[:min(size, len(text))])
	}
	return parts
}

// Base64 in lines is found wherever a line ends and in whatever pieces it comes. No byte of it is passed on.
// threats.md 72
func TestBase64InLines_threats_72(t *testing.T) {
	for name, lineBreak := range lineBreaks {
		for _, width := range []int{64, 76} {
			t.Run(fmt.Sprintf("%s at %d", name, width), func(t *testing.T) {
				for before := range 3 * width / 4 {
					start := 40 + before
					text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("i", start) + secret + "and so on"))
					body := "data: " + strings.Join(split(text, width), lineBreak)
					safe := start * 8 / 6
					safe += len("data: ") + safe/width*len(lineBreak) + 1 // one character also has bits of the data before
					f := New([]string{secret})
					if !f.Holds(body) {
						t.Fatalf("%d before: it is not found in %q", before, body)
					}
					for _, size := range []int{1, 7, 1000} {
						got, err := readAll(t, f.Body(&chunks{rest: split(body, size), end: io.EOF}, same), 600)
						if !errors.Is(err, ErrFound) || len(got) > safe {
							t.Fatalf("%d before, by %d: %q came of %q, %v", before, size, got, body, err)
						}
					}
				}
			})
		}
	}
}

// A line break is found even if no pattern has its characters, in whatever way it is written.
func TestBase64LinesInNonASCII_threats_72(t *testing.T) {
	const text = "schlüssel, der nicht herauskommen darf"
	encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("i", 40) + text))
	for name, lineBreak := range lineBreaks {
		if body := encoded[:64] + lineBreak + encoded[64:]; !New([]string{text}).Holds(body) {
			t.Errorf("%s: it is not found in %q", name, body)
		}
	}
}

// Lines of text are passed on as they come, also if they end with the beginning of the text's Base64.
func TestUndelayedLines(t *testing.T) {
	f := New([]string{"the-token"}) // in Base64, dGhlLXRva2Vu
	reader, writer := io.Pipe()
	body := f.Body(reader, same)
	buffer := make([]byte, 2048)
	const long, as = "https://api.test/v1/things/0123456789/d", "AAAAAAAAAAAAAAAAAAAA"
	for _, c := range []struct{ sent, want string }{
		{"data: d\n\n", "data: d\n\n"},
		{"hello dGhl\r\n", "hello dGhl\r\n"},
		{`{"a":"dGhl\n`, `{"a":"dGhl\n`},
		{long + "\n", long[:len(long)-1]}, // this line may be Base64
		{"x\n", "d\nx\n"},
		{strings.Repeat("A", 40) + "\n", strings.Repeat("A", 40) + "\n"},
		{as + " " + as + "dGhl\n", as + " " + as + "dGhl\n"},
		{as + "\x7f" + as + "dGhl\n", as + "\x7f" + as + "dGhl\n"},
		{strings.Repeat("A", 40) + "dGhl\n" + strings.Repeat(" ", 80), strings.Repeat("A", 40) + "dGhl\n" + strings.Repeat(" ", 80)},
	} {
		go writer.Write([]byte(c.sent))
		n, err := body.Read(buffer)
		if got := string(buffer[:n]); got != c.want || err != nil {
			t.Errorf("of %q came %q, %v", c.sent, got, err)
		}
	}
}

// Only a bounded number of bytes is held back, however much white space comes.
func TestEndlessWhiteSpace(t *testing.T) {
	f := New([]string{"the-token"})
	body := f.Body(&chunks{rest: append([]string{strings.Repeat("A", 40) + "dGhl\n"}, split(strings.Repeat(" ", 10_000), 100)...), end: io.EOF}, same).(*body)
	for {
		_, err := body.Read(make([]byte, 600))
		if len(body.tail) > 200 {
			t.Fatalf("%d bytes are held back", len(body.tail))
		}
		if err != nil {
			return
		}
	}
}

// A line break does not count if only a part is Base64 of the text, or if the lines are short.
func TestOtherLines(t *testing.T) {
	f := New([]string{"the-token"})
	line := strings.Repeat("A", 60)
	for _, body := range []string{
		line + "dGhl\nLXRva2Vx", line + "dGhl\n\nLXRva2Vu", line + "dGhl\n-LXRva2Vu", "dGhl\nLXRva2Vu", line + "dGhl LXRva2Vu", line + "dGhl\n+LXRva2Vu",
		line + "\ndGhl", line + "746865\n2d746f6b656e", line + "the\n-token",
	} {
		if f.Holds(body) {
			t.Errorf("it is found in %q", body)
		}
	}
	if !f.Holds(line + "dGhl\nLXRva2Vu") {
		t.Error("it is not found where it is")
	}
}

// A text that begins like the Base64 of another one is not found with a line break in it.
func TestLineBreakInBase64Lookalike(t *testing.T) {
	const text = "AAAAAAAA~~~~"
	texts := []string{text}
	for _, encoded := range []string{"AAAAAAAAAAAAAAAA", "BAAAAAAAAAAA"} { // the last one has the length of text, and follows it in order
		other := testworld.Must(base64.StdEncoding.DecodeString(encoded))(t)
		texts = append(texts, string(other))
	}
	f, line := New(texts), strings.Repeat("x", 60)
	if !f.Holds(line+text) || f.Holds(line+text[:4]+"\n"+text[4:]) {
		t.Error("it is not found, or with a line break")
	}
}
