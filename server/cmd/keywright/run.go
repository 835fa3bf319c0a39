package main

import (
	"cmp"
	"context"
	_ "embed" // for the help
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/terminal"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	// exitDifferent and exitWider are those of explain --diff --exit-code.
	exitDifferent = exitCode(3)
	exitWider     = exitCode(4)
)

// An exitCode is the error of a command that has said all, and ends with this code.
type exitCode int

func (exitCode) Error() string { return "the failure has been reported" }

// errReported is returned for a failure that has already been reported.
var errReported error = exitCode(exitFailure)

// reportUnless returns errReported for a command whose output says that not all is as it has to be.
func reportUnless(ok bool) error {
	if ok {
		return nil
	}
	return errReported
}

// An app holds the streams and the environment that the commands share.
type app struct {
	in       io.Reader
	out, err *terminal.Printer
	env      func(string) string
	// stdin is the text of stdin, if that was a file of connectors.
	stdin []byte
	// warned reports whether the warning of --dev is on stderr.
	warned bool
	// cleanups are called when the command has ended, the last one first.
	cleanups []func(context.Context) error
	// failure is the [host.PluginFailure] of the last attempt.
	failure atomic.Value
}

func newApp(in io.Reader, out, err io.Writer, env func(string) string) *app {
	return &app{in: in, out: terminal.NewPrinter(out, env), err: terminal.NewPrinter(err, env), env: env}
}

// A usageError is the error for an invalid command line.
type usageError struct {
	error
	command *cobra.Command
	// suggested reports that the error names the command that was probably meant.
	suggested bool
}

func misuse(command *cobra.Command, format string, args ...any) error {
	return &usageError{error: fmt.Errorf(format, args...), command: command}
}

// run runs a command line, and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, err io.Writer, env func(string) string) int {
	a := newApp(in, out, err, env)
	root := a.root()
	root.SetArgs(args)
	runErr := root.ExecuteContext(ctx)
	for _, end := range slices.Backward(a.cleanups) {
		runErr = errors.Join(runErr, end(context.WithoutCancel(ctx)))
	}
	return a.exit(cmp.Or(runErr, a.out.Err()))
}

// cleanup lets end be called when the command has ended: it closes what the command has opened.
func (a *app) cleanup(end func(context.Context) error) { a.cleanups = append(a.cleanups, end) }

func (a *app) root() *cobra.Command {
	root := group("keywright")
	root.Version = version()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetVersionTemplate("{{.Version}}")
	root.SetHelpFunc(a.help)
	root.CompletionOptions.DisableDefaultCmd = true // it has a command for each shell
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return &usageError{error: err, command: c} })
	a.addCommands(root)
	sections := map[string]string{}
	for section := range strings.SplitSeq("\n"+helpText, "\n# ") {
		words, text, _ := strings.Cut(section, "\n")
		path, usage, _ := strings.Cut(words, ": ")
		sections[path] = usage + "\n" + text
	}
	complete(root, sections)
	return root
}

// helpText has a section for each command: a heading with its words and its usage, a line that says what it does, and, behind an empty
// line, the text of its help.
//
//go:embed help.txt
var helpText string

// addCommands adds the commands in groups, in the order in which people use them.
func (a *app) addCommands(root *cobra.Command) {
	for _, part := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Commands for connectors:", []*cobra.Command{
			group("connector", connectorNewCommand(a), connectorListCommand(a), connectorImportCommand(a)),
			checkCommand(a), explainCommand(a), requestCommand(a), connectCommand(a),
		}},
		{"Commands for the gateway:", []*cobra.Command{
			serveCommand(a), testCommand(a),
			group("connections", connectionsListCommand(a), connectionsEndCommand(a)),
			group("secret", secretCommand(a, "set", http.MethodPut), secretListCommand(a), secretCommand(a, "remove", http.MethodDelete)),
			group("audit", auditVerifyCommand(a)),
			group("state", stateStatusCommand(a), stateRekeyCommand(a), stateMigrateCommand(a)),
		}},
		{"Commands for plugins:", []*cobra.Command{
			group("plugin", pluginNewCommand(a), pluginBuildCommand(a), pluginTestCommand(a), pluginConformCommand(a), pluginListCommand(a),
				pluginInspectCommand(a), pluginDiffCommand(a), pluginPushCommand(a), pluginInfoCommand(a), pluginAddCommand(a),
				pluginUpdateCommand(a), pluginVerifyCommand(a), pluginVendorCommand(a), pluginAuditCommand(a)),
		}},
		{"Other commands:", []*cobra.Command{
			group("content", contentServeCommand(a), contentImportCommand(a), contentExportCommand(a), contentStatusCommand(a), contentMigrateCommand(a)),
			demoCommand(a), schemaCommand(a), completionCommand(a), manCommand(), versionCommand(a),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: part.title, Title: part.title})
		for _, c := range part.commands {
			c.GroupID = part.title
			root.AddCommand(c)
		}
	}
}

