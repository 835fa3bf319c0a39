package seal

import (
	"slices"

	"github.com/keywright/keywright/host/internal/tokencache"
)

// Origins are the cache entries that a value came from. It does not change once it is made, so that values share it. Nil
// is none.
type Origins struct {
	entries []*tokencache.Handle
}

// From returns the origins of a value that came from these entries. Each is there once.
func From(entries ...*tokencache.Handle) *Origins { return &Origins{entries} }

// Entries lists them, each once.
func (o *Origins) Entries() []*tokencache.Handle {
	if o == nil {
		return nil
	}
	return o.entries
}

// And returns the origins of what is made from two values.
func (o *Origins) And(other *Origins) *Origins {
	switch {
	case other == nil || o == other:
		return o
	case o == nil:
		return other
	}
	all := slices.Clone(o.entries)
	for _, h := range other.entries {
		if !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	return &Origins{all}
}

// through returns the origins of a value that an entry held: that entry, and what the value came from when it was stored.
// Entries that are gone are left out, or a value that each call stores anew would get one more origin each time. A
// partition has few entries that are not gone.
func (o *Origins) through(h *tokencache.Handle) *Origins {
	all := []*tokencache.Handle{h}
	for _, earlier := range o.Entries() {
		if earlier != h && !earlier.Gone() {
			all = append(all, earlier)
		}
	}
	return &Origins{all}
}
