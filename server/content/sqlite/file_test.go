package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/sqlite"
)

// made returns the path of a database with one article.
func made(t *testing.T, id string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "content.db")
	store := testworld.Must(sqlite.Open(t.Context(), path))(t)
	testworld.Check(t, store.Write(t.Context(), []content.Record{{Article: &content.Article{ID: id}}}))
	testworld.Check(t, store.Close())
	return path
}

// threats.md 380: no answer is of another file than the one that was opened: connections that are open would go on with the old one.
func TestReplacedFile(t *testing.T) {
	path, other := made(t, "old"), made(t, "new")
	store := testworld.Must(sqlite.Open(t.Context(), path))(t)
	defer store.Close()
	if articles, err := store.Articles(t.Context(), 0, 1); err != nil || len(articles) != 1 {
		t.Fatal(articles, err)
	}
	away := path + ".away"
	testworld.Check(t, os.Rename(path, away))
	if _, err := store.Articles(t.Context(), 0, 1); !errors.Is(err, content.ErrUnavailable) || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("without the file, the error is %v", err)
	}
	testworld.Check(t, os.Rename(other, path))
	_, err := store.Articles(t.Context(), 0, 1)
	written := store.Write(t.Context(), []content.Record{{Moderator: &content.Moderator{ID: "1"}}})
	for _, err := range []error{err, written} {
		if !errors.Is(err, content.ErrUnavailable) || !strings.Contains(err.Error(), "was replaced") {
			t.Errorf("with another file, the error is %v", err)
		}
	}
	testworld.Check(t, os.Rename(away, path))
	if articles, err := store.Articles(t.Context(), 0, 1); err != nil || len(articles) != 1 || articles[0].ID != "old" {
		t.Errorf("after its return, the file has %v, %v", articles, err)
	}
}

// A database on a read-only disk can be read. If somebody else writes it all the same, nothing is answered from half of what was written.
func TestReadOnlyDatabase(t *testing.T) {
	for name, immutable := range map[string]bool{"files of SQLite beside it": false, "nothing beside it": true} {
		t.Run(name, func(t *testing.T) {
			path := made(t, "a1")
			store := testworld.Must(sqlite.OpenAs(t.Context(), path, immutable))(t)
			defer store.Close()
			articles, err := store.Articles(t.Context(), 0, 1)
			if err != nil || len(articles) != 1 || articles[0].ID != "a1" {
				t.Errorf("there are %v, %v", articles, err)
			}
			if err := store.Write(t.Context(), []content.Record{{Moderator: &content.Moderator{ID: "1"}}}); err == nil || !strings.Contains(err.Error(), "can only be read") {
				t.Errorf("writing ends with %v", err)
			}
			writer := testworld.Must(sqlite.Open(t.Context(), path))(t)
			defer writer.Close()
			testworld.Check(t, writer.Write(t.Context(), []content.Record{{Article: &content.Article{ID: "a2"}}}))
			articles, err = store.Articles(t.Context(), 0, 2)
			switch {
			case !immutable && (err != nil || len(articles) != 2):
				t.Errorf("beside a writer there are %v, %v", articles, err)
			case immutable && (!errors.Is(err, content.ErrUnavailable) || !strings.Contains(err.Error(), "being written")):
				t.Errorf("beside a writer, the error is %v", err)
			}
			if _, err := sqlite.OpenAs(t.Context(), path, true); err == nil || !strings.Contains(err.Error(), "without its log") {
				t.Errorf("with a log beside it, the error is %v", err)
			}
		})
	}
	if _, err := sqlite.OpenToRead(t.Context(), filepath.Join(t.TempDir(), "none.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a file that is not there, the error is %v", err)
	}
}
