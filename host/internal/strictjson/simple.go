package strictjson

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
)

// Simple reads a JSON document in a fraction of the time of [Unmarshal]. The document must be simple: UTF-8 without white
// space, escapes, control characters and numbers, without duplicate names, and nested at most maxSimple deep. The SDK writes
// such documents. For any other document, valid or not, the methods return false, and [Decode] uses Unmarshal. The texts that
// they return share the memory of the document.
type Simple struct {
	rest string
}

// readSimple reads a document that is one object. It calls member with the name of each member, and member must read the value
// with one of the methods of s.
func readSimple(document string, member func(s *Simple, name string) (ok bool)) (ok bool) {
	s := &Simple{document}
	var few [8]string
	names := few[:0]
	ok = s.list('{', '}', func() bool {
		name, ok := s.name()
		if !ok || slices.Contains(names, name) {
			return false
		}
		names = append(names, name)
		return member(s, name)
	})
	return ok && s.rest == "" && utf8.ValidString(document)
}

// maxSimple limits how deep the objects and arrays of a simple document are nested.
const maxSimple = 16

// Object reads an object that is the value of a member.
func (s *Simple) Object() (object Tree, ok bool) { return s.object(1) }

// Texts reads an array of strings.
func (s *Simple) Texts() (texts []string, ok bool) {
	texts = make([]string, 0, 4)
	ok = s.list('[', ']', func() bool {
		text, ok := s.Text()
		texts = append(texts, text)
		return ok
	})
	return texts, ok
}

// Pairs reads an array of objects with a name and a value, in this order.
func (s *Simple) Pairs() (pairs []abi.Pair, ok bool) {
	pairs = []abi.Pair{}
	ok = s.list('[', ']', func() (ok bool) {
		var pair abi.Pair
		if s.hasWord(`{"name":`) {
			pair.Name, ok = s.Text()
		}
		if !ok || !s.hasWord(`,"value":`) {
			return false
		}
		pair.Value, ok = s.Text()
		pairs = append(pairs, pair)
		return ok && s.hasByte('}')
	})
	return pairs, ok
}

// list reads what is between two brackets: elements, which element reads, separated by commas.
func (s *Simple) list(opening, closing byte, element func() (ok bool)) (ok bool) {
	if !s.hasByte(opening) {
		return false
	}
	for first := true; !s.hasByte(closing); first = false {
		if !first && !s.hasByte(',') || !element() {
			return false
		}
	}
	return true
}

// name reads the name of a member, and the colon behind it.
func (s *Simple) name() (name string, ok bool) {
	name, ok = s.Text()
	return name, ok && s.hasByte(':')
}

func (s *Simple) object(depth int) (object map[string]any, ok bool) {
	if depth == maxSimple {
		return nil, false
	}
	object = map[string]any{}
	ok = s.list('{', '}', func() bool {
		name, ok := s.name()
		if _, twice := object[name]; !ok || twice {
			return false
		}
		object[name], ok = s.value(depth)
		return ok
	})
	return object, ok
}

func (s *Simple) value(depth int) (value any, ok bool) {
	switch {
	case strings.HasPrefix(s.rest, `"`):
		return s.Text()
	case strings.HasPrefix(s.rest, "{"):
		return s.object(depth + 1)
	case strings.HasPrefix(s.rest, "["):
		array := []any{}
		ok = depth+1 < maxSimple && s.list('[', ']', func() bool {
			element, ok := s.value(depth + 1)
			array = append(array, element)
			return ok
		})
		return array, ok
	case s.hasWord("true"):
		return true, true
	case s.hasWord("false"):
		return false, true
	}
	return nil, s.hasWord("null")
}

// Text reads a string without escapes.
func (s *Simple) Text() (text string, ok bool) {
	if !s.hasByte('"') {
		return "", false
	}
	for i := range len(s.rest) {
		switch c := s.rest[i]; {
		case c == '"':
			text, s.rest = s.rest[:i], s.rest[i+1:]
			return text, true
		case c == '\\' || c < ' ':
			return "", false
		}
	}
	return "", false
}

func (s *Simple) hasByte(mark byte) bool {
	found := s.rest != "" && s.rest[0] == mark
	if found {
		s.rest = s.rest[1:]
	}
	return found
}

func (s *Simple) hasWord(word string) (found bool) {
	s.rest, found = strings.CutPrefix(s.rest, word)
	return found
}
