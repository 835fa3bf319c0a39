package conform_test

import (
	"testing"

	"github.com/keywright/keywright/host/hosttest/conform"
)

// A test of an author is one line, in any language of the plugin.
func TestConformance(t *testing.T) { conform.Test(t, "../../../examples/acme_hmac_c/acme_hmac_c.wasm") }
