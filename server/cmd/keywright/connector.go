package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/catalogue"
)

func connectorListCommand(a *app) *cobra.Command {
	return a.showing(&cobra.Command{
		Use:   "list",
		Short: "List the products of the catalogue, with their auth types",
		Long:  "Lists the products of the catalogue, with their auth types. `keywright connector new --api NAME` makes a connector of one.",
	}, func(*cobra.Command, []string) (document, error) {
		apis, err := catalogue.All()
		if err != nil {
			return nil, err
		}
		list := apiList{}
		for _, api := range apis {
			list = append(list, listedAPI{api.Name, api.Title, api.AuthType(), api.Summary, api.Docs})
		}
		return list, nil
	})
}

// apiList is the document of connector list.
type apiList []listedAPI

type listedAPI struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Type    string `json:"type"`
	Summary string `json:"summary"`
	Docs    string `json:"docs"`
}

func (list apiList) print(a *app) {
	rows := [][]string{{"NAME", "TYPE", "SUMMARY"}}
	for _, api := range list {
		rows = append(rows, []string{api.Name, api.Type, api.Title + ": " + api.Summary})
	}
	a.out.Table(rows)
}

// stateLines are the lines of a store of state in a file of SQLite, for auth types whose tokens may be used once.
const stateLines = `state:
  type: sqlite
  path: state.db
  keys: ["{{ get_secret('state-key') }}"]
`

// newDocument returns a file with a connector alone, and the connector's permalink. It returns an error unless the gateway could
// load the file. name is that of the file in errors.
func (a *app) newDocument(
	ctx context.Context, name, item string, needsState bool, config host.Config,
) (document []byte, permalink string, err error) {
	document, err = connectors.AddConnector(ctx, []byte("connectors:\n"), item)
	if err != nil {
		return nil, "", err
	}
	if needsState {
		document = append([]byte(stateLines), document...)
	}
	config.Secrets, config.Logger = host.EnvSecrets(), a.logger()
	set, err := connectors.Read(ctx, name, document, connectors.Options{Environment: true, WithoutStore: true, Host: config})
	if err != nil {
		return nil, "", err
	}
	defer closeSet(ctx, set)
	return document, set.Connectors[0].Definition().Permalink, nil
}

// added says what addToFile wrote.
type added struct {
	// written is the path of the file with the connector. made reports that it is new and that all of the document is in it.
	written string
	made    bool
	// schema is the path of the schema, or "" if none was written.
	schema string
}

// addToFile adds a connector to a file, and returns what it wrote. If there is no such file, it writes document with a modeline for
// editors, and the schema beside it. If all connectors of the file are in a directory, it writes a file of that (specification.md
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
