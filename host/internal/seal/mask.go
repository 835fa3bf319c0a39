package seal

import (
	"iter"
	"strings"
)

// Mask returns text as a person may see it: references are replaced by the masks of their values, dead ones by
// <sealed>. A result over MaxText becomes <sealed> as a whole.
func (t *Table) Mask(text string) string { return t.mask(text, MaxText) }

// mask is Mask with another limit in place of MaxText.
func (t *Table) mask(text string, limit int) string {
	if next(text, 0) < 0 {
		return text
	}
	var b strings.Builder
	write := func(part string) {
		if b.Len() <= limit {
			b.WriteString(part)
		}
	}
	t.walk(text, write, func(v *Value) {
		if v == nil {
			v = &Value{}
		}
		write(v.mask())
	})
	if b.Len() > limit {
		return unknownMask
	}
	return b.String()
}

// Values returns all values that were sealed so far, in order, for callers that must keep them out of a text.
func (t *Table) Values() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for i := range t.entries {
			if !yield(t.entries[i].value) {
				return
			}
		}
	}
}
