package conform_test

import (
	"testing"

	"github.com/keywright/keywright/host/hosttest/conform"
)

// A plugin of any language is checked by its module.
func ExampleTest() {
	TestConformance := func(t *testing.T) { conform.Test(t, "acme.wasm") }
	_ = TestConformance
}
