package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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

// added says what addToFile wrote.
type added struct {
	// written is the path of the file with the connector. made reports that it is new and that all of the document is in it.
	written string
	made    bool
	// schema is the path of the schema, or "" if none was written.
	schema string
}

// addToFile adds a connector to a file, and returns what it wrote. If there is no such file, it writes document with a modeline for
// editors, and the schema beside it. If all connectors of the file are in a directory, it writes a file of that (decisions.md
// "a new connector").
func (a *app) addToFile(ctx context.Context, file, permalink, item string, document []byte) (added, error) {
	before, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(file, append([]byte(modeline(file)), document...), 0o644); err != nil {
			return added{}, err
		}
		schema, err := a.writeSchemaBeside(ctx, file)
		return added{written: file, made: true, schema: schema}, err
	}
	if err != nil {
		return added{}, fmt.Errorf("%s: %w", file, errors.Unwrap(err))
	}
	layout, err := connectors.LayoutOf(ctx, file, before)
	if err != nil {
		return added{}, fmt.Errorf("%s: %w", file, err)
	}
	if other := layout.Files[permalink]; other != "" {
		return added{}, fmt.Errorf("%s has a connector %s already: give the new one another name with --name", other, permalink)
	}
	if layout.Dir != "" && !layout.Listed {
		written, err := addToDirectory(ctx, file, layout.Dir, permalink, item)
		return added{written: written}, err
	}
	text, err := connectors.AddConnector(ctx, before, item)
	if err != nil {
		return added{}, fmt.Errorf("%s: %w", file, err)
	}
	return added{written: file}, writeInPlace(file, text)
}

// addToDirectory writes a file with a connector to the directory of connectors of a file, and returns its path. It has a modeline if there
// is a schema beside the file.
func addToDirectory(ctx context.Context, of, dir, permalink, item string) (string, error) {
	text, err := connectors.AddConnector(ctx, []byte("connectors:\n"), item)
	if err != nil {
		return "", err
	}
	schema := schemaName(of)
	relative, err := filepath.Rel(dir, schema)
	if _, missing := os.Stat(schema); err == nil && missing == nil {
		text = append([]byte(modelineOf(relative)), text...)
	}
	name := filepath.Join(dir, permalink+".yaml")
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", fmt.Errorf("%s: %w: put the connector into a file of this directory by hand; without -c it goes to stdout", name, errors.Unwrap(err))
	}
	_, err = file.Write(text)
	return name, errors.Join(err, file.Close())
}
