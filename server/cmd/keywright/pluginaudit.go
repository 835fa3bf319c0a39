package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/reach"
	"github.com/keywright/keywright/server/internal/terminal"
)

func (a *app) pluginAudit() *cobra.Command {
	var flags configFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "audit [-c FILE]",
		Short: "List which secret of which connector can go where, through which plugin",
		Long: "Lists each secret that a configuration names, with the connector, the field and the plugin that gets it, and where that " +
			"plugin may put it. It comes from the plugins themselves, which run in the sandbox. No secret is read.",
		Args: arguments(),
		RunE: a.orJSON(&asJSON, func(c *cobra.Command, _ []string) error {
			set, err := a.load(c.Context(), c, &flags)
			if err != nil {
				return err
			}
			defer closeSet(c.Context(), set)
			all := reach.Of(set)
			if asJSON {
				return a.writeJSON(orEmpty(all))
			}
			return a.writeAudit(all)
		}),
	}
	flags.add(c, "connectors.yaml")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	c.DisableFlagsInUseLine = true
	return c
}

func (a *app) writeAudit(all []reach.Use) error {
	if len(all) == 0 {
		return writeLine(a.out, "the file names no secrets")
	}
	rows := [][]string{{"CONNECTOR", "SECRET", "FIELD", "TYPE", "PLUGIN", "MAY"}}
	for _, r := range all {
		may := r.May
		if len(r.Grants) > 0 {
			may = append(slices.Clone(may), "granted "+strings.Join(r.Grants, ", "))
		}
		rows = append(rows, []string{r.Connector, r.Secret, host.Printable(r.Field), cmp.Or(r.Type, "-"), cmp.Or(host.Printable(r.Plugin), "-"), shown(may)})
	}
	return terminal.Table(a.out, terminal.StyleOf(a.out, a.env), terminal.Columns(a.out), rows)
}
