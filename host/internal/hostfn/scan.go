package hostfn

import (
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
)

// scanMutation decodes a mutation in its simplest form: no spaces, no escapes, and members in the order of
// abi.Mutation. The SDK and most serialisers write that form, and scanning it takes an eighth of the time of strict
// decoding. For any other text, valid or not, simple is false, and the caller has to decode it strictly.
func scanMutation(output []byte) (m abi.Mutation, simple bool) {
	s := scanner{string(output), true} // which all texts of the mutation are parts of
	s.expect("{")
	if s.has(`"headers":`) {
		m.Headers = s.pairs()
		if s.has(",") {
			s.expect(`"query":`)
			m.Query = s.pairs()
		}
	} else if s.has(`"query":`) {
		m.Query = s.pairs()
	}
	s.expect("}")
	if !s.simple || len(s.rest) > 0 || !utf8.Valid(output) {
		return abi.Mutation{}, false
	}
	return m, true
}

// scanComposition decodes an abi.Composition in the same form.
func scanComposition(document []byte) (with abi.Composition, simple bool) {
	s := scanner{string(document), true}
	next := "{"
	for _, list := range []struct {
		name  string
		pairs *[]abi.Pair
	}{{`"headers":`, &with.Headers}, {`"query":`, &with.Query}, {`"values":`, &with.Values}} {
		if s.has(next + list.name) {
			*list.pairs = s.pairs()
			next = ","
		}
	}
	if next == "{" {
		s.expect(next)
	}
	s.expect("}")
	if !s.simple || len(s.rest) > 0 || !utf8.Valid(document) {
		return abi.Composition{}, false
	}
	return with, true
}

type scanner struct {
	rest string
	// simple is false once the text has turned out not to be in the simplest form.
	simple bool
}

func (s *scanner) has(text string) bool {
	rest, found := strings.CutPrefix(s.rest, text)
	s.rest = rest
	return found
}

func (s *scanner) expect(text string) { s.simple = s.has(text) && s.simple }

func (s *scanner) pairs() (pairs []abi.Pair) {
	s.expect("[")
	for s.simple && !s.has("]") {
		if len(pairs) > 0 {
			s.expect(",")
		}
		s.expect(`{"name":`)
		name := s.text()
		s.expect(`,"value":`)
		value := s.text()
		s.expect("}")
		pairs = append(pairs, abi.Pair{Name: name, Value: value})
	}
	return pairs
}

// text reads a string without escapes.
func (s *scanner) text() string {
	s.expect(`"`)
	text, rest, ended := strings.Cut(s.rest, `"`)
	for i := range len(text) {
		if c := text[i]; c == '\\' || c < ' ' {
			ended = false
		}
	}
	s.simple = ended && s.simple
	s.rest = rest
	return text
}
