package main

import (
	"crypto/rand"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/server/internal/demo/tour"
)

func (a *app) demo() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run five of the auth types end to end, against servers that it starts itself",
		Long: "Starts a token endpoint and an API on loopback that really check what they get, sends requests of five auth " +
			"types through plugins in their sandbox, and shows what arrived. The exit code is 0 when all of it is as it has to be.",
		Args: arguments(),
		RunE: a.orJSON(&asJSON, func(c *cobra.Command, _ []string) error {
			report, err := tour.Run(c.Context(), tour.Config{Now: time.Now, Rand: rand.Reader})
			if err != nil {
				return err
			}
			if asJSON {
				err = a.writeJSON(report)
			} else {
				err = report.Write(a.out, a.env)
			}
			if err == nil && !report.OK {
				err = errReported
			}
			return err
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	c.DisableFlagsInUseLine = true
	return c
}
