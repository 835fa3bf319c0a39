package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
)

// SQLite's log does not grow without bound while there are always readers.
func TestTheLogEnds(t *testing.T) {
	const maxLog, batch = 1 << 20, 200
	path := filepath.Join(t.TempDir(), "content.db")
	store := testworld.Must(open(t.Context(), path, maxLog))(t)
	defer store.Close()
	var done atomic.Bool
	var readers sync.WaitGroup
	defer readers.Wait()
	defer done.Store(true)
	for range 4 {
		readers.Go(func() {
			for !done.Load() {
				if _, err := store.Articles(t.Context(), 0, 25); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	body := strings.Repeat("x", 4<<10)
	for round := range 30 {
		var records []content.Record
		for i := range batch {
			records = append(records, content.Record{Article: &content.Article{ID: fmt.Sprint(round, " ", i), Body: body}})
		}
		testworld.Check(t, store.Write(t.Context(), records))
		info := testworld.Must(os.Stat(path + "-wal"))(t)
		if info.Size() > 16<<20 { // a batch adds about 2 MiB
			t.Fatalf("after %d batches, the log has %d bytes", round, info.Size())
		}
	}
}

// OpenAs opens a database to read it.
var OpenAs = openAs
