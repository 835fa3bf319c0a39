package seal_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/internal/testworld"
)

func sealValue(t *testing.T, table *seal.Table, v seal.Value) string {
	t.Helper()
	return testworld.Must(table.Seal(v))(t)
}

func tooLong(err error) bool {
	var failed *seal.Error
	return errors.As(err, &failed) && failed.Reason == seal.TooLong
}

// step is the unit to which the length of a value is rounded up, so that a limit reveals little about it (threats.md 68).
const step = 1 << 10

// A call may hold exactly MaxHeld bytes, including masks (threats.md 3).
func TestCallCapacity(t *testing.T) {
	table := newTable()
	text, mask := strings.Repeat("x", seal.MaxText-step), strings.Repeat("m", step)
	const each = 128 // the memory of a value beside its text and mask
	for n := range seal.MaxHeld / seal.MaxText {
		if table.Size() != n*(seal.MaxText+each) {
			t.Errorf("%d values are said to take %d bytes", n, table.Size())
		}
		sealValue(t, table, seal.Value{Text: text, Mask: mask})
	}
	for _, v := range []seal.Value{{Text: "x"}, {Mask: "m"}, {}} {
		if _, err := table.Seal(v); !tooLong(err) {
			t.Errorf("one value more: %v", err)
		}
	}
}

// A text may have exactly MaxText bytes with its values put in. A value counts in whole steps.
func TestHowLongATextMayBe(t *testing.T) {
	table := newTable()
	whole := sealValue(t, table, seal.Value{Text: strings.Repeat("x", seal.MaxText), Sinks: seal.All})
	if out, n, err := table.Open(whole, seal.Header); err != nil || n != 1 || len(out) != seal.MaxText {
		t.Errorf("%d bytes, %d values, %v", len(out), n, err)
	}
	before, behind := strings.Repeat("0", step/2), strings.Repeat("9", step/2)
	part := sealValue(t, table, seal.Value{Text: strings.Repeat("x", seal.MaxText-step), Sinks: seal.All})
	if out, n, err := table.Open(before+part+behind, seal.Header); err != nil || n != 1 || len(out) != seal.MaxText {
		t.Errorf("%d bytes, %d values, %v", len(out), n, err)
	}
	if _, _, err := table.Open(before+part+behind+"9", seal.Header); !tooLong(err) {
		t.Errorf("one byte more: %v", err)
	}
	longer := sealValue(t, table, seal.Value{Text: strings.Repeat("x", seal.MaxText-step+1), Sinks: seal.All})
	if _, _, err := table.Open("0"+longer, seal.Header); !tooLong(err) {
		t.Errorf("a value that counts as a step more: %v", err)
	}
}

// Rounding is the part of the length of a text that its values do not have.
func TestRounding(t *testing.T) {
	table := newTable()
	short, whole := sealValue(t, table, seal.Value{Text: "x"}), sealValue(t, table, seal.Value{Text: strings.Repeat("x", step)})
	body := sealValue(t, table, seal.Value{Stream: stream("")})
	for text, want := range map[string]int{"plain": 0, whole: 0, short: step - 1, "a" + short + whole + body + short + "b": 2 * (step - 1)} {
		if got := table.Rounding(text); got != want {
			t.Errorf("%d bytes, want %d", got, want)
		}
	}
}

// Combine builds a mask of up to 4 KiB, and uses <sealed> for a longer one.
func TestALongMask(t *testing.T) {
	table := newTable()
	ref := sealValue(t, table, seal.Value{Text: "secret", Mask: "<mask>"})
	const most = 4 << 10
	for _, tt := range []struct {
		text  string
		shown bool
	}{
		{strings.Repeat("p", most-6) + ref, true},
		{strings.Repeat("p", most-5) + ref, false},
		{strings.Repeat("p", most) + ref, false},
		{ref + strings.Repeat("p", most-6), true},
		{ref + strings.Repeat("p", most-5), false},
	} {
		want := "<sealed>"
		if tt.shown {
			want = strings.Replace(tt.text, ref, "<mask>", 1)
		}
		if v, _, err := table.Combine(tt.text); err != nil || v.Mask != want {
			t.Errorf("the mask has %d bytes, want %d (%v)", len(v.Mask), len(want), err)
		}
	}
}

// Split returns no empty pieces.
func TestEmptyPieces(t *testing.T) {
	table := newTable()
	a, b := sealValue(t, table, seal.Value{Text: "a"}), sealValue(t, table, seal.Value{Text: "b"})
	for text, want := range map[string]int{a: 1, a + b: 2, "x" + a: 2, a + "x": 2, "x" + a + "y" + b + "z": 5} {
		pieces, err := table.Split(text)
		if err != nil || len(pieces) != want {
			t.Errorf("%d pieces, want %d: %v", len(pieces), want, err)
		}
	}
}

// A value that each call reads, changes and stores again does not get more origins each time.
func TestRestoredValueSize(t *testing.T) {
	cache := tokencache.New[[]seal.Piece](8, 8, time.Now)
	key, first := tokencache.Key{Name: "k"}, tokencache.Key{Name: "first"}
	pieces := []seal.Piece{{Sealed: true, Value: seal.Value{Text: "secret"}}, {Text: " and "}, {Sealed: true, Value: seal.Value{Text: "more"}}}
	entry := cache.Set(first, pieces, time.Hour)
	for range 100 {
		table := newTable()
		text := testworld.Must(table.Join(entry.Value, entry.Handle))(t)
		from := table.From(text).Entries()
		want := []*tokencache.Handle{entry.Handle}
		if entry.Handle.Key == key {
			want = append(want, from[len(from)-1]) // the first entry, which is still in the cache
		}
		if !slices.Equal(from, want) || from[len(from)-1].Key != first {
			t.Fatalf("%d origins, want %d", len(from), len(want))
		}
		pieces = testworld.Must(table.Split(text))(t)
		entry = cache.Set(key, pieces, time.Hour)
	}
}

// Values of one entry that came from different entries keep their own origins, so that a 401 drops no other entry than those that its
// value came from.
func TestValuesOfOneEntryKeepTheirOrigins(t *testing.T) {
	cache := tokencache.New[[]seal.Piece](8, 8, time.Now)
	origin := func(name string) *tokencache.Handle {
		return cache.Set(tokencache.Key{Name: name}, nil, time.Hour).Handle
	}
	one, two := origin("one"), origin("two")
	var pieces []seal.Piece
	for _, from := range []*tokencache.Handle{one, two, two, one} {
		pieces = append(pieces, seal.Piece{Sealed: true, Value: seal.Value{Text: "secret", From: seal.From(from)}})
	}
	entry, table := cache.Set(tokencache.Key{Name: "both"}, pieces, time.Hour), newTable()
	text := testworld.Must(table.Join(entry.Value, entry.Handle))(t)
	var got []*tokencache.Handle
	for v := range table.In(text) {
		got = append(got, v.From.Entries()...)
	}
	if all := entry.Handle; !slices.Equal(got, []*tokencache.Handle{all, one, all, two, all, two, all, one}) {
		t.Errorf("the origins are %v", got)
	}
}
