package main

import (
	"github.com/spf13/cobra"

	"github.com/keywright/keywright/server/internal/catalogue"
	"github.com/keywright/keywright/server/internal/terminal"
)

// listedAPI is an item of the list that connector list --json writes.
type listedAPI struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Type    string `json:"type"`
	Summary string `json:"summary"`
	Docs    string `json:"docs"`
}

func (a *app) connectorList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the products of the catalogue, with their auth types",
		Long:  "Lists the products of the catalogue, with their auth types. `keywright connector new --api NAME` makes a connector of one.",
		Args:  arguments(),
		RunE: a.orJSON(&asJSON, func(*cobra.Command, []string) error {
			apis, err := catalogue.All()
			if err != nil {
				return err
			}
			list, rows := []listedAPI{}, [][]string{{"NAME", "TYPE", "SUMMARY"}}
			for _, api := range apis {
				list = append(list, listedAPI{api.Name, api.Title, api.AuthType(), api.Summary, api.Docs})
				rows = append(rows, []string{api.Name, api.AuthType(), api.Title + ": " + api.Summary})
			}
			if asJSON {
				return a.writeJSON(list)
			}
			return terminal.Table(a.out, terminal.StyleOf(a.out, a.env), terminal.Columns(a.out), rows)
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	c.DisableFlagsInUseLine = true
	return c
}
