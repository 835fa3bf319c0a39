package seal_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/internal/testworld"
)

// nearText draws text that resembles references but contains none.
func nearText() *rapid.Generator[string] {
	part := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"k", "kw", "kw_", "kw_kw_", "_", "abc012", "A", "é", "\x00"}),
		rapid.StringMatching(`kw_[a-z0-9]{0,25}[-A_ ]`))
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 0, 5).Draw(t, "parts"), "")
	}).Filter(func(s string) bool { return !shape.MatchString(s) })
}

// line is a text with references, the same text with their values, and the same text with their masks.
type line struct{ text, open, mask string }

// draw returns a line of up to twelve parts, and the number of its references, which may repeat. The text before a
// reference ends in a character that is in no reference. Otherwise text and reference together could contain another
// reference.
func draw(t *rapid.T, values []seal.Value, refs []string) (l line, refsIn int) {
	for range rapid.IntRange(0, 6).Draw(t, "parts") {
		plain := nearText().Draw(t, "plain") + "-"
		l.text, l.open, l.mask = l.text+plain, l.open+plain, l.mask+plain
		if len(refs) > 0 && rapid.Bool().Draw(t, "sealed") {
			i := rapid.IntRange(0, len(refs)-1).Draw(t, "which")
			l.text, l.open, l.mask = l.text+refs[i], l.open+values[i].Text, l.mask+values[i].Mask
			refsIn++
		}
	}
	return l, refsIn
}

func TestOpenSplitJoinAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newTable()
		var values []seal.Value
		var refs []string
		for range rapid.IntRange(0, 24).Draw(t, "values") { // more than linear, so that some tables have an index
			text := nearText().Draw(t, "secret")
			if len(refs) > 0 && rapid.Bool().Draw(t, "looks like a reference") {
				text += refs[0] + text
			}
			v := seal.Value{Text: text, Sinks: seal.Header, Mask: "<" + nearText().Draw(t, "mask") + ">"}
			ref := testworld.Must(table.Seal(v))(t)
			values, refs = append(values, v), append(refs, ref)
		}
		l, n := draw(t, values, refs)

		check := func(table *seal.Table, text string) {
			out, opened, err := table.Open(text, seal.Header)
			if out != l.open || opened != n || err != nil {
				t.Fatalf("Open: %q, %d, %v, want %q, %d", out, opened, err, l.open, n)
			}
			v, sealed, err := table.Combine(text)
			if v.Text != l.open || sealed != (n > 0) || err != nil || sealed && v.Sinks != seal.Header {
				t.Fatalf("Combine: %q, %t, %v, want %q", v.Text, sealed, err, l.open)
			}
			if got := table.Mask(text); got != l.mask {
				t.Fatalf("Mask: %q, want %q", got, l.mask)
			}
			if plain := table.Plain(text) == nil; plain != (n == 0) {
				t.Fatalf("Plain: %t, but the text holds %d references", plain, n)
			}
		}
		check(table, l.text)

		pieces := testworld.Must(table.Split(l.text))(t)
		for _, other := range []*seal.Table{table, newTable()} {
			text, err := other.Join(pieces, &tokencache.Handle{})
			if err != nil || len(text) != len(l.text) {
				t.Fatalf("Join: %q, %v, want the length of %q", text, err, l.text)
			}
			check(other, text)
		}
	})
}
