package conform_test

import (
	"context"
	"fmt"
	"os"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/conform"
)

// A program reads the report.
func ExampleRun() {
	wasm, err := os.ReadFile("../../plugins/none/none.wasm")
	if err != nil {
		panic(err)
	}
	report, err := conform.Run(context.Background(), hosttest.Module{Name: "none.wasm", Wasm: wasm})
	if err != nil {
		panic(err)
	}
	for _, check := range report.Checks {
		if !check.Passed {
			fmt.Println(check.Name, check.Findings)
		}
	}
	fmt.Println(report.Name, report.Conforms)
	// Output: none.wasm true
}
