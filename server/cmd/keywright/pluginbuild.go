package main

import (
	"context"
	"errors"
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
	"github.com/keywright/keywright/server/internal/registry/scaffold"
)

func pluginNewCommand(a *app) *cobra.Command {
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
	return c
}

// language returns the language with a name.
func language(name string) (pluginbuild.Language, error) {
	var names []string
	for _, l := range pluginbuild.Languages() {
		if string(l) == name {
			return l, nil
		}
		names = append(names, string(l))
	}
	return "", fmt.Errorf("--lang %s is not a language of plugins%s", problem.Quote(host.Printable(name)), problem.DidYouMean(name, names))
}

// packages are the Debian packages that plugins are built with.
var packages = map[pluginbuild.Language][]string{
	pluginbuild.Go: pluginbuild.AllPackages(), pluginbuild.C: pluginbuild.ClangPackages(), pluginbuild.AssemblyScript: pluginbuild.NodePackages(),
}

// newPlugin writes the directory of a plugin, and prints what to do next.
func (a *app) newPlugin(ctx context.Context, p scaffold.Plugin, dir, checkout string) (err error) {
	p.Version = scaffold.Published()
	switch p.Packages = strings.Join(packages[p.Language], " "); {
	case p.Language != pluginbuild.Go && checkout != "":
		return fmt.Errorf("--keywright is for plugins in Go: one with --lang %s needs no checkout", p.Language)
	case p.Language == pluginbuild.Go && (p.Version == "" || checkout != ""):
		p.Version = ""
		if p.Checkout, err = scaffold.Checkout(checkout); err != nil {
			return err
		}
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
	a.out.Printf("%s: a plugin with the auth type %s. The lines to change are marked with CHANGE.\n\n"+
		"  cd %s\n  keywright plugin build\n  keywright plugin test\n", dir, p.Type, dir)
	return nil
}

// fieldsTable returns the fields of a plugin as a table in Markdown.
func fieldsTable(info host.PluginInfo) string {
	var b strings.Builder
	b.WriteString("| field | kind | required | secret | goes to | meaning |\n|-|-|-|-|-|-|\n")
	for _, f := range withSinks(info.Fields) {
		_, _ = fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", f.Name, f.Kind, yes[f.Required], yes[f.Sealed || f.Kind == abi.KindKey],
			strings.Join(f.Sinks, ", "), strings.ReplaceAll(host.Printable(f.Doc), "|", `\|`))
	}
	return b.String()
}

func pluginBuildCommand(a *app) *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "build [--check] [DIR...]",
		Short: "Compile plugins, and load them as a host does",
		Long: "Compiles the plugin in each directory DIR, or in this one, and writes the module beside the sources, with the name of the " +
			"directory. The module is loaded as a host does: an error names the line, or what to change. The same sources result in the " +
			"same bytes.\n\n" +
			"A directory with Go files has a plugin in Go, one with C files has one in C, and one with package.json and asconfig.json " +
			"has one in AssemblyScript. Go is compiled with TinyGo, after its sources are checked for what compiles and does not work in the sandbox; C " +
			"with clang and wasm-ld on PATH, clang-19 if it is there; AssemblyScript with the version in node_modules, which npm " +
			"installs if it is missing.\n\n" +
			"TinyGo is the one that " + pluginbuild.CompilerVariable + " names, or that on PATH, or one that the first build makes in your cache " +
			"directory. That takes about two minutes and some packages of Debian, which are named if they are missing.",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, dirs []string) error {
			if len(dirs) == 0 {
				dirs = []string{"."}
			}
			var errs []error
			for _, dir := range dirs {
				if c.Context().Err() != nil {
					break
				}
				errs = append(errs, a.buildPlugin(c.Context(), dir, check))
			}
			return errors.Join(append(errs, c.Context().Err())...)
		},
	}
	c.Flags().BoolVar(&check, "check", false, "write no module, and fail if the one that is there is not what the sources result in")
	return c
}

// compiler returns the compiler for the plugin in a directory. It builds TinyGo if there is none.
func (a *app) compiler(ctx context.Context, dir string) (compiler pluginbuild.Compiler, err error) {
	language, err := pluginbuild.LanguageOf(dir)
	if err != nil {
		return compiler, err
	}
	switch language {
	case pluginbuild.C:
		return pluginbuild.FindClang(ctx)
	case pluginbuild.AssemblyScript:
		return pluginbuild.FindAssemblyScript(ctx, dir, func(command string) {
			a.printErr("keywright: %s in %s, once: it installs AssemblyScript", command, dir)
		})
	}
	cache, err := pluginbuild.Cache()
	if err == nil {
		err = pluginbuild.Install(ctx, cache, func() {
			a.printErr("keywright: building TinyGo %s in %s, once: this takes about two minutes", pluginbuild.Pinned, cache)
		})
	}
	if err != nil {
		return compiler, err
	}
	return pluginbuild.FindCompiler(ctx, cache)
}

// buildPlugin builds a plugin and prints what it is, or compares it with the module that is there.
func (a *app) buildPlugin(ctx context.Context, dir string, check bool) error {
	compiler, err := a.compiler(ctx, dir)
	if err != nil {
		return err
	}
	out, err := pluginbuild.OutputPath(dir)
	if err != nil {
		return err
	}
	if check {
		if err := compiler.Check(ctx, dir); err != nil {
			return err
		}
		a.out.Printf("%s is what its sources result in\n", out)
		return nil
	}
	var info host.PluginInfo
	compiler.Accept = func(ctx context.Context, name string, wasm []byte) (_ []string, err error) {
		info, err = host.Inspect(ctx, host.Plugin{Name: name, Wasm: wasm}, host.Limits{})
		return info.SealedFields(), err
	}
	if err := compiler.Build(ctx, dir); err != nil {
		return err
	}
	if err := scaffold.WriteFields(dir, fieldsTable(info)); err != nil {
		return fmt.Errorf("the table of fields in README.md: %w", err)
	}
	if err := a.refreshSchema(ctx, filepath.Join(dir, "connectors.yaml")); err != nil { // such as that of a copy, which names another module
		a.printErr("keywright: the module is built; the schema beside connectors.yaml is not renewed: %v", err)
	}
	a.out.Printf("%s: auth type %s %s, %s\n", out, host.Printable(info.Type), host.Printable(info.Version), kilobytes(info.Size))
	for _, name := range append([]string{info.Type}, info.Aliases...) {
		if plugins.Of(name) != nil {
			a.printErr("keywright: %q is the name of a built-in auth type: give the plugin another one, because no host loads both", host.Printable(name))
		}
	}
	return nil
}
