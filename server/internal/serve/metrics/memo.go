package metrics

import (
	"maps"
	"sync"
)

// Memo holds a value for each key, such as the metrics of a connector: to look them up by their labels takes longer than to count. The
// zero value is empty. It is safe for concurrent use.
type Memo[K comparable, V any] struct {
	mu     sync.RWMutex
	values map[K]V
}

// Of returns the value of a key. If there is none, it is the result of create.
func (m *Memo[K, V]) Of(key K, create func(K) V) V {
	if v, ok := m.Find(key); ok {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[key]
	if !ok {
		if m.values == nil {
			m.values = map[K]V{}
		}
		v = create(key)
		m.values[key] = v
	}
	return v
}

// Find returns the value of a key, if there is one.
func (m *Memo[K, V]) Find(key K) (v V, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok = m.values[key]
	return v, ok
}

// All returns a copy of all values, by key.
func (m *Memo[K, V]) All() map[K]V {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.values)
}

// Remove removes the values of the keys for which stale returns true.
func (m *Memo[K, V]) Remove(stale func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.values, func(key K, _ V) bool { return stale(key) })
}
