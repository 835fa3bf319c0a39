package main

import "github.com/spf13/cobra"

func (a *app) connector() *cobra.Command {
	c := &cobra.Command{
		Use:   "connector",
		Short: "Make connectors: of OpenAPI documents, and of command lines of curl",
		Args:  cobra.ArbitraryArgs, // so that RunE gets an unknown command
		RunE:  noCommand,
	}
	c.AddCommand(a.connectorImport())
	return c
}