// group returns a command that only has subcommands.
func group(name string, commands ...*cobra.Command) *cobra.Command {
	c := command(name, cobra.ArbitraryArgs, noCommand) // which gets an unknown command
	c.AddCommand(commands...)
	return c
}

// command returns a command, whose words are in help.txt. If args is nil, it takes no argument.
func command(name string, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
	if args == nil {
		args = arguments()
	}
	return &cobra.Command{Use: name, Args: args, RunE: run, DisableFlagsInUseLine: true}
}

// complete sets the words of all commands, from the sections of help.txt, and how their arguments are completed. It is an error to repeat a
// flag, unless the flag takes several values. Otherwise pflag would use the last one without an error.
func complete(c *cobra.Command, sections map[string]string) {
	usage, text, _ := strings.Cut(sections[c.CommandPath()], "\n")
	c.Short, c.Long, _ = strings.Cut(strings.TrimSpace(text), "\n\n")
	c.Use = strings.TrimSpace(c.Use + " " + usage)
	c.ValidArgsFunction = matching(argumentValues)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, many := f.Value.(pflag.SliceValue); !many {
			f.Value = &once{Value: f.Value, command: c}
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, matching(flagValues(f))) // it fails for a flag that is registered already
	})
	for _, below := range c.Commands() {
		complete(below, sections)
	}
}

// once is the value of a flag that can be set once.
type once struct {
	pflag.Value
	command *cobra.Command
	set     bool
}

func (o *once) Set(text string) error {
	if o.set && o.command.CalledAs() != "" { // completion parses a command line twice, and calls no command
		return errors.New("it is given twice, and only one can count")
	}
	o.set = true
	return o.Value.Set(text)
}

// noCommand returns the error for a command that only has subcommands.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return misuse(c, "a command is missing")
	}
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		nearest, _ := problem.Nearest(args[0], near)
		return &usageError{fmt.Errorf("there is no command %q; did you mean %q?", args[0], cmp.Or(nearest, near[0])), c, true}
	}
	return misuse(c, "there is no command %q", args[0])
}

// connectorAndPath checks the arguments of a command for a connector and a path. If only the path is missing, it returns no error, because
// that of [app.outgoing] needs the file.
func connectorAndPath(c *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return arguments("CONNECTOR", "PATH")(c, args)
}

// arguments returns a check that a command has the named arguments. Names in brackets are optional, and stand at the end.
func arguments(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names) && names[len(args)][0] != '[':
			return misuse(c, "without %s", strings.Join(names[len(args):], " and "))
		case len(args) > len(names):
			return misuse(c, "%q is an argument too many", args[len(names)])
		}
		return nil
	}
}

// someFiles is a check that a command has arguments, which are files.
func someFiles(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return misuse(c, "without FILE")
	}
	return nil
}

// exit writes an error to stderr, with a line for each problem, and returns the exit code.
func (a *app) exit(err error) int {
	var usage *usageError
	var file *connectors.Error
	var code exitCode
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		a.misused(usage)
		return exitUsage
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
	width := a.err.Columns()
	switch line := "usage: " + usageLine(c); {
	case usage.suggested:
	case c.HasAvailableSubCommands():
		var b strings.Builder
		writeCommands(&b, width, c)
		a.err.Printf("%srun `%s --help`\n", b.String(), c.CommandPath())
	case len(line) < cmp.Or(width, terminal.Narrow):
		a.printErr("%s", line)
	default:
		a.printErr("run `%s --help`", c.CommandPath())
	}
}

