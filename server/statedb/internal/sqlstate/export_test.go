package sqlstate

import "database/sql"

// Reads returns the database for reading.
func (s *Store) Reads() *sql.DB { return s.config.Reads }

// Writes returns the database for writing.
func (s *Store) Writes() *sql.DB { return s.config.Writes }

// Statements returns the statements that find a row by its id, with the number of their parameters, and that of sweeping.
func (s *Store) Statements() (byID map[string]int, sweep string) {
	q := s.statements
	return map[string]int{q.get: 2, q.create: 4, q.acquire: 4, q.put: 7, q.release: 2, q.delete: 3, q.reseal: 3, q.rows: 3}, q.sweep
}

// RecordsQuery returns the statement of a page of records with a tag, with literals in place of parameters.
func (s *Store) RecordsQuery() string {
	return recordColumns + ` WHERE kind = 3 AND tag1 = '\x00' AND (written, name) < (5, '\x00') AND (expires IS NULL OR expires > 7) ORDER BY written DESC, name DESC LIMIT 50`
}
