package main

import (
	"cmp"
	"context"
	_ "embed" // for steps.txt
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/onboard/catalogue"
	"github.com/keywright/keywright/server/internal/onboard/imports"
	"github.com/keywright/keywright/server/internal/terminal"
)

type newFlags struct {
	api, file, name, url, place string
	sandbox                     bool
	set                         []string
}

func connectorNewCommand(a *app) *cobra.Command {
	var flags newFlags
	c := command("new", nil, func(c *cobra.Command, _ []string) error {
		if flags.api == "" {
			return misuse(c, "without --api: `keywright connector list` lists the APIs")
		}
		api, err := flags.connector(c)
		if err != nil {
			return err
		}
		document, _, err := a.newDocument(c.Context(), "the connector", api.Item(), api.NeedsState(), host.Config{})
		if err != nil {
			return err
		}
		file, out := flags.file, a.out
		if file == "-" {
			file, out = "", a.err
		}
		wrote, err := a.addToFile(c.Context(), file, api.Name, api.Item(), document)
		if err == nil {
			err = writeSteps(out, cmp.Or(file, "connectors.yaml"), wrote, api)
		}
		return err
	})
	c.Flags().StringVar(&flags.api, "api", "", "the `NAME` of the product in the catalogue")
	c.Flags().StringVarP(&flags.file, "config", "c", "-", "add the connector to a `FILE`, which need not be there, or to its connectors_dir if all others are there; - is stdout")
	c.Flags().StringVar(&flags.name, "name", "", "the `NAME` of the connector, for a second one of a product; its secrets then have that name, too")
	c.Flags().BoolVar(&flags.sandbox, "sandbox", false, "the sandbox of the product, as --place sandbox")
	c.Flags().StringVar(&flags.place, "place", "", "an environment or region of the product that docs/apis.md names: a `PLACE` such as eu")
	c.Flags().StringVar(&flags.url, "url", "", "the `URL` of the API, if it is another than in the catalogue; the product's other URLs move with it")
	c.Flags().StringArrayVar(&flags.set, "set", nil, "a text to replace in the connector, `TEXT=VALUE`; may be repeated")
	return c
}

// connector returns the product of the catalogue, as the flags change it.
func (f *newFlags) connector(c *cobra.Command) (*catalogue.API, error) {
	api, err := catalogue.Find(f.api)
	if err != nil {
		return nil, err
	}
	o := catalogue.Options{Name: f.name, Permalink: gateway.Permalink(f.name), Place: f.place, URL: f.url, Set: map[string]string{}}
	if f.sandbox && f.place != "" || o.URL != "" && (f.sandbox || f.place != "") {
		return nil, misuse(c, "one of --sandbox, --place and --url is enough")
	}
	if f.sandbox {
		o.Place = "sandbox"
	}
	if f.name != "" && o.Permalink == "" {
		return nil, misuse(c, "--name %q has neither a letter from a to z nor a digit", f.name)
	}
	for _, pair := range f.set {
		text, value, ok := strings.Cut(pair, "=")
		if !ok || text == "" {
			return nil, misuse(c, "--set wants TEXT=VALUE, not %q", pair)
		}
		o.Set[text] = value
	}
	return api.With(o)
}

//go:embed steps.txt
var stepsText string

// steps says what to do next, a step each: what to fill in, and the commands that try the connector.
var steps = template.Must(template.New("steps.txt").Funcs(template.FuncMap{"env": expr.EnvName, "quote": imports.Quote, "value": exampleValue}).Parse(stepsText))

// writeSteps writes the steps. file is the one to load, and wrote says what was written.
func writeSteps(w io.Writer, file string, wrote placement, api *catalogue.API) error {
	schema := ""
	if wrote.schema != "" {
		schema = schemaWritten(wrote.schema)
	}
	return steps.Execute(w, map[string]any{
		"Target": cmp.Or(wrote.file, file), "File": file, "Schema": schema, "API": api, "StateLines": stateLines,
		"StateKey": api.NeedsState() && wrote.isNew, "Consent": api.AuthType() == "oauth_authorization_code",
	})
}

