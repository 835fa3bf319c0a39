package state

// Sweep removes from a store of [NewMemory] the rows that it may forget.
func Sweep(s Store) {
	m := s.(*memory) //nolint:forcetypeassert // of NewMemory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(m.now())
}

// Rows returns the number of rows of a store of [NewMemory].
func Rows(s Store) int { return len(s.(*memory).rows) } //nolint:forcetypeassert // of NewMemory
