package imports_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/onboard/imports"
)

var update = flag.Bool("update", false, "write what is imported into the cases")

// Each file of testdata is a document or a command line of curl, with the connector that it becomes, what was decided and which
// secrets there are, or with the error. The loader of the gateway takes each connector.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive := testworld.Must(txtar.ParseFile(name))(t)
			got := run(t, archive)
			last := &archive.Files[len(archive.Files)-1]
			if last.Name != "want" {
				archive.Files = append(archive.Files, txtar.File{Name: "want"})
				last = &archive.Files[len(archive.Files)-1]
			}
			if *update {
				last.Data = []byte(got)
				testworld.Check(t, os.WriteFile(name, txtar.Format(archive), 0o644))
				return
			}
			if got != string(last.Data) {
				t.Errorf("got\n%s\nwant\n%s", got, last.Data)
			}
		})
	}
}

// run imports a case, and returns the result as a text.
func run(t *testing.T, archive *txtar.Archive) string {
	t.Helper()
	var o imports.Options
	for line := range strings.Lines(string(archive.Comment)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if field := map[string]*string{"scheme": &o.Scheme, "flow": &o.Flow, "name": &o.Name, "url": &o.URL, "token-url": &o.TokenURL, "paths": &o.Paths}[name]; field != nil {
			*field = value
		}
	}
	input := archive.Files[0]
	do := imports.OpenAPI
	if input.Name == "curl" {
		do = func(text []byte, o imports.Options) (*imports.Result, error) {
			return imports.CurlLine(string(text), o)
		}
	}
	result, err := do(input.Data, o)
	var missing imports.Missing
	switch {
	case errors.As(err, &missing):
		return "missing: " + strings.Join(missing, "\nmissing: ") + "\n"
	case err != nil:
		return "error: " + err.Error() + "\n"
	}
	load(t, result)
	var b strings.Builder
	b.WriteString(result.Connector.YAML())
	for _, note := range result.Notes {
		b.WriteString("note: " + note + "\n")
	}
	for _, s := range result.Secrets {
		b.WriteString("secret: " + s.Name + ", " + s.What + "\n")
	}
	for _, v := range result.Variables {
		b.WriteString("variable: " + v.Name + ", " + v.What + "\n")
	}
	return b.String()
}

// load loads a connector with made-up secrets, as the gateway does.
func load(t *testing.T, result *imports.Result) {
	t.Helper()
	text, err := connectors.AddConnector(t.Context(), []byte("state: {type: sqlite, path: s.db, keys: [\"{{ get_secret('state') }}\"]}\nconnectors:\n"), result.Connector.YAML())
	if err != nil {
		t.Errorf("err = %v\nresult.Connector.YAML() = %s", err, result.Connector.YAML())
		return
	}
	variables := map[string]string{}
	for _, v := range result.Variables {
		variables[v.Name] = "made-up"
	}
	set, err := connectors.Read(t.Context(), "connectors.yaml", text, connectors.Options{
		WithoutStore: true, Environment: true, Host: host.Config{Variables: variables},
	})
	if err != nil {
		t.Errorf("err = %v\ntext = %s", err, text)
		return
	}
	testworld.Check(t, set.Close(t.Context()))
}
