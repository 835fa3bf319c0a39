package docs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// The files that docs/gateway.md, docs/several-nodes.md and docs/sessions.md show can be loaded.
func TestTheFileOfTheGateway(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "company-ca.pem"), []byte(testworld.NewAuthority(t).PEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, b := range slices.Concat(blocks(t, "docs/gateway.md"), blocks(t, "docs/several-nodes.md"), blocks(t, "docs/sessions.md")) {
		if b.info != "yaml" {
			continue
		}
		set, err := connectors.Read(t.Context(), filepath.Join(dir, "connectors.yaml"), []byte(b.text), connectors.Options{WithoutStore: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
