package sqlstore

import "database/sql"

// SelectArticles is how a page is found.
const SelectArticles = selectArticles

// What records are read with for everybody.
const (
	SelectShownProductUpdate = selectShownProductUpdate
	SelectShownReply         = selectShownReply
)

// SmallChunks makes a store split and merge chunks of a few articles, and sections of a few chunks.
func (s *Store) SmallChunks() { s.limits = limits{articles: 6, chunks: 4} }

// Reads returns the database that is read from.
func (s *Store) Reads() *sql.DB { return s.config.Reads }

// OneConnection returns the database that is written to, which has no more than one connection from then on.
func (s *Store) OneConnection() *sql.DB {
	s.config.Writes.SetMaxOpenConns(1)
	return s.config.Writes
}
