package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
)

func schemaCommand(a *app) *cobra.Command {
	var file, output string
	var strict bool
	c := &cobra.Command{
		Use:   "schema [-c FILE] [-o FILE] [--strict]",
		Short: "Write a JSON Schema of the file with the connectors, for editors",
		Long: "Writes a JSON Schema (draft-07) of the file with the connectors: every member with its meaning, and the fields of every auth type, " +
			"the built-in ones and with -c those of the plugins of a file. An editor completes, explains and checks by it.\n\n" +
			"`keywright schema -c connectors.yaml -o connectors.schema.json` writes it beside the file, whose first line names it: " +
			"# yaml-language-server: $schema=connectors.schema.json. Write it again when a plugin changes, and after an upgrade.\n\n" +
			"Of the file, only the member plugins is read, so the rest may be wrong. No secret is read, and nothing is sent.",
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := a.schemaOf(c.Context(), file)
			if err == nil && strict {
				text, err = connectors.StrictSchema(text)
			}
			if err != nil {
				return err
			}
			if output == "-" {
				_, err = a.out.Write(text)
				return err
			}
			return writeSchema(output, text)
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "a `FILE` with connectors, whose plugins have auth types of their own")
	c.Flags().BoolVar(&strict, "strict", false, "leave out the words for editors, which are no keywords of JSON Schema: validators such as ajv refuse them")
	c.Flags().StringVarP(&output, "output", "o", "-", "write to a `FILE`, which may be an older schema; - is stdout")
	return c
}

// schemaOf returns the schema of a file, or with "" that of a file without plugins.
func (a *app) schemaOf(ctx context.Context, file string) (schema []byte, err error) {
	config := host.Config{Logger: a.logger(), CodeCache: codeCache(ctx)}
	var infos []host.PluginInfo
	if file != "" {
		infos, err = connectors.Plugins(ctx, file, connectors.Options{PluginCache: pluginCache(), Host: config})
	} else {
		infos, err = a.builtIns(ctx, config)
	}
	if err != nil {
		return nil, err
	}
	return connectors.Schema(infos)
}

// writeSchema writes a schema to a file. It returns an error for a file that is no schema that was written so: the file with the
// connectors is easily named by mistake.
func writeSchema(name string, text []byte) error {
	previous, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.WriteFile(name, text, 0o644)
	case err != nil:
		return err
	case len(bytes.TrimSpace(previous)) > 0 && !isSchema(previous):
		return fmt.Errorf("%s is there, and is no schema of keywright: name another file with -o", name)
	}
	return writeInPlace(name, text)
}

func isSchema(text []byte) bool {
	var s struct {
		Comment string `json:"$comment"`
	}
	return json.Unmarshal(text, &s) == nil && s.Comment == connectors.SchemaComment
}

// schemaName returns the name of the schema beside a file: connectors.schema.json for connectors.yaml.
func schemaName(file string) string {
	return strings.TrimSuffix(file, filepath.Ext(file)) + ".schema.json"
}

// modeline returns the line by which editors find the schema beside a file.
func modeline(file string) string {
	return modelineOf(filepath.Base(schemaName(file)))
}

// modelineOf returns the line by which editors find a schema. schema is its path from the file with the line.
func modelineOf(schema string) string {
	return "# yaml-language-server: $schema=" + (&url.URL{Path: filepath.ToSlash(schema)}).EscapedPath() + "\n"
}

// refreshSchema writes the schema beside a file that names it in its first line. If there is no such file, it does nothing.
func (a *app) refreshSchema(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !bytes.HasPrefix(text, []byte(modeline(file))):
		return nil
	}
	schema, err := a.schemaOf(ctx, file)
	if err != nil {
		return err
	}
	return writeSchema(schemaName(file), schema)
}

// writeSchemaBeside writes the schema that the modeline of a new file names, and returns its path. If there is a file of that name, it
// writes nothing, and returns "".
func (a *app) writeSchemaBeside(ctx context.Context, file string) (string, error) {
	name := schemaName(file)
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	text, err := a.schemaOf(ctx, file)
	if err != nil {
		return "", err
	}
	return name, writeSchema(name, text)
}

// schemaWritten returns the line that says which schema a command has written beside a file.
func schemaWritten(name string) string {
	return name + ": the JSON Schema of the file, by which editors complete and check it"
}
