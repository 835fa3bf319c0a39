package sqlstate

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/keywright/keywright/server/statedb"
)

// recordColumns are those that [scanRecord] reads.
const recordColumns = `SELECT name, kind, written, value FROM state_records`

// PutRecords implements [statedb.Records].
func (s *Store) PutRecords(ctx context.Context, records ...statedb.Record) error {
	limited, cancel := context.WithTimeout(ctx, s.config.Limit)
	defer cancel()
	if err := s.putRecords(limited, records); err != nil {
		return s.fault(ctx, "write records", err)
	}
	return nil
}

func (s *Store) putRecords(ctx context.Context, records []statedb.Record) error {
	if len(records) == 1 {
		return s.putRecord(ctx, s.config.Writes, &records[0])
	}
	tx, err := s.config.Writes.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it does nothing after the end
	for i := range records {
		if err := s.putRecord(ctx, tx, &records[i]); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// putRecord writes a record in a database or in a transaction.
func (s *Store) putRecord(ctx context.Context, db interface {
	ExecContext(ctx context.Context, query string, arguments ...any) (sql.Result, error)
}, r *statedb.Record,
) error {
	arguments := []any{s.now(), r.Name[:], r.Kind, nil, r.Mark, r.Value}
	if r.Lifetime > 0 {
		arguments[3] = micros(r.Lifetime)
	}
	for _, tag := range r.Tags {
		arguments = append(arguments, tagValue(tag))
	}
	_, err := db.ExecContext(ctx, s.statements.putRecord, arguments...)
	return err
}

// tagValue returns a tag as an argument. It is NULL for none.
func tagValue(tag statedb.RecordName) any {
	if tag == (statedb.RecordName{}) {
		return []byte(nil)
	}
	return tag[:]
}

// Record implements [statedb.Records].
func (s *Store) Record(ctx context.Context, name statedb.RecordName) (statedb.Record, bool, error) {
	found, err := s.records(ctx, "read a record", recordColumns+` WHERE name = $2 AND (expires IS NULL OR expires > {now})`, s.now(), name[:])
	if err != nil || len(found) == 0 {
		return statedb.Record{}, false, err
	}
	return found[0], true, nil
}

// ListRecords implements [statedb.Records].
func (s *Store) ListRecords(ctx context.Context, l statedb.List) ([]statedb.Record, error) {
	where, arguments := `kind = $2`, []any{s.now(), l.Kind, l.Limit}
	bind := func(value any) string {
		arguments = append(arguments, value)
		return fmt.Sprint("$", len(arguments))
	}
	if l.Name != (statedb.RecordName{}) {
		where += fmt.Sprintf(` AND tag%d = %s`, l.Tag%statedb.Tags, bind(l.Name[:]))
	}
	if l.Mark != 0 {
		where += ` AND mark = ` + bind(l.Mark)
	}
	if l.Last != nil {
		where += ` AND (written, name) < (` + bind(l.Last.WriteTime.UnixMicro()) + `, ` + bind(l.Last.Name[:]) + `)`
	}
	return s.records(ctx, "list records", recordColumns+` WHERE `+where+` AND (expires IS NULL OR expires > {now}) ORDER BY written DESC, name DESC LIMIT $3`, arguments...)
}

func (s *Store) records(ctx context.Context, op, query string, arguments ...any) (all []statedb.Record, err error) {
	err = s.each(ctx, s.config.Reads, s.statements.fill(query), arguments, func(rows *sql.Rows) error {
		r, err := scanRecord(rows)
		all = append(all, r)
		return err
	})
	if err != nil {
		return nil, s.fault(ctx, op, err)
	}
	return all, nil
}

func scanRecord(rows *sql.Rows) (r statedb.Record, err error) {
	var name []byte
	var micro int64
	if err = rows.Scan(&name, &r.Kind, &micro, &r.Value); err != nil {
		return r, err
	}
	if copy(r.Name[:], name) < len(r.Name) {
		return r, errID
	}
	r.WriteTime = time.UnixMicro(micro).UTC()
	return r, nil
}

// CountRecords implements [statedb.Records].
func (s *Store) CountRecords(ctx context.Context, kind statedb.Kind, tag int) (all []statedb.Count, err error) {
	column := fmt.Sprint("tag", tag%statedb.Tags)
	query := s.statements.fill(`SELECT ` + column + `, mark, count(*) FROM state_records WHERE kind = $2 AND (expires IS NULL OR expires > {now}) GROUP BY ` + column + `, mark`)
	err = s.each(ctx, s.config.Reads, query, []any{s.now(), kind}, func(rows *sql.Rows) error {
		var c statedb.Count
		var name []byte
		err := rows.Scan(&name, &c.Mark, &c.Count)
		copy(c.Tag[:], name)
		all = append(all, c)
		return err
	})
	if err != nil {
		return nil, s.fault(ctx, "count records", err)
	}
	return all, nil
}

// DeleteRecord implements [statedb.Records].
func (s *Store) DeleteRecord(ctx context.Context, name statedb.RecordName) error {
	_, err := s.exec(ctx, "delete a record", `DELETE FROM state_records WHERE name = $1`, name[:])
	return err
}

// ResealRecord implements [statedb.Records].
func (s *Store) ResealRecord(ctx context.Context, name statedb.RecordName, previous, value []byte) (bool, error) {
	n, err := s.exec(ctx, "seal a record anew", `UPDATE state_records SET value = $3 WHERE name = $1 AND value = $2`, name[:], previous, value)
	return n == 1, err
}

// exec executes a statement, and returns the number of rows that it changed.
func (s *Store) exec(ctx context.Context, op, query string, arguments ...any) (int, error) {
	limited, cancel := context.WithTimeout(ctx, s.config.Limit)
	defer cancel()
	result, err := s.config.Writes.ExecContext(limited, s.statements.fill(query), arguments...)
	if err != nil {
		return 0, s.fault(ctx, op, err)
	}
	n, _ := result.RowsAffected() // both drivers know it
	return int(n), nil
}
