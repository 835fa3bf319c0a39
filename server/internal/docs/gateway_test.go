package docs

import (
	"testing"

	"github.com/keywright/keywright/server/connectors"
)

// The files that docs/gateway.md shows can be loaded.
func TestTheFileOfTheGateway(t *testing.T) {
	for _, b := range blocks(t, "docs/gateway.md") {
		if b.info != "yaml" {
			continue
		}
		set, err := connectors.Read(t.Context(), "connectors.yaml", []byte(b.text), connectors.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
