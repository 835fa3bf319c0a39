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
