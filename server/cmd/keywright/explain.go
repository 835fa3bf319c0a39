package main

import (
	"bytes"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/explained"
)

func (a *app) explain() *cobra.Command {
	var flags requestFlags
	var asJSON, verbose, exitCode bool
	var old string
	c := &cobra.Command{
		Use:   "explain [-c FILE] [-v] [--user EMAIL] [--diff OLD [--exit-code]] CONNECTOR PATH",
		Short: "Show what would be sent, secrets masked; nothing is sent",
		Long: "Shows what `keywright request` would send: url, headers, query and auth of a connector. A secret shows as its template, a token as <token>, a JWT as its header " +
			"and claims. No token endpoint is asked, and nothing is sent.\n\nWhat the gateway makes of callers' requests besides (paths, bodies, answers) shows in its test: POST /connectors/PERMALINK/test of `keywright serve`.",
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case old == "":
				return connectorAndPath(c, args)
			case len(args) == 0:
				return nil
			}
			return arguments("CONNECTOR", "PATH")(c, args)
		},
		RunE: a.orJSON(&asJSON, func(c *cobra.Command, args []string) error {
			if old != "" {
				return a.explainDiff(c, &flags, old, args, asJSON, exitCode)
			}
			if exitCode {
				return misuse(c, "--exit-code goes with --diff")
			}
			return a.prepared(c, &flags, true, args, func(_ *connectors.Set, connector *gateway.Connector, request *http.Request) error {
				shown, err := explained.Of(connector, request, args[1])
				if err != nil {
					return err
				}
				if asJSON {
					return a.writeJSON(shown)
				}
				var b bytes.Buffer
				if err := shown.Write(&b, a.out.Style, verbose); err != nil {
					return err
				}
				_, err = a.out.Write(b.Bytes())
				return err
			})
		}),
	}
	flags.add(c)
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show how much fuel the plugin used, which --json has too")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	c.Flags().StringVar(&old, "diff", "", "show what is different from the file `OLD`: members, what they allow now, and requests; without CONNECTOR and PATH, of all connectors and settings")
	c.Flags().BoolVar(&exitCode, "exit-code", false, "with --diff, exit with 3 if something is different, and with 4 if something more is allowed")
	return c
}