// exampleValue returns the value of a secret in an assignment of a shell.
func exampleValue(f *catalogue.Fill) string {
	if strings.HasPrefix(f.Example, "-----BEGIN") || strings.HasPrefix(f.Example, "{") {
		return `"$(cat ` + cmp.Or(f.MadeFile(), "FILE") + `)"`
	}
	return "'" + f.Example + "'"
}

func connectorListCommand(a *app) *cobra.Command {
	return a.jsonCommand("list", nil, func(*cobra.Command, []string) (document, error) {
		apis, err := catalogue.All()
		if err != nil {
			return nil, err
		}
		list := apiList{}
		for _, api := range apis {
			list = append(list, apiItem{api.Name, api.Title, api.AuthType(), api.Summary, api.Docs})
		}
		return list, nil
	})
}

// apiList is the document of connector list.
type apiList []apiItem

type apiItem struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Type    string `json:"type"`
	Summary string `json:"summary"`
	Docs    string `json:"docs"`
}

func (list apiList) print(a *app) {
	terminal.List(a.out, "", list, func(api apiItem) []string { return []string{api.Name, api.Type, api.Title + ": " + api.Summary} }, "NAME", "TYPE", "SUMMARY")
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
	a.cleanup(set.Close)
	return document, set.Connectors[0].Definition().Permalink, nil
}

// placement says what addToFile wrote.
type placement struct {
	// file is the path of the file with the connector, or "" for stdout. isNew reports that all of the document is in it.
	file  string
	isNew bool
	// schema is the path of the schema, or "" if none was written.
	schema string
}

// addToFile adds a connector to a file, and returns what it wrote. For the file "", it writes document to stdout. If there is no such file,
// it writes document with a modeline for editors, and the schema beside it. If all connectors of the file are in a directory, it writes a
// file of that (specification.md "a new connector").
func (a *app) addToFile(ctx context.Context, file, permalink, item string, document []byte) (placement, error) {
	if file == "" {
		_, err := a.out.Write(document)
		return placement{isNew: true}, err
	}
	previous, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(file, append([]byte(modeline(file)), document...), 0o644); err != nil {
			return placement{}, err
		}
		schema, err := a.writeSchemaBeside(ctx, file)
		return placement{file: file, isNew: true, schema: schema}, err
	}
	if err != nil {
		return placement{}, fmt.Errorf("%s: %w", file, errors.Unwrap(err))
	}
	layout, err := connectors.LayoutOf(ctx, file, previous)
	if err != nil {
		return placement{}, fmt.Errorf("%s: %w", file, err)
	}
	if conflict := layout.Files[permalink]; conflict != "" {
		return placement{}, fmt.Errorf("%s has a connector %s already: give the new one another name with --name", conflict, permalink)
	}
	if layout.Dir != "" && !layout.Listed {
		target, err := addToDirectory(ctx, file, layout.Dir, permalink, item)
		return placement{file: target}, err
	}
	text, err := connectors.AddConnector(ctx, previous, item)
	if err != nil {
		return placement{}, fmt.Errorf("%s: %w", file, err)
	}
	return placement{file: file}, os.WriteFile(file, text, 0o644) // with the permissions that it has
}

// addToDirectory writes a file with a connector to the directory of connectors of a file, and returns its path. It has a modeline if there
// is a schema beside the file.
func addToDirectory(ctx context.Context, configFile, dir, permalink, item string) (string, error) {
	text, err := connectors.AddConnector(ctx, []byte("connectors:\n"), item)
	if err != nil {
		return "", err
	}
	schema := schemaName(configFile)
	relative, err := filepath.Rel(dir, schema)
	if _, absent := os.Stat(schema); err == nil && absent == nil {
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
