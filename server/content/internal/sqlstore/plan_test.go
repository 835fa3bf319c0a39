package sqlstore_test

import (
	"fmt"
	"testing"

	"github.com/keywright/keywright/server/content"
)

// Writing a batch does not read all articles, though PostgreSQL planned the statements for an empty table.
func TestBatchesDoNotReadAllArticles(t *testing.T) {
	store := empty(t, "postgres").open(t)
	connection := store.OneConnection()
	const batches, size = 20, 128
	for b := range batches {
		var records []content.Record
		for i := range size {
			id := fmt.Sprint(b*size + i)
			records = append(records, article(id, ""), reply(id, "r", "2026-03-01T00:00:00+00:00"))
		}
		write(t, store, records...)
		write(t, store, records...) // reads the articles of this batch
	}
	if _, err := connection.ExecContext(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
		t.Fatal(err)
	}
	var read int
	if err := connection.QueryRowContext(t.Context(), `SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'articles_pkey'`).Scan(&read); err != nil {
		t.Fatal(err)
	}
	if read < batches*size || read > 4*batches*size {
		t.Errorf("to write %d articles twice, %d were read", batches*size, read)
	}
}
