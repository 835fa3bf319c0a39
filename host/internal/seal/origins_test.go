package seal_test

import (
	"slices"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/internal/testworld"
)

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
