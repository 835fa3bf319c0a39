package connectors_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// directory writes files, each under its path, and returns the path of connectors.yaml among them.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		testworld.Check(t, os.MkdirAll(filepath.Dir(name), 0o700))
		testworld.Check(t, os.WriteFile(name, []byte(text), 0o600))
	}
	return filepath.Join(dir, "connectors.yaml")
}

// named is a list with a connector.
func named(name string) string {
	return "connectors:\n  - name: " + name + "\n    url: https://api.example.com\n    auth: {type: none}\n"
}

func TestDirectoryOfConnectors(t *testing.T) {
	name := directory(t, map[string]string{
		"connectors.yaml": "connectors_dir: connectors.d\n" + named("Main"), "connectors.d/b.yaml": "# yaml-language-server: $schema=x\n" + named("B"), "connectors.d/10.yaml": named("Ten"),
		"connectors.d/c.yaml": `{"connectors": [{"name": "C", "url": "https://api.example.com", "auth": {"type": "none"}}]}`,
		"connectors.d/README": "no YAML: [", "connectors.d/.hidden.yaml": "no YAML: [", "connectors.d/c.yaml~": "no YAML: [",
		"connectors.d/..data/k.yaml": named("K"),
	})
	dir := filepath.Dir(name)
	if err := os.Symlink("..data/k.yaml", filepath.Join(dir, "connectors.d", "k.yaml")); err != nil { // as Kubernetes mounts files
		t.Fatal(err)
	}
	set := testworld.Must(connectors.Load(t.Context(), name, connectors.Options{}))(t)
	t.Cleanup(func() { _ = set.Close(t.Context()) })
	var permalinks []string
	for _, c := range set.Connectors {
		permalinks = append(permalinks, c.Definition().Permalink)
	}
	if got := strings.Join(permalinks, " "); got != "main ten b c k" {
		t.Errorf("the connectors are %s", got)
	}
	for _, file := range []string{"connectors.d", "connectors.d/10.yaml", "connectors.d/b.yaml", "connectors.d/c.yaml", "connectors.d/k.yaml"} {
		if !slices.Contains(set.Files, filepath.Join(dir, file)) {
			t.Errorf("%s is not among the files: %v", file, set.Files)
		}
	}
}

// Each problem names its file, with the line there, and nothing is loaded.
func TestProblemsOfADirectory(t *testing.T) {
	const main = "connectors_dir: d\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"no directory":   {map[string]string{"connectors.yaml": main}, []string{"connectors.yaml:1:17: connectors_dir: cannot be read: no such file or directory"}},
		"a syntax error": {map[string]string{"connectors.yaml": main, "d/a.yaml": named("A"), "d/b.yaml": "connectors:\n  - name: [\n"}, []string{"d/b.yaml:3:1: is not well-formed YAML"}},
		"duplicates": {
			map[string]string{"connectors.yaml": main + named("One"), "d/a.yaml": "\n" + named("Two"), "d/b.yaml": named("One"), "d/c.yaml": "\r\n\r\n" + named("two")},
			[]string{"d/b.yaml:2:11: connectors.one: its permalink is also that of the connector on line 3 of the file that names this directory", "d/c.yaml:4:11: connectors.two: its permalink is also that of the connector on line 3 of DIR/d/a.yaml"},
		},
		"twice in one":       {map[string]string{"connectors.yaml": main, "d/a.yaml": named("A") + strings.TrimPrefix(named("A"), "connectors:\n")}, []string{"d/a.yaml:5:11: connectors.a: its permalink is also that of the connector on line 2:"}},
		"a member twice":     {map[string]string{"connectors.yaml": main, "d/a.yaml": named("A") + "    name: C\n"}, []string{"d/a.yaml:5:5: connectors.a.name: is there twice, first on line 2:"}},
		"twice in JSON":      {map[string]string{"connectors.yaml": main, "d/a.yaml": `{"connectors": [` + "\n\n" + `{"name": "A", "url": "https://api.example.com", "auth": {"type": "none"},` + "\n" + `"name": "C"}]}`}, []string{"d/a.yaml:4:1: connectors.a.name: is there twice, first on line 3:"}},
		"an empty file":      {map[string]string{"connectors.yaml": main, "d/a.yaml": named("A"), "d/b.yaml": ""}, []string{"d/b.yaml:1:1: is empty"}},
		"other members":      {map[string]string{"connectors.yaml": main, "d/a.yaml": "egress: {allow: [10.0.0.0/8]}\n" + named("A")}, []string{"d/a.yaml:1:1: egress: may not stand here"}},
		"no connectors":      {map[string]string{"connectors.yaml": main, "d/a.yaml": "{}\n"}, []string{"d/a.yaml:1:1: has no connectors"}},
		"empty":              {map[string]string{"connectors.yaml": main, "d/a.yaml": "\n"}, []string{"d/a.yaml:1:1: is empty"}},
		"of another name":    {map[string]string{"connectors.yaml": main, "d/a.yml": named("A")}, []string{"connectors.yaml:1:17: connectors_dir: has the file a.yml, which is not read: call it a.yaml"}},
		"a field of another": {map[string]string{"connectors.yaml": main, "d/a.yaml": named("A"), "d/b.yaml": strings.Replace(named("B"), "none", "nome", 1)}, []string{"d/b.yaml:4:18: connectors.b.auth.type: there is no auth type"}},
		"an expression": {
			map[string]string{"connectors.yaml": main, "d/a.yaml": named("A"), "d/b.yaml": named("B") + "    headers: [{name: X, value: \"{{ nope }}\"}]\n"},
			[]string{"d/b.yaml:5:36: connectors.b.headers[0].value: "},
		},
		"nothing at all": {map[string]string{"connectors.yaml": main, "d/README": ""}, []string{"connectors.yaml:1:17: connectors_dir: has no connectors"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := directory(t, c.files)
			_, err := connectors.Load(t.Context(), file, connectors.Options{})
			var wrong *connectors.Error
			if !errors.As(err, &wrong) || len(wrong.Problems) != len(c.want) {
				t.Fatalf("err = %v", err)
			}
			lines := strings.Split(strings.ReplaceAll(err.Error(), filepath.Dir(file), "DIR"), "\n")
			for i, want := range c.want {
				if !strings.HasPrefix(lines[i], "DIR/"+want) {
					t.Errorf("%s\nwant DIR/%s", lines[i], want)
				}
			}
		})
	}
}

