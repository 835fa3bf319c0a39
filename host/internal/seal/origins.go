package seal

import (
	"slices"

	"github.com/keywright/keywright/host/internal/tokencache"
)

// Origins is the set of cache entries that a value came from. It is immutable, so that values share it. Nil is the
// empty set.
type Origins struct {
	entries []*tokencache.Handle
}

// From returns the origins of a value that came from entries, which must not repeat.
func From(entries ...*tokencache.Handle) *Origins { return &Origins{entries} }

// Entries returns the entries, each once.
func (o *Origins) Entries() []*tokencache.Handle {
	if o == nil {
		return nil
	}
	return o.entries
}

// And returns the origins of a value that is made from two others: the union of both sets.
func (o *Origins) And(p *Origins) *Origins {
	switch {
	case p == nil || o == p:
		return o
	case o == nil:
		return p
	}
	all := slices.Clone(o.entries)
	for _, h := range p.entries {
		if !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	return &Origins{all}
}

// through returns the origins of a value that was read from the entry h: h, and the origins that the value had when it
// was stored. Entries that are gone from the cache are left out. Otherwise, a value that each call stores again would
// get one more origin each time. A partition has few entries that are not gone.
func (o *Origins) through(h *tokencache.Handle) *Origins {
	all := []*tokencache.Handle{h}
	for _, earlier := range o.Entries() {
		if earlier != h && !earlier.Gone() {
			all = append(all, earlier)
		}
	}
	return &Origins{all}
}
