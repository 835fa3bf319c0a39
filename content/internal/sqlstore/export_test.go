package sqlstore

// SelectArticles is how a page is found.
const SelectArticles = selectArticles

// SmallChunks makes a store split and merge chunks of a few articles, and sections of a few chunks.
func (s *Store) SmallChunks() { s.limits = limits{articles: 6, chunks: 4} }
