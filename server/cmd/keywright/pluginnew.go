package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/scaffold"
)

func (a *app) pluginNew() *cobra.Command {
	var p scaffold.Plugin
	var checkout string
	c := &cobra.Command{
		Use:   "new DIR [--type TYPE]",
		Short: "Write the directory of a new plugin",
		Long: "Writes a directory with a plugin in Go that builds, passes its tests and can be tried at once. The lines to change are " +
			"marked. Then run `keywright plugin build` in it.",
		Args: arguments("DIR"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			dir := args[0]
			absolute, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			if p.Name = filepath.Base(absolute); p.Type == "" {
				p.Type = strings.ReplaceAll(p.Name, "-", "_")
			}
			if plugins.Of(p.Type) != nil {
				return fmt.Errorf("%q is the name of a built-in auth type, and no host loads both: give the plugin another one with --type", p.Type)
			}
			if p.Version, p.Checkout, err = scaffold.Keywright(checkout); err != nil {
				return err
			}
			p.Packages = strings.Join(pluginbuild.AllPackages(), " ")
			if err := p.Write(dir); err != nil {
				return err
			}
			tidy := exec.CommandContext(c.Context(), "go", "mod", "tidy")
			tidy.Dir, tidy.Env = dir, append(os.Environ(), "GOWORK=off")
			if out, err := tidy.CombinedOutput(); err != nil {
				return fmt.Errorf("%s is written, but `go mod tidy` fails in it: %w\n%s", dir, err, strings.TrimSpace(string(out)))
			}
			_, err = fmt.Fprintf(a.out, "%s: a plugin with the auth type %s. The lines to change are marked with CHANGE.\n\n  cd %s\n  keywright plugin build\n  go test .\n", dir, p.Type, dir)
			return err
		},
	}
	c.Flags().StringVar(&p.Type, "type", "", "the `TYPE` of auth that the plugin adds; that of the directory's name unless given")
	c.Flags().StringVar(&checkout, "keywright", "", "the `DIR` of a checkout of Keywright that the plugin is built with")
	c.DisableFlagsInUseLine = true
	return c
}

// fieldsTable returns the fields of a plugin as a table in Markdown.
func fieldsTable(info host.PluginInfo) string {
	var b strings.Builder
	b.WriteString("| field | kind | required | secret | goes to | meaning |\n|-|-|-|-|-|-|\n")
	word := map[bool]string{true: "yes"}
	for _, f := range withSinks(info.Fields) {
		_, _ = fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", f.Name, f.Kind, word[f.Required], word[f.Sealed || f.Kind == abi.KindKey],
			strings.Join(f.Sinks, ", "), strings.ReplaceAll(host.Printable(f.Doc), "|", `\|`))
	}
	return b.String()
}
