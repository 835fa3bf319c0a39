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
	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/server/internal/imports"
)

func (a *app) pluginTest() *cobra.Command {
	var files []string
	var run string
	var verbose bool
	c := &cobra.Command{
		Use:   "test [PLUGIN] [--cases FILE]... [--run REGEXP] [-v]",
		Short: "Test a plugin in the sandbox with cases in YAML, and run its Go tests",
		Long: "Tests a plugin of any language with cases: a configuration, requests, the answers of token endpoints and of the API, and " +
			"what is expected of them. They run in the sandbox, with a clock of their own and without a network, and fail if a " +
			"credential shows up in the plugin's memory, a log or an error. docs/plugins.md has the members of a case.\n\n" +
			"PLUGIN is a compiled plugin, its directory, or a built-in auth type, and this directory by default. The cases are those of " +
			"the file cases.yaml beside it, or of each --cases. If the directory has tests in Go, `go test .` runs before. A source that is newer " +
			"than the module is reported: the module is tested as it is.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
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
		},
	}
	c.Flags().StringArrayVar(&files, "cases", nil, "a `FILE` of cases; may be repeated")
	c.Flags().StringVar(&run, "run", "", "run only the cases whose names match a `REGEXP`")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show what each call did: what was signed, and the requests to token endpoints")
	c.DisableFlagsInUseLine = true
	return c
}

// goTests runs the tests that a plugin's directory has in Go, and reports whether there are any.
func (a *app) goTests(c *cobra.Command, dir string) (bool, error) {
	tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(tests) == 0 {
		return false, err
	}
	test := exec.CommandContext(c.Context(), "go", "test", ".")
	test.Dir, test.Stdout, test.Stderr = dir, a.out, a.err
	err = test.Run()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return true, errReported
	}
	if err != nil {
		return true, fmt.Errorf("go test: %w", err)
	}
	return true, nil
}

// caseRun runs cases with one module.
type caseRun struct {
	app            *app
	name           string
	wasm           []byte
	selected       *regexp.Regexp
	verbose        bool
	passed, failed int
}

// load reads the module of a plugin and returns its path. If the plugin is a directory, load runs its tests in Go before, and
// reports whether there are any.
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

// file runs the cases of a file.
func (t *caseRun) file(ctx context.Context, file string) error {
	cases, err := hosttest.ReadCases(file)
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
func (t *caseRun) one(c *hosttest.Case) error {
	report := &hosttest.Collector{}
	fuel := int64(0)
	report.Run(func() {
		h := hosttest.New(report, c.Name, hosttest.Module{Name: t.name, Wasm: t.wasm, Verbose: t.verbose})
		report.Cleanup(func() {
			for _, call := range h.Calls() {
				fuel = max(fuel, call.Fuel)
			}
		})
		c.Run(h)
	})
	report.End()
	failures := report.Failures()
	word := "ok  "
	if t.passed++; len(failures) > 0 {
		t.passed--
		t.failed++
		word = "FAIL"
	}
	line := fmt.Sprintf("%s  %s", word, host.Printable(c.Name))
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
	return writeLine(t.app.out, strings.Join(lines, "\n"))
}

// end prints how many cases there were. Its error is not nil if one has failed.
func (t *caseRun) end() error {
	if t.passed+t.failed == 0 {
		return fmt.Errorf("no case has a name that --run %q matches", t.selected)
	}
	err := writeLine(t.app.out, fmt.Sprintf("%d passed, %d failed", t.passed, t.failed))
	if err == nil && t.failed > 0 {
		return errReported
	}
	return err
}
