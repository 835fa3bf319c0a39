package testworld

import (
	"crypto/rand"
	"encoding/base64"
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

// Shortest is the number of bytes from which a text is searched for. A shorter one would be found by chance.
const Shortest = 8

// Canaries are texts that must not come out of the code under test. The zero value is an empty set, whose Leaks its user
// asks for. They may be used from several goroutines.
type Canaries struct {
	mu sync.Mutex
	// hidden has a description of each text.
	hidden map[string]string
	seen   map[output]struct{}
}

// output is a text that came out.
type output struct{ where, text string }

// NewCanaries returns canaries that are searched for at the end of a test, after the cleanups that are registered later.
// The test fails if something that came out holds one.
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

// Hide adds a text that must not come out, and returns it. Texts of fewer than [Shortest] bytes are not searched for.
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

// Out adds a text that came out.
func (c *Canaries) Out(where, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[output]struct{}{}
	}
	c.seen[output{where, text}] = struct{}{}
}

// OutError adds an error that came out, and all that errors.Is and errors.As find in it.
func (c *Canaries) OutError(where string, err error) {
	if err == nil {
		return
	}
	c.Out(where, fmt.Sprintf("%v\n%+v\n%#v", err, err, err))
	c.OutError(where, errors.Unwrap(err))
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, inner := range several.Unwrap() {
			c.OutError(where, inner)
		}
	}
}

// Leaks returns a line for each hidden text that came out in one of its [Forms], without the text.
func (c *Canaries) Leaks() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for text, what := range c.hidden {
		forms := Forms(text)
		for out := range c.seen {
			if i := slices.IndexFunc(forms, func(f Form) bool { return strings.Contains(out.text, f.Text) }); i >= 0 {
				all = append(all, fmt.Sprintf("%s holds %s, %s", out.where, what, forms[i].Name))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// RandomSecret returns a random text with characters that have a meaning in URLs, and none that a header could not carry.
// It begins with a letter, so that it is never a number.
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

// Forms returns the forms of a text: as it is, escaped, and encoded, alone or as a part of a longer text.
// Some may be equal.
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
	for before := range 3 {
		name := fmt.Sprintf("in base64 from byte %d on", before)
		all = append(all, Form{name, within(base64.RawStdEncoding, text, before)},
			Form{name + ", for URLs", within(base64.RawURLEncoding, text, before)})
	}
	return all
}

// within returns the part of a text's base64 that does not depend on what stands before and after the text.
func within(encoding *base64.Encoding, text string, before int) string {
	encoded := encoding.EncodeToString(append(make([]byte, before), text...))
	return encoded[(before*8+5)/6 : (before+len(text))*8/6]
}
