package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/scaffold"
)

func (a *app) pluginBuild() *cobra.Command {
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
	c.DisableFlagsInUseLine = true
	return c
}

// compiler returns the compiler for the plugin in a directory.
func (a *app) compiler(ctx context.Context, dir string) (pluginbuild.Compiler, error) {
	language, err := pluginbuild.LanguageOf(dir)
	if err != nil {
		return pluginbuild.Compiler{}, err
	}
	switch language {
	case pluginbuild.C:
		return pluginbuild.FindClang(ctx)
	case pluginbuild.AssemblyScript:
		return pluginbuild.FindAssemblyScript(ctx, dir, func(command string) {
			a.printErr("keywright: %s in %s, once: it installs AssemblyScript", command, dir)
		})
	default:
		return a.tinygo(ctx)
	}
}

// tinygo returns the compiler, which it builds if there is none.
func (a *app) tinygo(ctx context.Context) (pluginbuild.Compiler, error) {
	cache, err := pluginbuild.Cache()
	if err != nil {
		return pluginbuild.Compiler{}, err
	}
	err = pluginbuild.Install(ctx, cache, func() {
		a.printErr("keywright: building TinyGo %s in %s, once: this takes about two minutes", pluginbuild.Pinned, cache)
	})
	if err != nil {
		return pluginbuild.Compiler{}, err
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
		_, err := fmt.Fprintf(a.out, "%s is what its sources result in\n", out)
		return err
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
	_, err = fmt.Fprintf(a.out, "%s: auth type %s %s, %.1f kB\n", out, host.Printable(info.Type), host.Printable(info.Version), float64(info.Size)/1000)
	for _, name := range append([]string{info.Type}, info.Aliases...) {
		if plugins.Of(name) != nil {
			a.printErr("keywright: %q is the name of a built-in auth type: give the plugin another one, because no host loads both", host.Printable(name))
		}
	}
	return err
}
