package main

import (
	"crypto/rand"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/server/internal/demo/tour"
)

// demoReport is the document of demo.
type demoReport struct{ *tour.Report }

func demoCommand(a *app) *cobra.Command {
	return a.showing(&cobra.Command{
		Use:   "demo",
		Short: "Run five of the auth types end to end, against servers that it starts itself",
		Long: "Starts a token endpoint and an API on loopback that really check what they get, sends requests of five auth " +
			"types through plugins in their sandbox, and shows what arrived. The exit code is 0 when all of it is as it has to be.",
	}, func(c *cobra.Command, _ []string) (document, error) {
		report, err := tour.Run(c.Context(), tour.Config{Now: time.Now, Rand: rand.Reader})
		if err != nil {
			return nil, err
		}
		return demoReport{report}, reportedUnless(report.OK)
	})
}

func (r demoReport) print(a *app) { r.Print(a.out) }
