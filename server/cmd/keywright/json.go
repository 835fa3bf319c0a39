package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
)

// A document is the output of a command: JSON with --json, or else a text for people.
type document interface{ print(a *app) }

// showing returns the command c with the flag --json. It puts out the document that run returns, which may be nil, and ends with
// the error of run, also with a document. With --json and without one, a failure is written as JSON. An invalid command line is
// reported on stderr all the same, because the program that reads the output did not write it.
func (a *app) showing(c *cobra.Command, run func(*cobra.Command, []string) (document, error)) *cobra.Command {
	asJSON := c.Flags().Bool("json", false, "write JSON, for machines")
	c.RunE = func(c *cobra.Command, args []string) error {
		shown, err := run(c, args)
		var usage *usageError
		switch {
		case shown != nil && *asJSON:
			return cmp.Or(a.writeJSON(shown), err)
		case shown != nil:
			shown.print(a)
			return err
		case err == nil || !*asJSON || errors.Is(err, errReported) || errors.Is(err, context.Canceled) || errors.As(err, &usage):
			return err
		}
		return cmp.Or(a.writeJSON(failure(err)), errReported)
	}
	return c
}

// writeJSON writes the output of --json.
func (a *app) writeJSON(v any) error {
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// failed is the document that --json writes for a failure of any command. The document of check has the same members.
type failed struct {
	// File is the configuration, if it is invalid.
	File     string               `json:"file,omitempty"`
	OK       bool                 `json:"ok"`
	Problems []connectors.Problem `json:"problems"`
}

// orJSON returns a function that runs a command, and with --json writes a failure as JSON. An invalid command line is reported
// on stderr all the same, because the program that reads the output did not write it.
func (a *app) orJSON(asJSON *bool, run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		err := run(c, args)
		var usage *usageError
		if err == nil || !*asJSON || errors.Is(err, errReported) || errors.Is(err, context.Canceled) || errors.As(err, &usage) {
			return err
		}
		if err := a.writeJSON(failure(err)); err != nil {
			return err
		}
		return errReported
	}
}

func failure(err error) failed {
	var file *connectors.Error
	if errors.As(err, &file) {
		return failed{File: file.File, Problems: file.Problems}
	}
	problem := connectors.Problem{Message: err.Error()}
	var request *host.Error
	if errors.As(err, &request) {
		problem.Path = "connectors." + request.Connector
	}
	return failed{Problems: []connectors.Problem{problem}}
}
