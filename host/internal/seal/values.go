package seal

import (
	"slices"
	"strings"
)

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
