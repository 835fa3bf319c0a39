package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/connectors/statestore"
	"github.com/keywright/keywright/server/internal/migrate"
	"github.com/keywright/keywright/server/internal/terminal"
)

// schemaStatus is the document of state migrate and content migrate.
type schemaStatus migrate.Status

func (s schemaStatus) print(a *app) {
	a.out.Line("schema %d, for programs of schema %d and later", s.Schema, s.Oldest)
	if s.Contract > s.Oldest {
		a.out.Line("with --contract, for programs of schema %d and later; running that are older: %s", s.Contract, terminal.Count(s.Older, "program"))
	}
}

// contract contracts a schema. If dry is set, it shows what that would do.
func (a *app) contract(c *cobra.Command, database any, dry bool) (document, error) {
	contract := database.(interface { // each store of this command is of package sqlstate or sqlstore
		Contract(ctx context.Context, dry bool) (migrate.Status, error)
	}).Contract
	status, err := contract(c.Context(), dry)
	switch {
	case err != nil:
		return nil, err
	case !dry && status.Older > 0:
		a.printErr("keywright: nothing is removed, because programs of a schema below %d run: upgrade or end them first", status.Contract)
		return schemaStatus(status), errReported
	}
	return schemaStatus(status), nil
}

const contractUsage = "remove what only programs of older schemas need, which do not start afterwards"

func stateMigrateCommand(a *app) *cobra.Command {
	var remove bool
	c := a.stateCommand("migrate", func(c *cobra.Command, store *statestore.Store, _ *connectors.State) (document, error) {
		return a.contract(c, store.Database, !remove)
	})
	c.Flags().BoolVar(&remove, "contract", false, contractUsage)
	return c
}

func contentMigrateCommand(a *app) *cobra.Command {
	var db databaseFlags
	var remove bool
	c := a.jsonCommand("migrate", nil, func(c *cobra.Command, _ []string) (document, error) {
		store, err := db.open(a, c, openToRead)
		if err != nil {
			return nil, err
		}
		return a.contract(c, store, !remove)
	})
	db.add(c, "")
	c.Flags().BoolVar(&remove, "contract", false, contractUsage)
	return c
}
