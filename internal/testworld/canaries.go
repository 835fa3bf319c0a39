package testworld

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Shortest is the minimum length in bytes of a text that is searched for. A shorter text may occur by chance.
const Shortest = 8

// Canaries are texts that must not occur in any output of the code under test. The zero value is an empty set: the test
// itself must call Leaks. Canaries are safe for concurrent use.
type Canaries struct {
	mu sync.Mutex
	// hidden has a description of each text.
	hidden  map[string]string
	outputs map[output]struct{}
}

type output struct{ where, text string }

// NewCanaries returns canaries that fail the test at its end if an output contains one, after all cleanups that are registered later.
func NewCanaries(t testing.TB) *Canaries {
	c := &Canaries{}
	t.Cleanup(func() {
		for _, leak := range c.Leaks() {
			t.Error(leak)
		}
	})
	return c
}

// Secret returns a new random secret and hides it.
func (c *Canaries) Secret(what string) string { return c.Hide(what, RandomSecret()) }

// Word returns a new random secret of letters and digits, the first a letter, and hides it.
func (c *Canaries) Word(what string) string { return c.Hide(what, "s"+rand.Text()) }

// Hide adds a text that must not occur in any output, and returns it. Texts of fewer than [Shortest] bytes are not searched for.
func (c *Canaries) Hide(what, text string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hidden == nil {
		c.hidden = map[string]string{}
	}
	if len(text) >= Shortest {
		c.hidden[text] = what
	}
	return text
}

// Out adds a text that the code under test has put out, such as its log. The place where names it in Leaks.
func (c *Canaries) Out(where, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outputs == nil {
		c.outputs = map[output]struct{}{}
	}
	c.outputs[output{where, text}] = struct{}{}
}

// OutError adds the text of an error that the code under test returned, and of each error that it wraps.
func (c *Canaries) OutError(where string, err error) {
	EachError(err, func(err error) { c.Out(where, fmt.Sprintf("%v\n%+v\n%#v", err, err, err)) })
}

// EachError calls f with an error, unless it is nil, and with each error that it wraps.
func EachError(err error, f func(error)) {
	if err == nil {
		return
	}
	f(err)
	EachError(errors.Unwrap(err), f)
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, inner := range several.Unwrap() {
			EachError(inner, f)
		}
	}
}

// Leaks returns a line for each output that contains a hidden text in one of its [Needles]. The line does not contain the text.
func (c *Canaries) Leaks() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var finder Finder
	type form struct{ text, what, name string }
	var forms []form
	for text, what := range c.hidden {
		for _, f := range Needles(text) {
			finder.Add(f.Text)
			forms = append(forms, form{text, what, f.Name})
		}
	}
	var all []string
	for out := range c.outputs {
		leaks := map[string]int{} // the number of the first form of each text
		finder.Find(out.text, func(n int) {
			if first, found := leaks[forms[n].text]; !found || n < first {
				leaks[forms[n].text] = n
			}
		})
		for _, n := range leaks {
			all = append(all, fmt.Sprintf("%s holds %s, %s", out.where, forms[n].what, forms[n].name))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// RandomSecret returns a random text. It may have characters with a meaning in URLs, but none that a header cannot have. It
// begins with a letter, so that it is never a number.
func RandomSecret() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=&%~"
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	for i, b := range random {
		random[i] = alphabet[int(b)%len(alphabet)]
	}
	return "s" + string(random)
}

// Form is a way in which a text may be written.
type Form struct{ Name, Text string }

// Forms returns the forms of a text: as it is, escaped, and encoded, alone or as a part of a longer text. Some may be equal.
func Forms(text string) []Form {
	quoted := strconv.Quote(text)
	inJSON, _ := json.Marshal(text) // a string always has one
	all := []Form{
		{"as it is", text},
		{"in hex", hex.EncodeToString([]byte(text))},
		{"in hex, in capitals", strings.ToUpper(hex.EncodeToString([]byte(text)))},
		{"URL-encoded", url.QueryEscape(text)},
		{"URL-encoded, as in a path", url.PathEscape(text)},
		{"escaped for JSON", string(inJSON[1 : len(inJSON)-1])},
		{"escaped for JSON, not for HTML", strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)},
		{"escaped for Go", quoted[1 : len(quoted)-1]},
	}
	for prefix := range 3 {
		name := fmt.Sprintf("in base64 from byte %d on", prefix)
		all = append(all, Form{name, encodedAt(base64.RawStdEncoding, text, prefix)},
			Form{name + ", for URLs", encodedAt(base64.RawURLEncoding, text, prefix)})
	}
	return all
}

// Needles returns the forms of a text that are searched for: those of [Forms], and base32, which plugins may use and no API answers in.
func Needles(text string) []Form {
	all := Forms(text)
	for prefix := range 5 {
		encoded := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(append(make([]byte, prefix), text...))
		all = append(all, Form{fmt.Sprintf("in base32 from byte %d on", prefix), encoded[(prefix*8+4)/5 : (prefix+len(text))*8/5]})
	}
	return all
}

// encodedAt returns the part of a text's base64 that does not depend on what stands before and after the text.
func encodedAt(encoding *base64.Encoding, text string, prefix int) string {
	encoded := encoding.EncodeToString(append(make([]byte, prefix), text...))
	return encoded[(prefix*8+5)/6 : (prefix+len(text))*8/6]
}

// A Finder finds many texts in a longer one, in one pass. The zero value finds none.
type Finder struct {
	texts []string
	// first has a bit for each value that four bytes at the begin of a text may have, and byStart the texts with the same ones.
	first   [1 << 16 / 64]uint64
	byStart map[uint32][]int
}

// Add adds a text of at least four bytes. [Finder.Find] calls its found with the number of texts that were added before.
func (f *Finder) Add(text string) {
	if f.byStart == nil {
		f.byStart = map[uint32][]int{}
	}
	start := binary.LittleEndian.Uint32([]byte(text[:4]))
	f.first[bit(start)/64] |= 1 << (bit(start) % 64)
	f.byStart[start] = append(f.byStart[start], len(f.texts))
	f.texts = append(f.texts, text)
}

// Find calls found with each of the texts that occur in text, as often as they do.
func (f *Finder) Find(text string, found func(int)) {
	if len(f.texts) == 0 || len(text) < 4 {
		return
	}
	start := binary.LittleEndian.Uint32([]byte(text[:4])) << 8
	for i := range len(text) - 3 {
		start = start>>8 | uint32(text[i+3])<<24
		if f.first[bit(start)/64]&(1<<(bit(start)%64)) == 0 {
			continue
		}
		for _, n := range f.byStart[start] {
			if strings.HasPrefix(text[i:], f.texts[n]) {
				found(n)
			}
		}
	}
}

// bit returns the bit of four bytes in first.
func bit(start uint32) uint32 { return start * 2654435769 >> 16 }
