package connectors

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/keywright/keywright/internal/problem"
)

// A jsonReader reads nodes from JSON. YAML's parser is not used for JSON, because it does not accept all of it: tabs, and
// surrogate pairs in texts.
type jsonReader struct {
	grower
	ctx     context.Context
	decoder *json.Decoder
	text    string
	// next is the place of the next token, and offset its position in text, in bytes.
	offset int
	next   problem.Place
}

// readJSON returns the value of a text in JSON, or nil if it exceeds a limit or ctx ends.
func readJSON(ctx context.Context, text string, p *problems) *node {
	r := &jsonReader{grower: grower{problems: p}, ctx: ctx, text: text, next: problem.Place{Line: 1, Column: 1}}
	r.decoder = json.NewDecoder(strings.NewReader(text))
	r.decoder.UseNumber()
	if n := r.read(nil, 0); !r.full {
		return n
	}
	return nil
}

// token returns the next token and its place.
func (r *jsonReader) token() (json.Token, problem.Place) {
	end := int(r.decoder.InputOffset())
	for end < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[end]) >= 0 {
		end++
	}
	r.next, r.offset = r.next.Advance([]byte(r.text[r.offset:end])), end
	where := r.next
	token, err := r.decoder.Token()
	if err != nil || r.ctx.Err() != nil {
		r.full = true // the text is valid JSON, so ctx has ended
	}
	return token, where
}

func (r *jsonReader) read(path *problem.Path, depth int) *node {
	token, where := r.token()
	result := &node{Place: where, kind: scalar, size: 1}
	if !r.grow(where, depth) {
		return result
	}
	switch token {
	case json.Delim('['):
		result.kind, result.depth = list, 1
		for i := 0; !r.full && r.decoder.More(); i++ {
			v := r.read(path.Item(i), depth+1)
			result.items = append(result.items, v)
			result.contain("", v)
		}
		r.token()
	case json.Delim('{'):
		result.kind, result.depth = object, 1
		for !r.full && r.decoder.More() {
			r.member(result, path, depth)
		}
		r.token()
	default:
		result.value = token
	}
	return result
}

func (r *jsonReader) member(to *node, path *problem.Path, depth int) {
	key, where := r.token()
	name, _ := key.(string)
	v := r.read(path.Member(name), depth+1)
	if first := to.get(name); first != nil {
		r.report(where, path.Member(name).String(), "is there twice, first on line %d: remove one", first.key.Line)
		return
	}
	to.add(member{name, where, v})
	to.contain(name, v)
}
