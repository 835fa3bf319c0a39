package sqlstore_test

import (
	"fmt"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
)

// Writing a batch does not read all articles, though PostgreSQL planned the statements for an empty table.
func TestBatchesDoNotReadAllArticles(t *testing.T) {
	store := empty(t, "postgres").open(t)
	connection := store.OneConnection()
	const batches, size = 20, 128
	var gone []content.Record
	for b := range batches {
		var records []content.Record
		for i := range size {
			id := fmt.Sprint(b*size + i)
			records = append(records, article(id, ""), reply(id, "r", "2026-03-01T00:00:00+00:00"))
		}
		gone = append(gone, deleted(records[0]), deleted(records[3]))
		write(t, store, records...)
		write(t, store, records...) // reads the articles of this batch
	}
	for _, r := range gone {
		write(t, store, r)
	}
	testworld.Must(connection.ExecContext(t.Context(), `SELECT pg_stat_force_next_flush()`))(t)
	var read int
	testworld.Check(t, connection.QueryRowContext(t.Context(), `SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'articles_pkey'`).Scan(&read))
	if read < batches*size || read > 4*batches*size {
		t.Errorf("to write %d articles twice, %d were read", batches*size, read)
	}
	var replies int
	testworld.Check(t, connection.QueryRowContext(t.Context(), `SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'replies_pkey'`).Scan(&replies))
	if replies > 4*batches*size {
		t.Errorf("to write %d replies twice, and to remove some, %d were read", batches*size, replies)
	}
	var scanned int
	testworld.Check(t, connection.QueryRowContext(t.Context(), `SELECT COALESCE(sum(seq_tup_read), 0) FROM pg_stat_user_tables WHERE relname IN ('articles', 'replies')`).Scan(&scanned))
	if scanned > 0 {
		t.Errorf("%d rows were read without an index", scanned)
	}
}
