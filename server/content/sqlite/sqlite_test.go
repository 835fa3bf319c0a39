package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/sqlite"
)

// A file name may contain characters that have a meaning in URIs.
func TestNamesOfFiles(t *testing.T) {
	for _, name := range []string{"content.db", "my content.db", "100%.db", "what?mode=memory", "a#b", "a%20b", "ü", "file:x", "a&_pragma=query_only(1)"} {
		path := filepath.Join(t.TempDir(), name)
		for range 2 {
			store := testworld.Must(sqlite.Open(t.Context(), path))(t)
			testworld.Check(t, store.Write(t.Context(), []content.Record{{Moderator: &content.Moderator{ID: "m"}}}))
			if ok, err := store.Moderator(t.Context(), "m"); !ok || err != nil {
				t.Error(name, ok, err)
			}
			testworld.Check(t, store.Close())
		}
		// Close has removed the other files.
		if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 || files[0].Name() != name {
			t.Errorf("%s: there are the files %v", name, files)
		}
	}
}

func TestOnlyTheUserReadsTheFiles(t *testing.T) {
	directory := t.TempDir()
	store := testworld.Must(sqlite.Open(t.Context(), filepath.Join(directory, "content.db")))(t)
	defer store.Close()
	files, err := os.ReadDir(directory)
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if info, err := file.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %s, %v", file.Name(), info.Mode(), err)
		}
	}
}

func TestOpenRejectsOtherFiles(t *testing.T) {
	directory := t.TempDir()
	text := filepath.Join(directory, "text")
	testworld.Check(t, os.WriteFile(text, []byte(strings.Repeat("this is text, and not a database\n", 100)), 0o600))
	newer := filepath.Join(directory, "newer")
	store := testworld.Must(sqlite.Open(t.Context(), newer))(t)
	_ = store.Close()
	raw := testworld.Must(sql.Open("sqlite", newer))(t)
	testworld.Must(raw.ExecContext(t.Context(), `INSERT INTO content_migrations (version_id, is_applied, oldest) VALUES (1000, 1, 1000)`))(t)
	_ = raw.Close()
	for path, want := range map[string]string{
		directory:                                "it is a directory",
		filepath.Join(directory, "missing", "x"): "its directory does not exist: make it first",
		text:                                     "not a database of SQLite",
		filepath.Join(text, "x"):                 "not a directory",
		newer:                                    "use a newer program",
	} {
		err := testworld.ErrorOf(sqlite.Open(t.Context(), path))
		if testworld.WantError(t, path, err, want); err != nil && strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: %q does not say once where", path, err)
		}
	}
	if content, _ := os.ReadFile(text); !strings.HasPrefix(string(content), "this is text") {
		t.Error("the file with text is another now")
	}
}

// What was deleted is not in the files any more: threats.md 191.
func TestDeletedContentOverwritten(t *testing.T) {
	const canary = "canary-of-a-deleted-reply"
	directory := t.TempDir()
	path := filepath.Join(directory, "content.db")
	store := testworld.Must(sqlite.Open(t.Context(), path))(t)
	defer store.Close()
	reply := content.Record{ArticleID: "a", Reply: &content.Reply{ID: "r", Content: strings.Repeat(canary, 5000)}} // several pages of the file
	title := content.Record{ProductUpdate: &content.ProductUpdate{ID: "u", Title: canary}}
	testworld.Check(t, store.Write(t.Context(), []content.Record{{Article: &content.Article{ID: "a"}}, reply, title}))
	if !anyHas(t, directory, canary) {
		t.Fatal("the files do not have the records, so this test sees nothing")
	}
	title.Deleted = true
	testworld.Check(t, store.Write(t.Context(), []content.Record{{Article: &content.Article{ID: "a"}, Deleted: true}, title}))
	testworld.Check(t, store.Close())
	if anyHas(t, directory, canary) {
		t.Error("the file has what was deleted")
	}
}

// anyHas reports whether a file in a directory has a text.
func anyHas(t *testing.T, directory, text string) bool {
	t.Helper()
	files := testworld.Must(os.ReadDir(directory))(t)
	for _, file := range files {
		content := testworld.Must(os.ReadFile(filepath.Join(directory, file.Name())))(t)
		if strings.Contains(string(content), text) {
			return true
		}
	}
	return false
}

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
			testworld.WantError(t, "writing", store.Write(t.Context(), []content.Record{{Moderator: &content.Moderator{ID: "1"}}}), "can only be read")
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
			testworld.Fails(sqlite.OpenAs(t.Context(), path, true))(t, "without its log")
		})
	}
	if _, err := sqlite.OpenToRead(t.Context(), filepath.Join(t.TempDir(), "none.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a file that is not there, the error is %v", err)
	}
}
