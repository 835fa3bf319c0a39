package docs

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/jws"
)

// specified is the page that the tests in this file compare with the code.
const specified = "docs/specification.md"

// docs/specification.md lists every algorithm.
func TestTheSpecifiedAlgorithms(t *testing.T) {
	for _, algorithm := range jws.Algorithms() {
		if !strings.Contains(under(t, specified, "### Signatures"), algorithm) {
			t.Errorf("%s does not have the algorithm %s", specified, algorithm)
		}
	}
}
