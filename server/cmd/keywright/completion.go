package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/onboard/catalogue"
)

// bashWords lets the script for bash do without the package bash-completion, which splits the command line for it.
const bashWords = `
if ! declare -F _get_comp_words_by_ref >/dev/null; then
    __keywright_init_completion() {
        local line=${COMP_LINE:0:COMP_POINT}
        read -ra words <<<"$line"
        [[ $line == *[[:space:]] ]] && words+=("")
        cword=$((${#words[@]} - 1)) cur=${words[-1]}
    }
fi
`

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
		case "log-level":
			return []string{"debug", "info", "warn", "error"}, false
		case "lang":
			return []string{"go", "c", "assemblyscript", "rust"}, false
		case "client-auth":
			return []string{"both"}, false
		case "paths":
			return []string{"read", "all", "none"}, false
		}
		value, _ := pflag.UnquoteUsage(f)
		return nil, value == "FILE" || value == "DIR" || value == "OLD"
	}
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
