package leakscan

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// escapes are ways to write a text with every character escaped or encoded, by name.
var escapes = map[string]func(string) string{
	"as it is":                     func(text string) string { return text },
	"percent":                      each("%%%02X"),
	"percent, twice":               each("%%25%02x"),
	"percent, four times":          each("%%252525%02x"),
	"HTML, decimal":                each("&#%d;"),
	"HTML, decimal, no semicolon":  each("&#%d"),
	"HTML, hexadecimal":            each("&#x%x;"),
	"HTML, hexadecimal, no ;":      each("&#x%X"),
	"HTML in HTML":                 each("&amp;#%d;"),
	"HTML in numbers":              each("&#38;#x26;#%d;"),
	"JSON":                         each(`\u%04x`),
	"JSON in JSON in JSON":         each(`\\\\u%04X`),
	"JavaScript, braces":           each(`\u{%x}`),
	"JavaScript, hexadecimal":      each(`\x%02x`),
	"octal":                        each(`\%03o`),
	"octal, short":                 each(`\%o`),
	"every other one, percent":     everyOther("%%%02x"),
	"every other one, JSON":        everyOther(`\u%04x`),
	"UTF-16":                       each("%c\x00"),
	"hex":                          func(text string) string { return hex.EncodeToString([]byte(text)) },
	"hex, upper case, in percent":  func(text string) string { return each("%%%02X")(fmt.Sprintf("%X", text)) },
	"Base64":                       inBase64,
	"Base64 in JSON":               func(text string) string { return each(`\u%04x`)(inBase64(text)) },
	"Base64, lines":                func(text string) string { return strings.Join(split(inBase64(text), 76), "\r\n") },
	"Base64, short lines":          func(text string) string { return strings.Join(split(inBase64(text), minLine), "\n") },
	"Base64, lines in JSON":        func(text string) string { return strings.Join(split(inBase64(text), 64), `\r\n`) },
	"Base64, lines in percent":     func(text string) string { return strings.Join(split(inBase64(text), 40), `%0D%0A%20`) },
	"Base64 in percent, and lines": func(text string) string { return strings.Join(split(each("%%%02X")(inBase64(text)), 66), "\n") },
}

func each(format string) func(string) string {
	return some(format, func(int, byte) bool { return true })
}

func everyOther(format string) func(string) string {
	return some(format, func(i int, _ byte) bool { return i%2 == 0 })
}

// some returns a function that formats the bytes of a text that match.
func some(format string, match func(i int, c byte) bool) func(string) string {
	return func(text string) string {
		var b strings.Builder
		for i := range len(text) {
			if match(i, text[i]) {
				fmt.Fprintf(&b, format, text[i])
			} else {
				b.WriteByte(text[i])
			}
		}
		return b.String()
	}
}

func inBase64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// credential returns a random text that looks like a token.
func credential(random *rand.Rand, length int) string {
	return randomText(random, tokenAlphabet, length)
}

func credentials(count, length int) (all []string) {
	random := rand.New(rand.NewPCG(11, uint64(length)))
	for range count {
		all = append(all, credential(random, length))
	}
	return all
}

// lookalikes returns texts that hold large parts of the credentials but none as a whole, by name.
// "other" holds no part of them.
func lookalikes(credentials []string) map[string]string {
	random := rand.New(rand.NewPCG(13, 14))
	texts := map[string]func(c string) string{
		"other":                 func(c string) string { return credential(random, len(c)) },
		"zeros":                 func(c string) string { return strings.Repeat("0", len(c)) },
		"the last one changed":  func(c string) string { return c[:len(c)-2] + "~" + c[len(c)-1:] },
		"the middle changed":    func(c string) string { return c[:len(c)/2] + "~" + c[len(c)/2+1:] },
		"the first one changed": func(c string) string { return "~" + c[1:] },
		"eight of it":           func(c string) string { return strings.Repeat(c[:8], len(c)/8) },
		"three of it":           func(c string) string { return strings.Repeat(c[:3], len(c)/3) },
		"its parts":             func(c string) string { return parts(random, c) },
	}
	made := map[string]string{}
	for name, text := range texts {
		var b strings.Builder
		for _, c := range credentials {
			b.WriteString(text(c))
			b.WriteString(" ")
		}
		made[name] = b.String()
	}
	return made
}

// parts returns sequences of five bytes from random offsets of a text.
func parts(random *rand.Rand, text string) string {
	var b strings.Builder
	for b.Len() < len(text) {
		at := random.IntN(len(text) - 5)
		b.WriteString(text[at : at+5])
	}
	return b.String()
}

// answers calls use with answers of size bytes that look like the credentials, in every way of escapes, and with
// documents.
func answers(credentials []string, size int, use func(name string, data []byte)) {
	all := lookalikes(credentials)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text := all[name]
		text = strings.Repeat(text, 1+size/len(text))
		for _, way := range slices.Sorted(maps.Keys(escapes)) {
			use(name+"/"+way, []byte(escapes[way](text[:size]))[:size])
		}
	}
	for name, data := range documents(size) {
		use("document/"+name, data[:size])
	}
}

// work returns the number of steps that the search of an answer in pieces takes, and whether the answer is stopped.
func work(f *Scanner, data []byte) (work budget, stopped bool) {
	for part := range slices.Chunk(data, 32<<10) {
		left := budget(1 << 40)
		found, _ := f.scan(part, 0, false, &left)
		work, stopped = work+1<<40-left, stopped || found
	}
	return work, stopped
}

// Each escape costs steps, even if no text may begin there. threats.md 81
func TestEscapeCost_threats_81(t *testing.T) {
	f := New([]string{"the-token"})
	for _, part := range []string{"%zz", "%74x", `\u0074x`, "the-%", "%2525"} {
		if got, _ := work(f, []byte(strings.Repeat(part, 1000))); got < 1000 {
			t.Errorf("1000 times %s cost %d steps", part, got)
		}
	}
}

// The tables and patterns of a short text take about 8 KiB.
func TestSizeOfAShortText(t *testing.T) {
	if size := New(credentials(1, 20)).Size(); size < 8000 || size > 8400 {
		t.Errorf("it is %d bytes", size)
	}
}

func TestFinderGrowsWithItsTexts(t *testing.T) {
	for _, length := range []int{1000, 4000, 16_000} {
		for _, count := range []int{1, 16} {
			if size := New(credentials(count, length)).Size(); size > 20*count*length+count*4<<10+32<<10 {
				t.Errorf("%d texts of %d bytes take %d bytes", count, length, size)
			}
		}
	}
}
