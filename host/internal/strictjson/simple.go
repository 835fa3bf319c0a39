package strictjson

import (
	"strings"
	"unicode/utf8"
)

// Simple decodes an object like [Unmarshal] with a [Tree], in a fraction of the time. The document must be simple: UTF-8
// without white space, escapes, control characters and numbers, without duplicate names, and nested at most maxSimple deep.
// The SDK writes such documents. For any other document, valid or not, ok is false, and the caller has to use Unmarshal. The
// strings of the tree share the memory of the document.
func Simple(document string) (object Tree, ok bool) {
	s := simple{document}
	object, ok = s.object(0)
	return object, ok && s.rest == "" && utf8.ValidString(document)
}

// maxSimple limits how deep the objects and arrays of a simple document are nested.
const maxSimple = 16

// simple is the rest of a document.
type simple struct{ rest string }

func (s *simple) object(depth int) (object map[string]any, ok bool) {
	if depth == maxSimple || !s.has('{') {
		return nil, false
	}
	object = map[string]any{}
	for first := true; !s.has('}'); first = false {
		if !first && !s.has(',') {
			return nil, false
		}
		name, ok := s.text()
		if _, twice := object[name]; !ok || twice || !s.has(':') {
			return nil, false
		}
		if object[name], ok = s.value(depth); !ok {
			return nil, false
		}
	}
	return object, true
}

func (s *simple) array(depth int) (array []any, ok bool) {
	if depth == maxSimple || !s.has('[') {
		return nil, false
	}
	array = []any{}
	for first := true; !s.has(']'); first = false {
		if !first && !s.has(',') {
			return nil, false
		}
		value, ok := s.value(depth)
		if !ok {
			return nil, false
		}
		array = append(array, value)
	}
	return array, true
}

func (s *simple) value(depth int) (value any, ok bool) {
	switch {
	case strings.HasPrefix(s.rest, `"`):
		return s.text()
	case strings.HasPrefix(s.rest, "{"):
		return s.object(depth + 1)
	case strings.HasPrefix(s.rest, "["):
		return s.array(depth + 1)
	case s.hasWord("true"):
		return true, true
	case s.hasWord("false"):
		return false, true
	}
	return nil, s.hasWord("null")
}

// text reads a string without escapes.
func (s *simple) text() (text string, ok bool) {
	if !s.has('"') {
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

func (s *simple) has(mark byte) bool {
	found := s.rest != "" && s.rest[0] == mark
	if found {
		s.rest = s.rest[1:]
	}
	return found
}

func (s *simple) hasWord(word string) bool {
	rest, found := strings.CutPrefix(s.rest, word)
	s.rest = rest
	return found
}
