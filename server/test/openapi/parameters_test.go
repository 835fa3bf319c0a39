package openapi

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/server/internal/onboard/imports"
)

// usual are the usual names of credentials among the parameters of operations, in small letters.
var usual = []string{"header authorization", "header x-api-key", "header apikey", "header api-key", "header api_key", "header x-auth-token", "query api_key", "query apikey", "query access_token"}

// asks reports whether a document has operations with a parameter of a usual name.
func (d *operations) asks() bool {
	for _, text := range d.Paths {
		var path map[string]json.RawMessage
		_ = json.Unmarshal(text, &path) // an extension may be anything
		for name, text := range path {
			var parameters []parameter
			if name == "parameters" {
				_ = json.Unmarshal(text, &parameters)
			} else {
				var operation struct{ Parameters []parameter }
				_ = json.Unmarshal(text, &operation)
				parameters = operation.Parameters
			}
			for _, p := range parameters {
				if p.Ref != "" {
					p = d.Components.Parameters[p.Ref[strings.LastIndex(p.Ref, "/")+1:]]
				}
				if slices.Contains(usual, strings.ToLower(p.In+" "+p.Name)) {
					return true
				}
			}
		}
	}
	return false
}

type operations struct {
	Paths      map[string]json.RawMessage
	Components struct{ Parameters map[string]parameter }
}

type parameter struct {
	In, Name string
	Ref      string `json:"$ref"`
}

// A document without security schemes, whose operations have a parameter with the usual name of a credential, becomes a connector with
// that credential (threats.md 361).
func TestDocumentsWithoutSchemes(t *testing.T) {
	without, with := 0, 0
	err := filepath.WalkDir(directory, func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var d document
		var o operations
		if err := json.Unmarshal(text, &d); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if len(d.Components.Schemes) > 0 {
			return nil
		}
		without++
		if err := json.Unmarshal(text, &o); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		result, err := imports.OpenAPI(text, imports.Options{URL: "https://api.example.com"})
		switch {
		case err != nil:
			t.Errorf("%s: err = %v", path, err)
		case o.asks() && result.Connector.Type == "none":
			t.Errorf("%s has the type none", path)
		case result.Connector.Type != "none":
			with++
		}
		return nil
	})
	t.Logf("%d documents have no security schemes, of which %d have a credential as a parameter", without, with)
	if err != nil || without < 500 || with < 50 {
		t.Errorf("%d of %d documents without security schemes, %v", with, without, err)
	}
}
