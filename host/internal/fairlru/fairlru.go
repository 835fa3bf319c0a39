// Package fairlru keeps values within a number of bytes that their owners share. Without room, the owner with the most bytes loses
// the value that it has not used for longest. So an owner loses nothing to one with more, and a single owner may have all bytes.
package fairlru

import (
	"container/heap"
	"math"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache holds values of owners by key. It is not safe for concurrent use. The same key of two owners is two keys.
type Cache[K comparable, V any] struct {
	// If not nil, Used reports whether a value was used since its last call, without a call of Get. Such a value is passed over once.
	Used func(V) bool
	// If not nil, Dropped is called with each value that has lost its place to others, or that is replaced.
	Dropped func(V)

	limit, size int64
	owners      map[string]*owner[K, V]
	// bySize has the owner with the most bytes first.
	bySize bySize[K, V]
	len    int
}

type owner[K comparable, V any] struct {
	name   string
	bytes  int64
	values *simplelru.LRU[K, value[V]]
	// index is the index in bySize.
	index int
}

type value[V any] struct {
	v    V
	size int64
}

// New returns an empty cache for values of this many bytes.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, owners: map[string]*owner[K, V]{}}
}

// Add adds a value of a size, in place of one that has its key. A value that has more than all bytes is dropped at once.
func (c *Cache[K, V]) Add(name string, k K, v V, size int64) {
	if old, ok := c.Peek(name, k); ok {
		c.Remove(name, k)
		c.drop(old)
	}
	if size > c.limit {
		c.drop(v)
		return
	}
	o := c.owners[name]
	if o == nil {
		values, _ := simplelru.NewLRU[K, value[V]](math.MaxInt, nil) // the only error is for sizes below one
		o = &owner[K, V]{name: name, values: values}
		c.owners[name] = o
		heap.Push(&c.bySize, o)
	}
	o.values.Add(k, value[V]{v, size})
	c.grow(o, size)
	c.len++
	c.Resize(c.limit)
}

// Resize sets the number of bytes, and drops what has no room then.
func (c *Cache[K, V]) Resize(limit int64) {
	for c.limit = limit; c.size > limit; {
		o := c.bySize[0]
		for range o.values.Len() {
			k, oldest, _ := o.values.GetOldest()
			if c.Used == nil || !c.Used(oldest.v) {
				break
			}
			o.values.Get(k)
		}
		k, oldest, _ := o.values.GetOldest()
		c.Remove(o.name, k)
		c.drop(oldest.v)
	}
}

// Get returns the value of a key, and makes it the one that its owner has used last.
func (c *Cache[K, V]) Get(name string, k K) (v V, ok bool) {
	if o := c.owners[name]; o != nil {
		found, ok := o.values.Get(k)
		return found.v, ok
	}
	return v, false
}

// Peek is like Get, but does not count as a use.
func (c *Cache[K, V]) Peek(name string, k K) (v V, ok bool) {
	if o := c.owners[name]; o != nil {
		found, ok := o.values.Peek(k)
		return found.v, ok
	}
	return v, false
}

// Remove removes the value of a key, if there is one. It does not call Dropped.
func (c *Cache[K, V]) Remove(name string, k K) {
	o := c.owners[name]
	if o == nil {
		return
	}
	old, ok := o.values.Peek(k)
	if !ok {
		return
	}
	o.values.Remove(k)
	c.grow(o, -old.size)
	c.len--
	if o.values.Len() == 0 {
		delete(c.owners, name)
		heap.Remove(&c.bySize, o.index)
	}
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() int { return c.len }

func (c *Cache[K, V]) drop(v V) {
	if c.Dropped != nil {
		c.Dropped(v)
	}
}

func (c *Cache[K, V]) grow(o *owner[K, V], bytes int64) {
	o.bytes += bytes
	c.size += bytes
	heap.Fix(&c.bySize, o.index)
}

type bySize[K comparable, V any] []*owner[K, V]

func (s bySize[K, V]) Len() int           { return len(s) }
func (s bySize[K, V]) Less(i, j int) bool { return s[i].bytes > s[j].bytes }

func (s bySize[K, V]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

func (s *bySize[K, V]) Push(x any) {
	o := x.(*owner[K, V]) //nolint:forcetypeassert // the package pushes nothing else
	o.index = len(*s)
	*s = append(*s, o)
}

func (s *bySize[K, V]) Pop() any {
	last := len(*s) - 1
	o := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return o
}
