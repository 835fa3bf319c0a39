package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/scaffold"
)

func (a *app) pluginNew() *cobra.Command {
	var p scaffold.Plugin
	var lang, checkout string
	c := &cobra.Command{
		Use:   "new DIR [--lang go|c|assemblyscript] [--type TYPE]",
		Short: "Write the directory of a new plugin",
		Long: "Writes a directory with a plugin that builds and can be tried at once: in Go, in C or in AssemblyScript. The lines to " +
			"change are marked. Then run `keywright plugin build` in it.\n\n" +
			"Choose Go unless you have a reason: only a plugin in Go can also be tested outside of the sandbox, and is checked for what " +
			"compiles and does not work there. Modules in C are the smallest, and are compiled in less than a second. AssemblyScript is " +
			"for those who write TypeScript.",
		Args: arguments("DIR"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if p.Language, err = language(lang); err != nil {
				return err
			}
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
			return a.newPlugin(c.Context(), p, dir, checkout)
		},
	}
	c.Flags().StringVar(&p.Type, "type", "", "the `TYPE` of auth that the plugin adds; that of the directory's name unless given")
	c.Flags().StringVar(&lang, "lang", string(pluginbuild.Go), "the `LANGUAGE` of the plugin: go, c or assemblyscript")
	c.Flags().StringVar(&checkout, "keywright", "", "the `DIR` of a checkout of Keywright that a plugin in Go is built with")
	c.DisableFlagsInUseLine = true
	return c
}

// language returns the language with a name.
func language(name string) (pluginbuild.Language, error) {
	var known []string
	for _, l := range pluginbuild.Languages() {
		if string(l) == name {
			return l, nil
		}
		known = append(known, string(l))
	}
	return "", fmt.Errorf("--lang %s is not a language of plugins%s", problem.Quote(host.Printable(name)), problem.DidYouMean(name, known))
}

// newPlugin writes the directory of a plugin, and prints what to do next.
func (a *app) newPlugin(ctx context.Context, p scaffold.Plugin, dir, checkout string) (err error) {
	p.Version = scaffold.Published()
	switch p.Language {
	case pluginbuild.C:
		p.Packages = strings.Join(pluginbuild.ClangPackages(), " ")
	case pluginbuild.AssemblyScript:
		p.Packages = strings.Join(pluginbuild.NodePackages(), " ")
	default:
		p.Packages = strings.Join(pluginbuild.AllPackages(), " ")
		if p.Version == "" || checkout != "" {
			p.Version = ""
			if p.Checkout, err = scaffold.Checkout(checkout); err != nil {
				return err
			}
		}
		checkout = ""
	}
	if checkout != "" {
		return fmt.Errorf("--keywright is for plugins in Go: one with --lang %s needs no checkout", p.Language)
	}
	if err := p.Write(dir); err != nil {
		return err
	}
	if p.Language == pluginbuild.Go {
		tidy := exec.CommandContext(ctx, "go", "mod", "tidy")
		tidy.Dir, tidy.Env = dir, append(os.Environ(), "GOWORK=off")
		if out, err := tidy.CombinedOutput(); err != nil {
			return fmt.Errorf("%s is written, but `go mod tidy` fails in it: %w\n%s", dir, err, strings.TrimSpace(string(out)))
		}
	}
	_, err = fmt.Fprintf(a.out, "%s: a plugin with the auth type %s. The lines to change are marked with CHANGE.\n\n  cd %s\n  keywright plugin build\n  keywright plugin test\n", dir, p.Type, dir)
	return err
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
