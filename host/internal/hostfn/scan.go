package hostfn

import (
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
)

// scanMutation reads a mutation of the simplest form: no spaces, no escapes, members in the order of abi.Mutation. That
// is how the SDK and most serialisers write it, and takes an eighth of the time that strict decoding takes. What has any
// other form, or is not right, is left to that: simple is then false.
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

type scanner struct {
	rest   string
	simple bool // so far
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

// text reads a string that stands for itself.
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
