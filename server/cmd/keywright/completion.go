package main

import (
	"cmp"
	_ "embed" // for words.bash and page.man
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/mod/semver"

	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/onboard/catalogue"
)

// bashWords lets the script for bash do without the package bash-completion, which splits the command line for it.
//
//go:embed words.bash
var bashWords string

func completionCommand(a *app) *cobra.Command {
	return command("completion", arguments("SHELL"), func(c *cobra.Command, args []string) error {
		root := c.Root()
		switch args[0] {
		case "bash":
			err := root.GenBashCompletionV2(a.out, true)
			a.out.Printf("%s", bashWords)
			return err
		case "zsh":
			return root.GenZshCompletion(a.out)
		case "fish":
			return root.GenFishCompletion(a.out, true)
		case "powershell":
			return root.GenPowerShellCompletionWithDesc(a.out)
		}
		return misuse(c, "SHELL is bash, zsh, fish or powershell, not %q", args[0])
	})
}

// argumentValues returns the values of the next argument of a command, and reports whether files are due.
func argumentValues(c *cobra.Command, args []string) (values []string, isFile bool) {
	switch strings.TrimPrefix(c.CommandPath(), "keywright ") {
	case "request", "explain", "test", "connect":
		if len(args) == 0 {
			return permalinks(c), false
		}
	case "plugin inspect", "plugin conform", "plugin test", "plugin diff":
		return plugins.Types(), true
	case "connector import", "audit verify", "plugin new", "plugin build", "plugin push", "content import", "man":
		return nil, true
	case "completion":
		return []string{"bash", "zsh", "fish", "powershell"}, false
	}
	return nil, false
}

// flagValues is [argumentValues] for the value of a flag. Files are due if the usage of the flag says so.
func flagValues(f *pflag.Flag) func(*cobra.Command, []string) ([]string, bool) {
	return func(c *cobra.Command, _ []string) (values []string, isFile bool) {
		switch f.Name {
		case "api":
			return products(), false
		case "place":
			if api, err := catalogue.Find(c.Flag("api").Value.String()); err == nil {
				return slices.Collect(maps.Keys(api.Places)), false
			}
		}
		value, _ := pflag.UnquoteUsage(f)
		return wordsOf[f.Name], value == "FILE" || value == "DIR" || value == "OLD"
	}
}

// wordsOf has the values of flags that have a few.
var wordsOf = map[string][]string{
	"log-level": {"debug", "info", "warn", "error"}, "lang": {"go", "c", "assemblyscript", "rust"}, "client-auth": {"both"}, "paths": {"read", "all", "none"},
}

// matching returns a completion by those of the values that begin with the word on the command line, and by files if they are due.
func matching(values func(c *cobra.Command, args []string) (all []string, isFile bool)) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		all, isFile := values(c, args)
		all = slices.DeleteFunc(all, func(value string) bool { return !strings.HasPrefix(value, word) })
		slices.Sort(all)
		if isFile {
			return all, cobra.ShellCompDirectiveDefault
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// permalinks returns those of the connectors in the file of a command, of which it looks at nothing else. Those that are no permalinks are
// left out, because a shell may read them as something else.
func permalinks(c *cobra.Command) []string {
	const longest = 4 << 20 // bytes of a file with connectors
	file := c.Flag("config").Value.String()
	if file == "" {
		file = "connectors.yaml"
	}
	text, err := files.ReadRegular(file, longest)
	if err != nil {
		return nil
	}
	layout, err := connectors.LayoutOf(c.Context(), file, text)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Collect(maps.Keys(layout.Files)), func(p string) bool { return p == "" || gateway.Permalink(p) != p })
}

func products() (names []string) {
	apis, err := catalogue.All()
	if err != nil {
		return nil
	}
	for _, api := range apis {
		names = append(names, cobra.CompletionWithDesc(api.Name, api.Title))
	}
	return names
}

// site returns the address of the documents of this version, which are in docs/ of the repository.
func site() string {
	minor := strings.TrimPrefix(semver.MajorMinor(moduleVersion()), "v")
	if minor == "" || minor == "0.0" { // it is not built from a published version
		minor = "0.1"
	}
	return "https://keywright.github.io/keywright/" + minor + "/"
}

func manCommand() *cobra.Command {
	var date string
	c := command("man", arguments("DIR"), func(c *cobra.Command, args []string) error {
		if _, err := time.Parse(time.DateOnly, date); date != "" && err != nil {
			return misuse(c, "--date wants a date such as 2026-11-28, not %q", date)
		} else if date == "" {
			date = time.Now().UTC().Format(time.DateOnly)
		}
		return writeManPages(c.Root(), args[0], date)
	})
	c.Flags().StringVar(&date, "date", "", "the `DATE` on the pages, such as 2026-11-28 (default today)")
	return c
}

//go:embed page.man
var manText string

// manTemplate makes the page of a command, in the language of man(7).
var manTemplate = template.Must(template.New("page.man").Funcs(template.FuncMap{
	"roff": roff, "text": roffText, "upper": strings.ToUpper, "version": moduleVersion, "site": site, "page": manName, "flags": shownFlags,
	"words":      func(c *cobra.Command) string { return strings.TrimPrefix(usageLine(c), c.CommandPath()) },
	"paragraphs": func(c *cobra.Command) []string { return strings.Split(cmp.Or(c.Long, c.Short), "\n\n") },
	"value":      func(f *pflag.Flag) string { value, _ := pflag.UnquoteUsage(f); return value },
	"standard": func(f *pflag.Flag) string {
		if slices.Contains([]string{"[]", "0", "0s", "false"}, f.DefValue) {
			return ""
		}
		return f.DefValue
	},
}).Parse(manText))

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func shownFlags(c *cobra.Command) (all []*pflag.Flag) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all = append(all, f)
		}
	})
	return all
}

// writeManPages writes the page of a command and those of its subcommands.
func writeManPages(c *cobra.Command, dir, date string) error {
	for _, below := range c.Commands() {
		if !below.IsAvailableCommand() {
			continue
		}
		if err := writeManPages(below, dir, date); err != nil {
			return err
		}
	}
	var b strings.Builder
	err := manTemplate.Execute(&b, struct {
		*cobra.Command
		Date string
	}{c, date})
	return errors.Join(err, os.WriteFile(filepath.Join(dir, manName(c)+".1"), []byte(b.String()), 0o644))
}

var (
	quoted    = regexp.MustCompile("`([^`]*)`")
	reference = regexp.MustCompile(`\bdocs/([a-z-]+)\.md\b`)
)

// roffText is [roff] for a text of the help. What stands between backquotes has another font, and documents their address.
func roffText(text, font string) string {
	text = roff(reference.ReplaceAllString(text, site()+"docs/$1.html"))
	return quoted.ReplaceAllString(text, `\f`+font+`$1\fR`)
}

var special = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, `^`, `\(ha`, `~`, `\(ti`, "\n.", "\n\\&.")

// roff returns a text in which no character is special to roff.
func roff(text string) string {
	return strings.TrimPrefix(special.Replace("\n"+text), "\n")
}
