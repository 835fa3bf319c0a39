package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/lock"
	"github.com/keywright/keywright/server/internal/terminal"
)

// reach is an item of the list that plugin audit --json writes: a secret in a field of a connector, and what the plugin may do with it.
type reach struct {
	Connector string `json:"connector"`
	Secret    string `json:"secret"`
	// Field is the field of auth.config, or the member of the connector that no plugin gets, as tls.key or headers.NAME.
	Field string `json:"field"`
	// Type is the auth type, and Plugin the plugin that has it. Both are empty where no plugin gets the secret.
	Type   string `json:"type"`
	Plugin string `json:"plugin"`
	// May has the rights, as keywright.lock has them.
	May []string `json:"may"`
	// Grants are the plugin's grants by the operator. With reveal it reads the secret.
	Grants []string `json:"grants"`
}

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
			all := audit(set)
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

// audit returns what can become of each secret of a set.
func audit(set *connectors.Set) (all []reach) {
	types := map[string]host.PluginInfo{}
	for _, p := range set.Host.Plugins() {
		for _, name := range append([]string{p.Type}, p.Aliases...) {
			types[name] = p
		}
	}
	for _, c := range set.Connectors {
		d := c.Definition()
		p := types[d.Auth.Type]
		capabilities := lock.Of(p)
		fields := c.FieldSecrets()
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			for _, secret := range fields[field] {
				r := reach{d.Permalink, secret, field, "", "", []string{"where the file puts it"}, []string{}}
				if !strings.Contains(field, ".") { // no name of a field has a dot
					r.Type, r.Plugin, r.May, r.Grants = d.Auth.Type, p.Name, orEmpty(capabilities["field "+field]), orEmpty(p.Grants)
				}
				all = append(all, r)
			}
		}
	}
	return all
}

func (a *app) writeAudit(all []reach) error {
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
