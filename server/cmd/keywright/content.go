package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/postgres"
	"github.com/keywright/keywright/server/content/sqlite"
)

// contentDB is the environment variable that replaces --db.
const contentDB = "KEYWRIGHT_CONTENT_DB"

func (a *app) content() *cobra.Command {
	c := &cobra.Command{
		Use:   "content",
		Short: "Serve and import the content of a community",
		Args:  cobra.ArbitraryArgs,
		RunE:  noCommand,
	}
	c.AddCommand(a.contentServe(), a.contentImport())
	return c
}

// databaseURL returns the URL of the database from the flag or the environment.
func (a *app) databaseURL(c *cobra.Command, flag string) (string, error) {
	if flag == "" {
		flag = a.env(contentDB)
	}
	if flag == "" {
		return "", misuse(c, "without --db: give it as sqlite:PATH or postgres://…, or set %s", contentDB)
	}
	return flag, nil
}

// openStore opens the database of a URL. It creates a SQLite database that does not exist. Its errors contain no part of the
// URL that may be a password.
func openStore(ctx context.Context, address string) (content.Database, error) {
	switch scheme, path, _ := strings.Cut(address, ":"); {
	case scheme == "sqlite" && path != "":
		return sqlite.Open(ctx, path)
	case scheme == "postgres" || scheme == "postgresql":
		return postgres.Open(ctx, address)
	}
	return nil, errors.New("this is no URL of a database: it has to be like sqlite:content.db or postgres://user@host/database")
}
