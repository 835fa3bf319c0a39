package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
)

func (a *app) pluginConform() *cobra.Command {
	var flags configFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "conform TYPE|FILE [-c FILE]",
		Short: "Check whether a plugin does what operators expect of any plugin",
		Long: "Checks a compiled plugin of any language in the sandbox, with a clock of its own and without a network: whether it is deterministic, " +
			"and how it takes secrets of all characters, values that no operator means, endpoints and APIs that answer nonsense, and " +
			"requests of all sorts. It exits with 1 if a check fails.\n\n" +
			"The configurations are made from the description of the plugin. With -c, they are those of the connectors in that file that have " +
			"the plugin's auth type. Secrets are made up in any case. TYPE is a built-in auth type or an alias of one.",
		Args: arguments("TYPE or FILE"),
		RunE: a.orJSON(&asJSON, func(c *cobra.Command, args []string) error {
			wasm, err := moduleOf(args[0])
			if err != nil {
				return err
			}
			configs, err := a.configsOf(c, &flags, args[0], wasm)
			if err != nil {
				return err
			}
			report, err := hosttest.Conform(c.Context(), hosttest.Module{Name: args[0], Wasm: wasm}, configs...)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.writeJSON(report)
			} else {
				_, err = fmt.Fprint(a.out, report)
			}
			if err == nil && !report.Conforms {
				err = errReported
			}
			return err
		}),
	}
	flags.add(c, "")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	c.DisableFlagsInUseLine = true
	return c
}

// configsOf returns the configurations of the connectors in a file that have the auth type of a module. Without a file, it returns
// nil.
func (a *app) configsOf(c *cobra.Command, f *configFlags, name string, wasm []byte) (configs []hosttest.Config, err error) {
	if f.file == "" {
		return nil, nil
	}
	info, err := host.Inspect(c.Context(), host.Plugin{Name: name, Wasm: wasm}, host.Limits{})
	if err != nil {
		return nil, err
	}
	set, err := a.load(c.Context(), c, f)
	if err != nil {
		return nil, err
	}
	defer closeSet(c.Context(), set)
	for _, connector := range set.Connectors {
		if auth := connector.Definition().Auth; auth.Type == info.Type {
			configs = append(configs, auth.Config)
		}
	}
	if len(configs) == 0 {
		return nil, fmt.Errorf("%s: no connector has the auth type %s", f.file, info.Type)
	}
	return configs, nil
}
