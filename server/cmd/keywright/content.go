package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/postgres"
	"github.com/keywright/keywright/server/content/sqlite"
)

// contentDB is the environment variable that replaces --db.
const contentDB = "KEYWRIGHT_CONTENT_DB"

// databaseFlags holds the flags of a database.
type databaseFlags struct {
	url         string
	connections int
	pooler      bool
}

func (f *databaseFlags) add(c *cobra.Command, sqlite string) {
	c.Flags().StringVar(&f.url, "db", "", "the database: sqlite:PATH"+sqlite+", or postgres://… (default $"+contentDB+")")
	c.Flags().IntVar(&f.connections, "db-connections", 16, "the most connections to PostgreSQL")
	c.Flags().BoolVar(&f.pooler, "db-pooler", false, "PostgreSQL is behind a pooler that lends connections for a transaction, such as PgBouncer")
}

// address returns the URL of the database from the flag or the environment.
func (f *databaseFlags) address(a *app, c *cobra.Command) (string, error) {
	address := cmp.Or(f.url, a.env(contentDB))
	switch {
	case address == "":
		return "", misuse(c, "without --db: give it as sqlite:PATH or postgres://…, or set %s", contentDB)
	case f.connections < 2:
		return "", misuse(c, "--db-connections wants 2 or more")
	}
	return address, nil
}

var errNoDatabase = errors.New("this is no URL of a database: it has to be like sqlite:content.db or postgres://user@host/database")

// open opens the database. It creates one of SQLite that does not exist. Its errors contain no part of the URL that may be a password.
func (f *databaseFlags) open(a *app, c *cobra.Command) (content.Database, error) {
	return f.opened(a, c, sqlite.Open)
}

// openToRead is like open, and creates no database.
func (f *databaseFlags) openToRead(a *app, c *cobra.Command) (content.Database, error) {
	return f.opened(a, c, func(ctx context.Context, path string) (content.Database, error) {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) { // so that a misspelt path is no empty database
			return nil, fmt.Errorf("there is no database %s: `keywright content import` makes one", path)
		}
		return sqlite.OpenToRead(ctx, path)
	})
}

func (f *databaseFlags) opened(a *app, c *cobra.Command, file func(context.Context, string) (content.Database, error)) (content.Database, error) {
	address, err := f.address(a, c)
	if err != nil {
		return nil, err
	}
	switch scheme, path, _ := strings.Cut(address, ":"); {
	case scheme == "sqlite" && path != "":
		return file(c.Context(), path)
	case scheme == "postgres" || scheme == "postgresql":
		return postgres.Open(c.Context(), address, postgres.Options{Connections: f.connections, Pooler: f.pooler})
	}
	return nil, errNoDatabase
}

func contentExportCommand(a *app) *cobra.Command {
	var db databaseFlags
	c := &cobra.Command{
		Use:   "export [--db URL]",
		Short: "Write all records as NDJSON",
		Long: "Writes all records of a database to stdout as NDJSON, hidden ones too: a backup, and the way from one database to another. " +
			"`keywright content import` reads it, and a database that has imported it exports the same bytes. The export shows one state " +
			"of the database, also while records are imported.",
		RunE: func(c *cobra.Command, _ []string) error {
			store, err := db.openToRead(a, c)
			if err != nil {
				return err
			}
			status, err := store.Export(c.Context(), a.out)
			if err == nil {
				a.printErr("exported: product updates %d, articles %d, replies %d, moderators %d", status.ProductUpdates, status.Articles, status.Replies, status.Moderators)
			}
			return errors.Join(err, store.Close())
		},
	}
	db.add(c, "")
	return c
}

// contentStatus is the document of content status.
type contentStatus content.Status

func contentStatusCommand(a *app) *cobra.Command {
	var db databaseFlags
	c := a.showing(&cobra.Command{
		Use:   "status [--db URL] [--json]",
		Short: "Count the records",
		Long:  "Counts the records of a database, and says when the last activity was.",
	}, func(c *cobra.Command, _ []string) (document, error) {
		store, err := db.openToRead(a, c)
		if err != nil {
			return nil, err
		}
		status, err := store.Status(c.Context())
		if err = errors.Join(err, store.Close()); err != nil {
			return nil, err
		}
		return contentStatus(status), nil
	})
	db.add(c, "")
	return c
}

func (s contentStatus) print(a *app) {
	a.out.Line("product updates %d, articles %d (listed %d), replies %d, moderators %d; last activity %s",
		s.ProductUpdates, s.Articles, s.Listed, s.Replies, s.Moderators, cmp.Or(s.Newest, "none"))
}
