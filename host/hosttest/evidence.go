package hosttest

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/keywright/keywright/internal/testworld"
)

// evidence holds the texts that must not leak, and all texts that came out of the host.
type evidence struct {
	mu      sync.Mutex
	needles []needle
	// finder finds needles. It is nil when they have changed.
	finder  *testworld.Finder
	outputs []output
	// running counts the requests in flight. Their credentials may not be known yet.
	running int
	// memories are copies of guests' memory that have not been searched yet.
	memories []string
	// revealed lists the values that the guest has revealed, which takes the grant reveal.
	revealed []string
	found    []string
}

// needle is one form of a text that must not leak.
type needle struct {
	what, form string
	text       string
	// original is the text itself.
	original string
	// fromRequest is set for a credential of a request that is not known to be one of the host's secrets.
	fromRequest bool
}

type output struct{ where, text string }

// secret records a text that must not leak in any form.
func (e *evidence) secret(what, text string) {
	for _, part := range parts(text) {
		e.note(what, part, testworld.Needles, false)
	}
}

func (e *evidence) reveal(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.revealed = append(e.revealed, text)
}

// mayHave reports whether a guest may have a text in its memory: a part of a revealed value, or after it has revealed
// any, a credential of a request.
func (e *evidence) mayHave(n needle) bool {
	return n.fromRequest && len(e.revealed) > 0 ||
		slices.ContainsFunc(e.revealed, func(text string) bool { return strings.Contains(text, n.original) })
}

// parts returns the parts of a secret that must not leak on their own: the lines of a PEM block, which may leak without
// the line breaks, and otherwise the whole text.
func parts(text string) []string {
	if !strings.HasPrefix(strings.TrimSpace(text), "-----BEGIN ") {
		return []string{text}
	}
	lines := strings.Split(strings.ReplaceAll(text, `\n`, "\n"), "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" || strings.HasPrefix(line, "-----") })
}

// note records a text and its forms, unless it is known or too short.
func (e *evidence) note(what, text string, forms func(string) []testworld.Form, fromRequest bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(text) < testworld.Shortest || slices.ContainsFunc(e.needles, func(n needle) bool { return n.original == text }) {
		return
	}
	texts := map[string]bool{}
	for _, f := range forms(text) {
		if !texts[f.Text] {
			texts[f.Text] = true
			e.finder = nil
			e.needles = append(e.needles, needle{what: what, form: f.Name, text: f.Text, original: text, fromRequest: fromRequest})
		}
	}
}

var compactJWT = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)`)

// noteRequest records the credentials of an outgoing request: those of Authorization headers, and each JWT.
func (e *evidence) noteRequest(header http.Header, values url.Values) {
	for _, value := range header.Values("Authorization") {
		if _, credential, found := strings.Cut(value, " "); found {
			value = credential
		}
		e.note("the credential of an Authorization header", value, testworld.Needles, true)
	}
	plainForm := func(text string) []testworld.Form { return []testworld.Form{{Name: "as it is", Text: text}} }
	all := slices.AppendSeq(slices.Collect(maps.Values(header)), maps.Values(values))
	for _, text := range slices.Concat(all...) {
		for _, match := range compactJWT.FindAllStringSubmatch(text, -1) {
			e.note("a signed JWT", match[0], plainForm, true)
			e.note("the signature of a JWT", match[1], plainForm, true)
		}
	}
}

func (e *evidence) text(where, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.outputs = append(e.outputs, output{where, text})
}

// failure records an error that came out of the host, and all errors that it wraps.
func (e *evidence) failure(where string, err error) {
	testworld.EachError(err, func(err error) { e.text(where, err.Error()) })
}

// memory records a copy of a guest's memory and blocks, without the zeros at the end.
func (e *evidence) memory(memory, blocks []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, part := range [][]byte{memory, blocks} {
		e.memories = append(e.memories, testworld.Wide(bytes.TrimRight(part, "\x00")))
	}
}

// begin is called before a guest may run, and returns end. Memory is searched when no guest runs any more, because only then all
// credentials are known that the guest must not have.
func (e *evidence) begin() (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running++
	return e.end
}

// end is called after the guest has run. It searches memory if no other guest runs.
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

// search searches a text for all needles that are not allowed, and adds to found.
func (e *evidence) search(where, text string, allow func(needle) bool) {
	if e.finder == nil {
		e.finder = &testworld.Finder{}
		for _, n := range e.needles {
			e.finder.Add(n.text)
		}
	}
	e.finder.Find(text, func(n int) {
		if n := e.needles[n]; !allow(n) {
			e.found = append(e.found, fmt.Sprintf("%s holds %s, %s", where, n.what, n.form))
		}
	})
}

// settle searches all that came out of the host since it was last called, and returns a sentence for each leak. Of the texts that
// must not leak, it forgets those that were recorded after the first keep needles.
func (e *evidence) settle(keep int) []string {
	leaks := e.leaks()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.outputs, e.found, e.finder = nil, nil, nil
	e.needles = e.needles[:min(keep, len(e.needles))]
	return leaks
}

// leaks searches all that came out of the host, and returns a sentence for each leak.
func (e *evidence) leaks() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.searchMemories()
	for _, o := range e.outputs {
		e.search(o.where, o.text, func(needle) bool { return false })
	}
	slices.Sort(e.found)
	return slices.Compact(e.found)
}
