package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/terminal"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// app holds the state that the commands share.
type app struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string
}

// usageError is a command line that is wrong.
type usageError struct {
	command *cobra.Command
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func misuse(command *cobra.Command, format string, args ...any) error {
	return &usageError{command, fmt.Errorf(format, args...)}
}

// errTold is a failure of which everything has been said.
var errTold = errors.New("told")

// run runs a command line, and gives the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, err io.Writer, env func(string) string) int {
	a := &app{in: in, out: out, err: err, env: env}
	root := a.root()
	root.SetArgs(args)
	return a.exit(root.ExecuteContext(ctx))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "keywright",
		Short:         "Authenticates requests to external APIs, with auth types that are plugins in a sandbox",
		Long:          "Keywright authenticates requests to external APIs. Each auth type is a WebAssembly plugin in a sandbox that never sees a secret. `keywright demo` shows all of it.",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // so that an unknown command comes to RunE
		RunE:          noCommand,
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SetHelpFunc(a.help)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return &usageError{c, err} })
	root.AddCommand(a.demo(), a.check(), a.request(), a.explain(), a.serve(), a.content(), a.plugin(), a.version())
	eachOnce(root)
	return root
}

// eachOnce makes it an error to give a flag twice, unless it takes several values. Otherwise the last one would win
// without a word.
func eachOnce(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, many := f.Value.(pflag.SliceValue); !many {
			f.Value = &once{Value: f.Value}
		}
	})
	for _, below := range c.Commands() {
		eachOnce(below)
	}
}

// once is the value of a flag that can be given once.
type once struct {
	pflag.Value
	given bool
}

func (o *once) Set(text string) error {
	if o.given {
		return errors.New("it is given twice, and only one can count")
	}
	o.given = true
	return o.Value.Set(text)
}

// noCommand runs a command that only has commands below it.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return misuse(c, "a command is missing")
	}
	suggestion := ""
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		suggestion = fmt.Sprintf("; did you mean %q?", near[0])
	}
	return misuse(c, "there is no command %q%s", args[0], suggestion)
}

// arguments makes a check that a command has exactly the arguments that are named.
func arguments(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return misuse(c, "without %s", strings.Join(names[len(args):], " and "))
		case len(args) > len(names):
			return misuse(c, "%q is an argument too many", args[len(names)])
		}
		return nil
	}
}

// exit writes an error to stderr, a line for each problem, and returns the exit status.
func (a *app) exit(err error) int {
	var usage *usageError
	var file *connectors.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		a.misused(usage)
		return exitUsage
	case errors.Is(err, errTold):
	case errors.As(err, &file):
		for line := range strings.Lines(file.Error()) {
			a.tell("%s", line)
		}
	case errors.Is(err, context.Canceled):
		a.tell("keywright: interrupted")
	default:
		for line := range strings.Lines(err.Error()) {
			a.tell("keywright: %s", line)
		}
	}
	return exitFailure
}

// misused writes the problem of a command line, and the usage if that is one line.
func (a *app) misused(usage *usageError) {
	c := usage.command
	a.tell("%s: %v", c.CommandPath(), usage)
	switch line := "usage: " + usageLine(c); {
	case c.HasAvailableSubCommands():
		var b strings.Builder
		writeCommands(&b, terminal.Columns(a.err), c)
		_, _ = fmt.Fprintf(a.err, "commands:\n%srun `%s --help`\n", b.String(), c.CommandPath())
	case len(line) < cmp.Or(terminal.Columns(a.err), terminal.Narrow):
		a.tell("%s", line)
	default:
		a.tell("run `%s --help`", c.CommandPath())
	}
}

// tell writes a line to stderr. When that fails there is nobody to be told.
func (a *app) tell(format string, args ...any) { _ = writeLine(a.err, fmt.Sprintf(format, args...)) }

// writeLine writes a line, which in a terminal goes on between words, indented: elsewhere, a line for each problem is
// what programs read.
func writeLine(w io.Writer, line string) error {
	line = strings.TrimRight(line, "\n")
	var b strings.Builder
	if width := terminal.Columns(w); width > 0 {
		paragraph(&b, width, 2, line)
	} else {
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