// The files together cost no more than one file.
func TestDirectoryBound(t *testing.T) {
	for name, c := range map[string]struct {
		files int
		text  func(i int) string
		want  string
	}{
		"files":  {1001, func(i int) string { return named(fmt.Sprint("A", i)) }, "has more than 1000 files"},
		"bytes":  {5, func(i int) string { return "# " + strings.Repeat("a", 900<<10) + "\n" + named(fmt.Sprint("A", i)) }, "more than 4 MiB"},
		"marks":  {3, func(i int) string { return "# " + strings.Repeat(",", 40_000) + "\n" + named(fmt.Sprint("A", i)) }, "more than 100000 marks"},
		"values": {3, func(int) string { return "connectors: [" + strings.Repeat("1,", 20_000) + "]\n" }, "more than 50000 values"},
	} {
		files := map[string]string{"connectors.yaml": "connectors_dir: d\n"}
		for i := range c.files {
			files[fmt.Sprintf("d/%d.yaml", i)] = c.text(i)
		}
		if _, err := connectors.Load(t.Context(), directory(t, files), connectors.Options{}); err == nil || !strings.Contains(err.Error(), "connectors_dir: has ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: fmt.Sprint(err) = %.300s", name, fmt.Sprint(err))
		}
	}
}

// A directory holds as many connectors in JSON as one file in JSON, in which marks do not count.
func TestADirectoryOfJSON(t *testing.T) {
	files := map[string]string{"connectors.yaml": "connectors_dir: d\n"}
	for part := range 2 {
		var all []string
		for i := range 3300 {
			all = append(all, fmt.Sprintf(`{"name": "c %d %d", "url": "https://api.example.com", "auth": {"type": "none"}}`, part, i))
		}
		files[fmt.Sprintf("d/%d.yaml", part)] = `{"connectors": [` + strings.Join(all, ", ") + `]}`
	}
	set := testworld.Must(connectors.Load(t.Context(), directory(t, files), connectors.Options{}))(t)
	if err := set.Close(t.Context()); err != nil || len(set.Connectors) != 6600 {
		t.Errorf("%d connectors, %v", len(set.Connectors), err)
	}
}

func TestIrregularFiles(t *testing.T) {
	name := directory(t, map[string]string{"connectors.yaml": "connectors_dir: d\n", "d/a.yaml/b": ""})
	testworld.Fails(connectors.Load(t.Context(), name, connectors.Options{}))(t, "a.yaml, which cannot be read: it is no regular file")
}
