// Package statestore opens the store of state that a file of connectors describes.
//
//	var opened *statestore.Store
//	set, err := connectors.Load(ctx, "connectors.yaml", connectors.Options{
//		OpenState: func(ctx context.Context, s *connectors.State, c *host.Config) (err error) {
//			if opened, err = statestore.Open(ctx, s, statestore.Options{}); err == nil {
//				c.State = opened.State
//			}
//			return err
//		},
//	})
package statestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/postgresurl"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/postgres"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

// Options configures [Open]. All members may be nil.
type Options struct {
	// Logger gets what fails in the background, and a line now and then while the store fails.
	Logger *slog.Logger
	// Observe is called after each operation on a row.
	Observe statedb.Observe
	// Clock is the clock of the host, which measures durations.
	Clock func() time.Time
	// Degraded is called for each token request that was made without the store, because the store failed.
	Degraded func(error)
}

// Store is an open store, and the host's State on it.
type Store struct {
	State    *host.State
	Database statedb.Database
}

// Open opens the store of a file, and creates it if it is not there. Its errors hold neither a password nor a state key.
func Open(ctx context.Context, s *connectors.State, o Options) (*Store, error) {
	settings, err := s.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("state.%w", err) // it begins with a member of state
	}
	store := &Store{}
	if settings.Type == connectors.StateSQLite {
		store.Database, err = sqlite.Open(ctx, settings.Path, sqlite.Options{Logger: o.Logger, Observe: o.Observe})
	} else {
		if o.Logger != nil && !verified(settings.URL) {
			o.Logger.Warn("the connection to the database of state is not verified, so that somebody in the network may pose as the database: add sslmode=verify-full to the URL")
		}
		store.Database, err = postgres.Open(ctx, settings.URL, postgres.Options{Connections: settings.Connections, Pooler: settings.Pooler, Logger: o.Logger, Observe: o.Observe})
	}
	if err != nil {
		return nil, err
	}
	config := host.StateConfig{Store: store.Database, Lease: settings.Lease, Clock: o.Clock, Logger: o.Logger, Degraded: o.Degraded}
	for _, key := range settings.Keys {
		config.Keys = append(config.Keys, []byte(key))
	}
	if store.State, err = host.NewState(ctx, config); err != nil {
		return nil, errors.Join(err, store.Database.Close())
	}
	return store, nil
}

// verified reports whether each connection that a URL allows is inside this machine, or verifies the certificate of the
// database. A malformed URL counts as verified, because it is an error later.
func verified(address string) bool {
	config, err := postgresurl.Parse(address)
	if err != nil {
		return true
	}
	ways := []pgconn.FallbackConfig{{Host: config.Host, TLSConfig: config.TLSConfig}}
	for _, fallback := range config.Fallbacks {
		ways = append(ways, *fallback)
	}
	return !slices.ContainsFunc(ways, func(way pgconn.FallbackConfig) bool {
		ip, err := netip.ParseAddr(way.Host)
		local := strings.HasPrefix(way.Host, "/") || way.Host == "localhost" || err == nil && ip.IsLoopback()
		checks := way.TLSConfig != nil && (!way.TLSConfig.InsecureSkipVerify || way.TLSConfig.VerifyPeerCertificate != nil)
		return !local && !checks
	})
}

// Close writes what the store did not take before, until ctx ends, and closes the store. Close the hosts with the state first.
func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.State.Close(ctx), s.Database.Close())
}
