package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// The commands of docs/import.md, from the first to the last, write what the page says, and what they import can be loaded.
func TestThePageOfImports(t *testing.T) {
	dir := testworld.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	r := &reader{checkout: filepath.Join(dir, "work"), dir: filepath.Join(dir, "work")}
	testworld.Check(t, os.Mkdir(r.checkout, 0o755))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "bin", "keywright"), "../../cmd/keywright")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("err = %v\nout = %s", err, out)
	}
	ran := 0
	for _, b := range blocks(t, "docs/import.md") {
		file, isFile := strings.CutPrefix(b.marker, "file: ")
		switch {
		case isFile:
			r.write(t, file, b.text)
		case b.marker == "output":
			r.compare(t, b)
		case b.info == "sh":
			r.run(t, b)
			ran++
		default:
			t.Errorf("docs/import.md:%d: this block of %q is not tested", b.line, b.info)
		}
	}
	if ran < 3 {
		t.Errorf("docs/import.md has %d blocks of commands", ran)
	}
}
