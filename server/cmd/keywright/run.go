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

	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/terminal"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	// exitDifferent and exitWider are those of explain --diff --exit-code.
	exitDifferent = 3
	exitWider     = 4
)

// An app holds the state that the commands share.
type app struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string
}

// A usageError is the error for an invalid command line.
type usageError struct {
	command *cobra.Command
	err     error
	// suggested reports that the error names the command that was probably meant.
	suggested bool
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func misuse(command *cobra.Command, format string, args ...any) error {
	return &usageError{command: command, err: fmt.Errorf(format, args...)}
}

// errReported is returned for a failure that has already been reported.
var errReported = errors.New("told")

// exitWith is the error of a command that did its work and ends with another exit code than 0.
type exitWith int

func (exitWith) Error() string { return errReported.Error() }

// Is reports whether target is errReported.
func (exitWith) Is(target error) bool { return target == errReported }

// run runs a command line, and returns the exit code.
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
		Long:          "Keywright authenticates requests to external APIs. Each auth type is a WebAssembly plugin in a sandbox that never sees a secret. `keywright demo` shows five of the auth types at work.",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // so that RunE gets an unknown command
		RunE:          noCommand,
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SetHelpFunc(a.help)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return &usageError{command: c, err: err} })
	a.addCommands(root)
	eachOnce(root)
	return root
}

// addCommands adds the commands in groups, in the order in which people use them.
func (a *app) addCommands(root *cobra.Command) {
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Commands for connectors:", []*cobra.Command{a.connector(), a.check(), a.explain(), a.request(), a.connect()}},
		{"Commands for the gateway:", []*cobra.Command{a.serve(), a.test(), a.audit(), a.state()}},
		{"Commands for plugins:", []*cobra.Command{a.plugin()}},
		{"Other commands:", []*cobra.Command{a.content(), a.demo(), a.schema(), a.version()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			root.AddCommand(c)
		}
	}
}

// eachOnce makes it an error to repeat a flag, unless the flag takes several values. Otherwise pflag would use the last one
// without an error.
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

// once is the value of a flag that can be set once.
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

// noCommand returns the error for a command that only has subcommands.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return misuse(c, "a command is missing")
	}
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		meant := near[0]
		if nearest, ok := problem.Nearest(args[0], near); ok {
			meant = nearest
		}
		return &usageError{command: c, err: fmt.Errorf("there is no command %q; did you mean %q?", args[0], meant), suggested: true}
	}
	return misuse(c, "there is no command %q", args[0])
}

// connectorAndPath checks the arguments of a command for a connector and a path. If only the path is missing, it returns no error, because
// the error of [withoutPath] needs the file.
func connectorAndPath(c *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return arguments("CONNECTOR", "PATH")(c, args)
}

// withoutPath returns the error for a command line that names a connector and no path.
func withoutPath(c *cobra.Command, d gateway.Definition) error {
	return misuse(c, "without PATH: it is the path behind %s, such as %s", d.URL, d.ExamplePath())
}

// arguments returns a check that a command has exactly the named arguments.
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

// exit writes an error to stderr, with a line for each problem, and returns the exit code.
func (a *app) exit(err error) int {
	var usage *usageError
	var file *connectors.Error
	var code exitWith
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		a.misused(usage)
		return exitUsage
	case errors.Is(err, errReported):
	case errors.As(err, &file):
		for line := range strings.Lines(file.Error()) {
			a.printErr("%s", line)
		}
	case errors.Is(err, context.Canceled):
		a.printErr("keywright: interrupted")
	default:
		for line := range strings.Lines(err.Error()) {
			a.printErr("keywright: %s", line)
		}
	}
	return exitFailure
}

// misused writes the error of a command line to stderr, and the usage if it fits in a line. If the error names the command that was
// probably meant, that is all.
func (a *app) misused(usage *usageError) {
	c := usage.command
	a.printErr("%s: %v", c.CommandPath(), usage)
	switch line := "usage: " + usageLine(c); {
	case usage.suggested:
	case c.HasAvailableSubCommands():
		var b strings.Builder
		writeCommands(&b, terminal.Columns(a.err), c)
		_, _ = fmt.Fprintf(a.err, "%srun `%s --help`\n", b.String(), c.CommandPath())
	case len(line) < cmp.Or(terminal.Columns(a.err), terminal.Narrow):
		a.printErr("%s", line)
	default:
		a.printErr("run `%s --help`", c.CommandPath())
	}
}

// printErr writes a line to stderr. It ignores errors, because they cannot be reported.
func (a *app) printErr(format string, args ...any) {
	_ = writeLine(a.err, fmt.Sprintf(format, args...))
}

// writeLine writes a line. In a terminal it wraps the line between words, with indentation. Elsewhere it does not, because
// programs expect one line for each problem.
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
