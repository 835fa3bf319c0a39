package docs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// The files that docs/gateway.md, docs/several-nodes.md and docs/sessions.md show can be loaded.
func TestTheFileOfTheGateway(t *testing.T) {
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "company-ca.pem"), []byte(testworld.NewAuthority(t).PEM()), 0o600))
	for _, b := range slices.Concat(blocks(t, "docs/gateway.md"), blocks(t, "docs/several-nodes.md"), blocks(t, "docs/sessions.md")) {
		if b.info != "yaml" {
			continue
		}
		set := testworld.Must(connectors.Read(t.Context(), filepath.Join(dir, "connectors.yaml"), []byte(b.text), connectors.Options{WithoutStore: true}))(t)
		testworld.Check(t, set.Close(t.Context()))
	}
}

// No example of the documents has a credential in it, as check sees it.
func TestNoExampleHasACredential(t *testing.T) {
	looked := 0
	for _, name := range []string{
		"README.md", "docs/gateway.md", "docs/auth-types.md", "docs/several-nodes.md", "docs/sessions.md", "docs/plugins.md", "docs/registries.md", "docs/import.md", "docs/audit.md",
	} {
		for _, b := range blocks(t, name) {
			text := b.text
			if strings.HasPrefix(text, "- name: ") {
				text = "connectors:\n" + text
			}
			if b.info != "yaml" || !strings.Contains(text, "connectors:") {
				continue
			}
			looked++
			set, err := connectors.Read(t.Context(), filepath.Join(t.TempDir(), "connectors.yaml"), []byte(text), connectors.Options{WithoutStore: true, Inspect: true})
			var wrong *connectors.Error
			var warnings []connectors.Problem
			switch {
			case errors.As(err, &wrong): // an example may name files and plugins that are not here
				warnings = wrong.Warnings
			case err != nil:
				t.Fatal(err)
			default:
				warnings = set.Warnings
				testworld.Check(t, set.Close(t.Context()))
			}
			for _, p := range warnings {
				if strings.Contains(p.Message, "credential") {
					t.Errorf("%s:%d: p = %s", name, b.line, p)
				}
			}
		}
	}
	if looked < 35 {
		t.Errorf("there are %d examples only", looked)
	}
}
