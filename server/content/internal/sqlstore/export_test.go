package sqlstore

import "database/sql"

// SelectArticles is the statement that reads a page.
const SelectArticles = selectArticles

// The statements that read records for content.Everybody.
const (
	SelectShownProductUpdate = selectShownProductUpdate
	SelectShownReply         = selectShownReply
)

// SmallChunks makes a store split and merge chunks of a few articles, and sections of a few chunks.
func (s *Store) SmallChunks() { s.limits = limits{articles: 6, chunks: 4} }

// Reads returns the database for reading.
func (s *Store) Reads() *sql.DB { return s.config.Reads }

// OneConnection returns the database for writing, and limits it to one connection.
func (s *Store) OneConnection() *sql.DB {
	s.config.Writes.SetMaxOpenConns(1)
	return s.config.Writes
}
