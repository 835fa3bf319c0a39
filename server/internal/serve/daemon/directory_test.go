package daemon_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// The files of connectors_dir are followed: one that is added, one that is wrong, and one that is taken away. All of them count, or
// nothing does.
func TestConnectorDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "connectors.d")
	testworld.Check(t, os.Mkdir(dir, 0o700))
	w := start(t, version, "connectors_dir: "+dir+"\n"+echo)
	put := func(name, text string) {
		t.Helper()
		temporary := filepath.Join(filepath.Dir(dir), "new")
		testworld.Check(t, os.WriteFile(temporary, []byte(strings.ReplaceAll(text, "API", w.api.URL)), 0o600))
		testworld.Check(t, os.Rename(temporary, filepath.Join(dir, name)))
	}
	status := func(connector string) int {
		t.Helper()
		status, _ := w.get(w.callers + "/connectors/" + connector)
		return status
	}
	connector := "connectors:\n" + named("Added")
	put("added.yaml", connector)
	if said := w.said(); !strings.Contains(said, "the configuration is in use") || status("added") != http.StatusOK {
		t.Errorf("with a file more: %s, %d", said, status("added"))
	}
	put("wrong.yaml", "connectors:\n  - name: Wrong\n")
	if said := w.said(); !strings.Contains(said, "wrong.yaml:2:5: connectors.wrong") || status("added") != http.StatusOK {
		t.Errorf("with a file that is wrong: %s, %d", said, status("added"))
	}
	put("wrong.yaml", strings.Replace(connector, "Added", "Mended", 1))
	for said := w.said(); !strings.Contains(said, "the configuration is in use"); {
		said = w.said()
	}
	testworld.Check(t, os.Remove(filepath.Join(dir, "added.yaml")))
	if said := w.said(); !strings.Contains(said, "the configuration is in use") || status("added") != http.StatusNotFound || status("mended") != http.StatusOK {
		t.Errorf("with a file less: %s, %d, %d", said, status("added"), status("mended"))
	}
}
