package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
)

// writeJSON is the output of every --json.
func (a *app) writeJSON(v any) error {
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// failed is the document that --json writes for a failure, the same for all commands. It is part of the document of check.
type failed struct {
	File     string               `json:"file,omitempty"` // the configuration, when it is what is wrong
	OK       bool                 `json:"ok"`
	Problems []connectors.Problem `json:"problems"`
}

// orJSON makes a command that has --json tell of its failures that way too. A command line that is wrong is told of on
// stderr all the same: whoever reads the output did not write it.
func (a *app) orJSON(asJSON *bool, run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		err := run(c, args)
		var usage *usageError
		if err == nil || !*asJSON || errors.Is(err, errTold) || errors.Is(err, context.Canceled) || errors.As(err, &usage) {
			return err
		}
		if err := a.writeJSON(failure(err)); err != nil {
			return err
		}
		return errTold
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
