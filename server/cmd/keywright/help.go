package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/server/internal/terminal"
)

// help writes the help of a command at the width of the terminal.
func (a *app) help(c *cobra.Command, _ []string) {
	width := cmp.Or(a.out.Columns(), terminal.Narrow)
	var b strings.Builder
	for i, text := range strings.Split(cmp.Or(c.Long, c.Short), "\n\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(terminal.Hang(text, width, 0) + "\n")
	}
	b.WriteString("\nUsage:\n  " + terminal.Hang(usageLine(c), width, 4) + "\n")
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

// usageLine returns the usage of a command.
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

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show which version this is",
		Run: func(*cobra.Command, []string) { a.out.Printf("%s", version()) },
	}
}

// version returns the version that the go command recorded in this binary: in a checkout, the commit.
func version() string {
	return fmt.Sprintf("keywright %s, %s, %s/%s\n", moduleVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// moduleVersion returns the version of the module.
func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// userAgent returns the User-Agent of requests. A version in parentheses would be a comment there.
func userAgent() string { return "keywright/" + strings.Trim(moduleVersion(), "()") }
