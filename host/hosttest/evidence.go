package hosttest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/keywright/keywright/internal/testworld"
)

// evidence holds the texts that must not come out, and all that came out.
type evidence struct {
	mu       sync.Mutex
	needles  []needle
	known    map[string]bool // texts that have needles
	outputs  []output
	running  int      // requests whose credentials may not be known yet
	memories [][]byte // of guests, until they have been looked through
	revealed []string // what a guest with the grant reveal was given
	found    []string
}

// needle is one form of a text that must not come out.
type needle struct {
	what, form string
	text       []byte
	whole      string // the text that it is a form of
	sent       bool   // it is of a request, and not known to be a secret of the host
}

// output is a text that came out.
type output struct{ where, text string }

// secret notes a text that must not come out in any form.
func (e *evidence) secret(what, text string) {
	for _, part := range parts(text) {
		if len(part) >= testworld.Shortest {
			e.note(what, part, testworld.Forms(part), false)
		}
	}
}

// reveal notes what a guest was given to see.
func (e *evidence) reveal(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.revealed = append(e.revealed, text)
}

// mayHave reports whether a guest may have something in its memory: what it revealed, and once it has revealed anything,
// what it put into a request.
func (e *evidence) mayHave(n needle) bool {
	return n.sent && len(e.revealed) > 0 ||
		slices.ContainsFunc(e.revealed, func(text string) bool { return strings.Contains(text, n.whole) })
}

// parts of a secret that are worth something alone: the lines of a PEM block, which may come out without their breaks.
func parts(text string) []string {
	if !strings.HasPrefix(strings.TrimSpace(text), "-----BEGIN ") {
		return []string{text}
	}
	var lines []string
	for _, line := range strings.Split(strings.ReplaceAll(text, `\n`, "\n"), "\n") {
		if line != "" && !strings.HasPrefix(line, "-----") {
			lines = append(lines, line)
		}
	}
	return lines
}

func (e *evidence) note(what, text string, forms []testworld.Form, sent bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known[text] {
		return
	}
	if e.known == nil {
		e.known = map[string]bool{}
	}
	e.known[text] = true
	written := map[string]bool{}
	for _, f := range forms {
		if !written[f.Text] {
			written[f.Text] = true
			e.needles = append(e.needles, needle{what: what, form: f.Name, text: []byte(f.Text), whole: text, sent: sent})
		}
	}
}

var compactJWT = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)`)

// sent notes the credentials of a request that goes out: what Authorization holds, and each JWT.
func (e *evidence) sent(header http.Header, values url.Values) {
	for _, value := range header.Values("Authorization") {
		if _, credential, found := strings.Cut(value, " "); found {
			value = credential
		}
		if len(value) >= testworld.Shortest {
			e.note("the credential of an Authorization header", value, testworld.Forms(value), true)
		}
	}
	var all []string
	for _, texts := range header {
		all = append(all, texts...)
	}
	for _, texts := range values {
		all = append(all, texts...)
	}
	for _, text := range all {
		for _, match := range compactJWT.FindAllStringSubmatch(text, -1) {
			e.note("a signed JWT", match[0], []testworld.Form{{Name: "as it is", Text: match[0]}}, true)
			e.note("the signature of a JWT", match[1], []testworld.Form{{Name: "as it is", Text: match[1]}}, true)
		}
	}
}

// text notes a text that came out.
func (e *evidence) text(where, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.outputs = append(e.outputs, output{where, text})
}

// failure notes an error that came out, and what errors.Is and errors.As find in it.
func (e *evidence) failure(where string, err error) {
	if err == nil {
		return
	}
	e.text(where, err.Error())
	if inner := errors.Unwrap(err); inner != nil {
		e.failure(where, inner)
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, inner := range several.Unwrap() {
			e.failure(where, inner)
		}
	}
}

// memory keeps a copy of a guest's memory and blocks, without what was never written to.
func (e *evidence) memory(memory, blocks []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, bytes := range [][]byte{memory, blocks} {
		end := len(bytes)
		for end > 0 && bytes[end-1] == 0 {
			end--
		}
		e.memories = append(e.memories, slices.Clone(bytes[:end]))
	}
}

// begin and end stand around what runs the guest. Memory is looked through when nothing runs any more: only then are the
// credentials known that the guest must not have had.
func (e *evidence) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running++
}

func (e *evidence) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running--; e.running == 0 {
		e.searchMemories()
	}
}

func (e *evidence) searchMemories() {
	for _, memory := range e.memories {
		e.search("the guest's memory", memory, e.mayHave)
	}
	e.memories = nil
}

func (e *evidence) search(where string, text []byte, allowed func(needle) bool) {
	for _, n := range e.needles {
		if !bytes.Contains(text, n.text) || allowed(n) {
			continue
		}
		if leak := fmt.Sprintf("%s holds %s, %s", where, n.what, n.form); !slices.Contains(e.found, leak) {
			e.found = append(e.found, leak)
		}
	}
}

// leaks looks through everything that came out, and says what was found where.
func (e *evidence) leaks() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.searchMemories()
	for _, o := range e.outputs {
		e.search(o.where, []byte(o.text), func(needle) bool { return false })
	}
	slices.Sort(e.found)
	return e.found
}
