package daemon_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files of connectors_dir are followed: one that is added, one that is wrong, and one that is taken away. All of them count, or
// nothing does.
func TestConnectorDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "connectors.d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := start(t, version, "connectors_dir: "+dir+"\n"+echo)
	put := func(name, text string) {
		t.Helper()
		temporary := filepath.Join(filepath.Dir(dir), "new")
		if err := os.WriteFile(temporary, []byte(strings.ReplaceAll(text, "API", w.api.URL)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(temporary, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
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
	if err := os.Remove(filepath.Join(dir, "added.yaml")); err != nil {
		t.Fatal(err)
	}
	if said := w.said(); !strings.Contains(said, "the configuration is in use") || status("added") != http.StatusNotFound || status("mended") != http.StatusOK {
		t.Errorf("with a file less: %s, %d, %d", said, status("added"), status("mended"))
	}
}
