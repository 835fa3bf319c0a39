package expr

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonGet returns a text of a JSON document. The first argument is the document, the second the name of a member, and each
// further one the name of a member of the member before. It makes no values of the rest of the document, so that templates,
// which have no limits for these, may use it. Like Decode, it refuses duplicate names.
func jsonGet(r *Run, a arguments) any {
	all := a[0].(*List).elements
	document := r.text(all[0])
	r.make(len(document)) // the copy, and the text in it
	d := jsontext.NewDecoder(bytes.NewBufferString(document))
	for _, name := range all[1:] {
		r.findMember(d, r.text(name))
	}
	if kind := d.PeekKind(); kind != '"' && kind != 0 {
		panic(r.failure("json_get: the member is no text"))
	}
	text := r.token(d).String()
	for d.StackDepth() > 0 {
		r.token(d)
	}
	if err := AtEnd(d); err != nil {
		err.Column = r.column
		panic(err)
	}
	return text
}

// findMember reads an object up to the value of the member with a name.
func (r *Run) findMember(d *jsontext.Decoder, name string) {
	if kind := d.PeekKind(); kind != '{' && kind != 0 {
		panic(r.failure("json_get: what should have the member is no object"))
	}
	r.token(d)
	for d.PeekKind() != '}' {
		if r.token(d).String() == name {
			return
		}
		if err := d.SkipValue(); err != nil {
			panic(r.malformed(err))
		}
	}
	panic(r.failure("json_get: there is no such member"))
}

// token reads the next token of a document.
func (r *Run) token(d *jsontext.Decoder) jsontext.Token {
	token, err := d.ReadToken()
	if err != nil {
		panic(r.malformed(err))
	}
	return token
}

// malformed returns the error for a document that is not well-formed.
func (r *Run) malformed(err error) *Error {
	malformed := Malformed(err)
	malformed.Column = r.column
	return malformed
}
