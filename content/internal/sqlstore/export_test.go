package sqlstore

// SmallChunks makes a store split and merge chunks of a few articles.
func (s *Store) SmallChunks() { s.limits = limits{most: 6, few: 3} }
