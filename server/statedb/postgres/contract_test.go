package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/migrate"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/internal/postgresurl"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/internal/sqlstate"
)

// An older node that starts while its schema is contracted does not start (threats.md 562).
func TestContractBesideOpening(t *testing.T) {
	address := postgrestest.Database(t)
	_ = opened(t, address, Options{Pooler: true}, never).Close()
	exec(t, raw(t, address), `INSERT INTO state_migrations (version_id, is_applied) VALUES (1000, true)`)
	newer := sqlstate.Schema
	newer.Files = fstest.MapFS{"migrations/contract/01000_none.sql": {Data: []byte(`SELECT 1`)}}
	config := testworld.Must(postgresurl.Config(address, settings, false))(t)
	store, err := start(t.Context(), stdlib.OpenDB(*config), func(ctx context.Context) (*pgx.ConnConfig, error) {
		status, err := migrate.Contract(ctx, raw(t, address), migrate.Postgres, newer, false)
		if want := (migrate.Status{Schema: 1000, Oldest: 1000, Contract: 1000}); err == nil && status != want {
			err = fmt.Errorf("status = %+v, want %+v", status, want)
		}
		return config, err
	}, Options{}, never)
	if err == nil {
		_ = store.Close()
	}
	if !errors.Is(err, statedb.ErrSchema) {
		t.Errorf("the node starts: %v", err)
	}
}
