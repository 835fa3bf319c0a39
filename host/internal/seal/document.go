package seal

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
)

// document is the form of pieces in a store of state. Its names must stay as they are: other nodes, and later versions,
// read what this one has written.
type document struct {
	Pieces []pieceDocument `json:"pieces"`
}

// pieceDocument is plain text, or a value.
type pieceDocument struct {
	Text  string         `json:"text,omitempty"`
	Value *valueDocument `json:"value,omitempty"`
}

type valueDocument struct {
	// Text may be any bytes.
	Text     []byte    `json:"text,omitempty"`
	Sinks    []string  `json:"sinks,omitempty"`
	Derived  []string  `json:"derived,omitempty"`
	Mask     string    `json:"mask,omitempty"`
	Size     int       `json:"size,omitempty"`
	Raw      bool      `json:"raw,omitempty"`
	Encoding string    `json:"encoding,omitempty"`
	Key      *view.Key `json:"key,omitempty"`
}

// listedToken is the name of the sink Listed alone.
const listedToken = "listed_token"

// errDocument is the error for a document that Marshal has not made, or that a later version has.
var errDocument = errors.New("it is not in a form that this version reads")

// Marshal returns pieces in the form that Unmarshal reads. It has the bytes of the sealed values, so it must be encrypted
// before it goes anywhere. The origins are not part of it.
func Marshal(pieces []Piece) ([]byte, error) {
	d := document{Pieces: make([]pieceDocument, len(pieces))}
	for i := range pieces {
		p := &pieces[i]
		if !p.Sealed {
			d.Pieces[i].Text = p.Text
			continue
		}
		v := &p.Value
		if v.Stream != nil {
			return nil, &Error{Reason: OnlyHashed}
		}
		d.Pieces[i].Value = &valueDocument{[]byte(v.Text), v.Sinks.list(), v.Derived.list(), v.Mask, v.Size, v.Raw, v.Encoding, v.Key}
	}
	return strictjson.Marshal(d)
}

// Unmarshal returns the pieces of a text of Marshal. It refuses members and sinks that it does not know, because a value
// could go to places then that it must not.
func Unmarshal(text []byte) ([]Piece, error) {
	var d document
	if err := strictjson.Unmarshal(text, &d); err != nil {
		return nil, errDocument // the error of the decoder could have parts of the text
	}
	pieces := make([]Piece, len(d.Pieces))
	for i, p := range d.Pieces {
		if p.Value == nil {
			pieces[i].Text = p.Text
			continue
		}
		sinks, err := unlist(p.Value.Sinks)
		derived, err2 := unlist(p.Value.Derived)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		v := p.Value
		pieces[i] = Piece{Sealed: true, Value: Value{
			Text: string(v.Text), Sinks: sinks, Derived: derived, Mask: v.Mask, Size: v.Size, Raw: v.Raw, Encoding: v.Encoding, Key: v.Key,
		}}
	}
	return pieces, nil
}

// list returns the names of the sinks, for a document.
func (s Sinks) list() (list []string) {
	for _, n := range sinkNames {
		if s.reach(n.sink) {
			list = append(list, n.name)
		}
	}
	if s&Token == Listed {
		list = append(list, listedToken)
	}
	return list
}

// unlist returns the set of the sinks with the names that list returns.
func unlist(list []string) (s Sinks, err error) {
	for _, name := range list {
		sink := sinkOf(name)
		if name == listedToken {
			sink = Listed
		}
		if sink == 0 {
			return 0, fmt.Errorf("%w: it has a sink that is none of %s", errDocument, contract.Sinks)
		}
		s |= sink
	}
	return s, nil
}

// Values are the values of a Table whose call may be repeated.
type Values struct {
	entries []entry
	size    int
}

// Keep returns the values. Of those that steps have made, only their results are kept, without texts.
func (t *Table) Keep() *Values {
	values := &Values{slices.Clone(t.entries), t.size}
	for i := range values.entries {
		switch e := &values.entries[i]; {
		case e.inStep && !e.value.Later:
			*e = entry{}
		case e.inStep:
			e.value.Text, e.value.Mask = "", ""
		}
	}
	return values
}

// Reuse puts values into an unused Table.
func (t *Table) Reuse(v *Values) { t.entries, t.size = slices.Clone(v.entries), v.size }

// SetText sets the text of a value.
func (t *Table) SetText(i int, text string) {
	v := &t.entries[i].value
	v.Text, v.Size = text, max(v.Size, len(text))
}

// LaterAt returns the index of the value that was sealed last if text is its reference and the value has Later, and otherwise -1.
func (t *Table) LaterAt(text string) int {
	if i := len(t.entries) - 1; i >= 0 && t.entries[i].ref == text && t.entries[i].value.Later {
		return i
	}
	return -1
}

// Parts is a text, divided into plain text and values.
type Parts []part

type part struct {
	text string
	// value is the index of a value, or negative for plain text.
	value int
}

// Divide returns the parts of a text.
func (t *Table) Divide(text string) (parts Parts) {
	for plain := range t.parts(text) {
		parts = append(parts, part{plain, t.find(plain)})
	}
	return parts
}

// Fill returns the text of parts, with the values put in. ok is false if it is longer than MaxText.
func (t *Table) Fill(parts Parts) (text string, ok bool) {
	size := 0
	for _, p := range parts {
		size += len(t.text(p))
	}
	switch {
	case size > MaxText:
		return "", false
	case len(parts) == 1:
		return t.text(parts[0]), true
	}
	var b strings.Builder
	b.Grow(size)
	for _, p := range parts {
		b.WriteString(t.text(p))
	}
	return b.String(), true
}

func (t *Table) text(p part) string {
	if p.value < 0 {
		return p.text
	}
	return t.entries[p.value].value.Text
}