// printErr writes a line to stderr. It ignores errors, because they cannot be reported.
func (a *app) printErr(format string, args ...any) { a.err.Line(format, args...) }

// A document is the output of a command: JSON with --json, or else a text for people.
type document interface{ print(a *app) }

// jsonCommand returns a command with the flag --json. It puts out the document that run returns, which may be nil, if run succeeds
// or its error is an exit code. With --json, any other failure is written as JSON. An invalid command line is reported on stderr all the
// same, because the program that reads the output did not write it.
func (a *app) jsonCommand(name string, args cobra.PositionalArgs, run func(*cobra.Command, []string) (document, error)) *cobra.Command {
	var asJSON bool
	c := command(name, args, func(c *cobra.Command, args []string) error {
		doc, err := run(c, args)
		ok := err == nil || errors.As(err, new(exitCode))
		switch {
		case ok && doc != nil && asJSON:
			return cmp.Or(a.writeJSON(doc), err)
		case ok && doc != nil:
			doc.print(a)
			return err
		case ok, !asJSON, errors.Is(err, context.Canceled), errors.As(err, new(*usageError)):
			return err
		}
		return cmp.Or(a.writeJSON(failure(err)), errReported)
	})
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	return c
}

func (a *app) writeJSON(v any) error {
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// failureDocument is the document that --json writes for a failure of any command. The document of check has the same members.
type failureDocument struct {
	// File is the configuration, if it is invalid.
	File     string               `json:"file,omitempty"`
	OK       bool                 `json:"ok"`
	Problems []connectors.Problem `json:"problems"`
}

func failure(err error) failureDocument {
	if file, ok := errors.AsType[*connectors.Error](err); ok {
		return failureDocument{File: file.File, Problems: file.Problems}
	}
	problem := connectors.Problem{Message: err.Error()}
	if request, ok := errors.AsType[*host.Error](err); ok {
		problem.Path = "connectors." + request.Connector
	}
	return failureDocument{Problems: []connectors.Problem{problem}}
}

// help writes the help of a command at the width of the terminal.
func (a *app) help(c *cobra.Command, _ []string) {
	width := cmp.Or(a.out.Columns(), terminal.Narrow)
	var b strings.Builder
	for text := range strings.SplitSeq(cmp.Or(c.Long, c.Short), "\n\n") {
		b.WriteString(terminal.Hang(text, width, 0) + "\n\n")
	}
	b.WriteString("Usage:\n  " + terminal.Hang(usageLine(c), width, 4) + "\n")
	if c.HasAvailableSubCommands() {
		b.WriteByte('\n')
		writeCommands(&b, width, c)
	}
	if flags := c.LocalFlags(); flags.HasAvailableFlags() {
		b.WriteString("\nFlags:\n" + flags.FlagUsagesWrapped(width))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help has more of a command.\n", c.CommandPath())
	}
	a.out.Printf("%s", b.String())
}

func usageLine(c *cobra.Command) string {
	if c.HasAvailableSubCommands() {
		return c.CommandPath() + " COMMAND"
	}
	return c.UseLine()
}

// writeCommands writes the subcommands of c, by their groups if it has groups.
func writeCommands(b *strings.Builder, width int, c *cobra.Command) {
	longest := 0
	for _, below := range c.Commands() {
		longest = max(longest, len(below.Name()))
	}
	groups := c.Groups()
	if len(groups) == 0 {
		groups = []*cobra.Group{{Title: "Commands:"}}
	}
	for i, group := range groups {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(group.Title + "\n")
		for _, below := range c.Commands() {
			if below.GroupID == group.ID && below.IsAvailableCommand() {
				fmt.Fprintf(b, "  %s  %s\n", terminal.Pad(below.Name(), longest), terminal.Hang(below.Short, width, longest+4))
			}
		}
	}
}
