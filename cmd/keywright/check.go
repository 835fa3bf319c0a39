package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/internal/connectors"
)

// checked is what check --json writes.
type checked struct {
	File       string               `json:"file"`
	OK         bool                 `json:"ok"`
	Connectors []checkedConnector   `json:"connectors"` // none when there are problems
	Problems   []connectors.Problem `json:"problems"`
}

type checkedConnector struct {
	Permalink string   `json:"permalink"`
	Name      string   `json:"name"`
	URL       string   `json:"url"`
	Type      string   `json:"type"`
	Secrets   []string `json:"secrets"` // the names that its templates have
}

func (a *app) check() *cobra.Command {
	var flags configFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [-c FILE] [--dev]",
		Short: "Check a configuration: every problem, a line each, with line and column",
		Args:  arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			result := checked{File: flags.file, Connectors: []checkedConnector{}, Problems: []connectors.Problem{}}
			set, err := a.load(c.Context(), c, &flags)
			var wrong *connectors.Error
			switch {
			case errors.As(err, &wrong):
				result.Problems = wrong.Problems
			case err != nil:
				return err
			default:
				defer closeSet(c.Context(), set)
				result.OK = true
				for _, one := range set.Connectors {
					result.Connectors = append(result.Connectors, checkedConnector{
						one.Permalink, one.Title, one.URL.String(), one.Auth.Type, append([]string{}, one.Secrets()...),
					})
				}
			}
			if asJSON {
				err = a.writeJSON(result)
			} else {
				err = a.writeChecked(result, wrong)
			}
			if err == nil && !result.OK {
				err = errTold
			}
			return err
		},
	}
	flags.add(c, "connectors.yaml")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	c.DisableFlagsInUseLine = true
	return c
}

// writeChecked writes problems to stdout: they are what was asked for.
func (a *app) writeChecked(result checked, wrong *connectors.Error) error {
	if wrong != nil {
		_, err := fmt.Fprintln(a.out, wrong)
		return err
	}
	_, err := fmt.Fprintf(a.out, "%s: %s, no problems\n", result.File, count(len(result.Connectors), "connector"))
	return err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
