package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/server/connectors"
)

func (a *app) connector() *cobra.Command {
	c := &cobra.Command{
		Use:   "connector",
		Short: "Make connectors: of well-known products, OpenAPI documents and curl lines",
		Args:  cobra.ArbitraryArgs, // so that RunE gets an unknown command
		RunE:  noCommand,
	}
	c.AddCommand(a.connectorNew(), a.connectorList(), a.connectorImport())
	return c
}

// stateLines are the lines of a store of state in a file of SQLite, for auth types whose tokens may be used once.
const stateLines = `state:
  type: sqlite
  path: state.db
  keys: ["{{ get_secret('state-key') }}"]
`

// addToFile adds a connector to a file. If there is no such file, it writes document with a modeline for editors, and the schema beside
// it, and reports that it did.
func (a *app) addToFile(ctx context.Context, file, permalink, item string, document []byte) (made bool, err error) {
	before, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(file, append([]byte(modeline(file)), document...), 0o644); err != nil {
			return false, err
		}
		return true, a.writeSchemaBeside(ctx, file)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", file, errors.Unwrap(err))
	}
	taken, err := connectors.Permalinks(ctx, before)
	if err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	if slices.Contains(taken, permalink) {
		return false, fmt.Errorf("%s has a connector %s already: give the new one another name with --name", file, permalink)
	}
	text, err := connectors.AddConnector(ctx, before, item)
	if err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	return false, writeInPlace(file, text)
}
