package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/casefile"
	"github.com/keywright/keywright/internal/conform"
	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/onboard/imports"
)

func pluginTestCommand(a *app) *cobra.Command {
	var files []string
	var run string
	var verbose bool
	c := command("test", cobra.MaximumNArgs(1), func(c *cobra.Command, args []string) error {
		selected, err := regexp.Compile(run)
		if err != nil {
			return misuse(c, "--run: %v", err)
		}
		t := caseRun{app: a, selected: selected, verbose: verbose}
		plugin, tested, err := t.load(c, append(args, ".")[0])
		if err != nil {
			return err
		}
		if len(files) == 0 {
			files = []string{filepath.Join(filepath.Dir(plugin), "cases.yaml")}
			if _, err := os.Stat(files[0]); errors.Is(err, fs.ErrNotExist) && tested && run == "" {
				return nil
			}
		}
		for _, file := range files {
			if err := t.file(c.Context(), file); err != nil {
				return err
			}
		}
		return t.end()
	})
	c.Flags().StringArrayVar(&files, "cases", nil, "a `FILE` of cases; may be repeated")
	c.Flags().StringVar(&run, "run", "", "run only the cases whose names match a `REGEXP`")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show what each call did: what was signed, and the requests to token endpoints")
	return c
}

// goTests runs the tests that a plugin's directory has in Go, and reports whether there are any.
func (a *app) goTests(c *cobra.Command, dir string) (bool, error) {
	tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(tests) == 0 {
		return false, err
	}
	test := exec.CommandContext(c.Context(), "go", "test", ".")
	test.Dir, test.Stdout, test.Stderr = dir, a.out.Writer, a.err.Writer
	err = test.Run()
	if errors.As(err, new(*exec.ExitError)) {
		return true, errReported
	}
	if err != nil {
		return true, fmt.Errorf("go test: %w", err)
	}
	return true, nil
}

type caseRun struct {
	app           *app
	name          string
	wasm          []byte
	selected      *regexp.Regexp
	verbose       bool
	total, failed int
}

// load reads the module of a plugin and returns its path. In a directory, it runs the tests in Go first, and reports whether it has any.
func (t *caseRun) load(c *cobra.Command, plugin string) (path string, tested bool, err error) {
	if info, err := os.Stat(plugin); err == nil && info.IsDir() {
		dir := plugin
		if tested, err = t.app.goTests(c, dir); err != nil {
			return "", false, err
		}
		if plugin, err = pluginbuild.OutputPath(dir); err != nil {
			return "", false, err
		}
		if _, err := os.Stat(plugin); errors.Is(err, fs.ErrNotExist) {
			return "", false, fmt.Errorf("%s is missing: run `keywright plugin build %s`", plugin, imports.Quote(dir))
		}
		if newer, err := pluginbuild.Newer(dir); err == nil && newer != "" {
			t.app.printErr("keywright: %s is newer than %s, which is tested as it is: run `keywright plugin build %s`", host.Printable(newer), plugin, imports.Quote(dir))
		}
	}
	t.name = filepath.Base(plugin)
	t.wasm, err = moduleOf(plugin)
	return plugin, tested, err
}

func (t *caseRun) file(ctx context.Context, file string) error {
	cases, err := casefile.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing: write cases into it, or name a file with --cases", file)
	} else if err != nil {
		return err
	}
	for i := range cases {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !t.selected.MatchString(cases[i].Name) {
			continue
		}
		if err := t.one(&cases[i]); err != nil {
			return err
		}
	}
	return nil
}

// one runs a case and prints a line for it, and a line for each failure.
func (t *caseRun) one(c *casefile.Case) error {
	fuel := int64(0)
	report := testworld.Collect(func(tb *testworld.Collector) {
		h := hosttest.New(tb, c.Name, hosttest.Module{Name: t.name, Wasm: t.wasm, Verbose: t.verbose})
		tb.Cleanup(func() {
			for _, call := range h.Calls() {
				fuel = max(fuel, call.Fuel)
			}
		})
		c.Run(tb, h)
	})
	failures := report.Failures()
	line := "ok    " + host.Printable(c.Name)
	if t.total++; len(failures) > 0 {
		t.failed++
		line = "FAIL  " + host.Printable(c.Name)
	}
	if fuel > 0 {
		line += fmt.Sprintf("  (%d units of fuel)", fuel)
	}
	lines := []string{line}
	if t.verbose || len(failures) > 0 {
		for _, text := range report.Logs() {
			for line := range strings.Lines(text) {
				lines = append(lines, "    "+host.Printable(strings.TrimSuffix(line, "\n")))
			}
		}
	}
	for _, failure := range failures {
		for i, line := range strings.Split(strings.TrimSuffix(failure, "\n"), "\n") {
			lines = append(lines, strings.Repeat(" ", 4+2*min(i, 1))+host.Printable(line))
		}
	}
	t.app.out.Line("%s", strings.Join(lines, "\n"))
	return t.app.out.Err()
}

// end prints how many cases there were. Its error is not nil if one has failed.
func (t *caseRun) end() error {
	if t.total == 0 {
		return fmt.Errorf("no case has a name that --run %q matches", t.selected)
	}
	t.app.out.Line("%d passed, %d failed", t.total-t.failed, t.failed)
	return reportUnless(t.failed == 0)
}

type conformance struct{ *conform.Report }

func pluginConformCommand(a *app) *cobra.Command {
	var flags configFlags
	c := a.jsonCommand("conform", arguments("TYPE or FILE"), func(c *cobra.Command, args []string) (document, error) {
		wasm, err := moduleOf(args[0])
		if err != nil {
			return nil, err
		}
		configs, err := a.configsOf(c, &flags, args[0], wasm)
		if err != nil {
			return nil, err
		}
		report, err := conform.Run(c.Context(), hosttest.Module{Name: args[0], Wasm: wasm}, configs...)
		if err != nil {
			return nil, err
		}
		return conformance{report}, reportUnless(report.Conforms)
	})
	flags.add(c, "")
	return c
}

func (c conformance) print(a *app) { a.out.Printf("%s", c.Report) }

// configsOf returns the configurations of the connectors in a file that have the auth type of a module. Without a file, it returns nil.
func (a *app) configsOf(c *cobra.Command, f *configFlags, name string, wasm []byte) (configs []hosttest.Config, err error) {
	if f.file == "" {
		return nil, nil
	}
	info, err := host.Inspect(c.Context(), host.Plugin{Name: name, Wasm: wasm}, host.Limits{})
	if err != nil {
		return nil, err
	}
	set, err := a.load(c, f, nil)
	if err != nil {
		return nil, err
	}
	for _, connector := range set.Connectors {
		for _, auth := range connector.Definition().Auth {
			if auth.Type == info.Type {
				configs = append(configs, auth.Config)
			}
		}
	}
	if len(configs) == 0 {
		return nil, fmt.Errorf("%s: no connector has the auth type %s", f.file, info.Type)
	}
	return configs, nil
}
