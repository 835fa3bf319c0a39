package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/state"
	"github.com/keywright/keywright/server/state/postgres"
	"github.com/keywright/keywright/server/state/sqlite"
)

// stores are the stores of state that nodes share. open returns one that is empty, and a function that removes it.
var stores = []struct {
	name string
	open func(context.Context) (state.Database, func() error, error)
}{
	{"SQLite", sqliteState},
	{"PostgreSQL", postgresState},
}

// nodeRows returns the rows for what a store of state costs.
func nodeRows() []row {
	all := []row{{
		work: "RoundTrip, oauth_client_credentials with a cached token and a store of state", against: "the same without a store",
		unit: nanoseconds, goal: 1.02, measure: besideNoState,
	}}
	for _, store := range stores {
		all = append(all, row{
			work: "first RoundTrip with a token that another node has stored in " + store.name + ": p50 ÷ 2 ms", against: "2 ms",
			unit: nanoseconds, goal: 1,
			measure: func(ctx context.Context, s session) (result, error) { return storedElsewhere(ctx, s, store.open) },
		})
	}
	return all
}

func sqliteState(ctx context.Context) (state.Database, func() error, error) {
	directory, err := os.MkdirTemp("", "keywright-bench-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return os.RemoveAll(directory) }
	database, err := sqlite.Open(ctx, filepath.Join(directory, "state.db"), sqlite.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return database, func() error { return errors.Join(database.Close(), remove()) }, nil
}

func postgresState(ctx context.Context) (state.Database, func() error, error) {
	server, err := postgrestest.Start(durable...)
	if err != nil {
		return nil, nil, err
	}
	address, err := server.Database(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, server.Stop())
	}
	database, err := postgres.Open(ctx, address, postgres.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, server.Stop())
	}
	return database, func() error { return errors.Join(database.Close(), server.Stop()) }, nil
}

// node returns a host that is a node of a store, with one connector, and a function that closes it.
func node(ctx context.Context, b *base, store state.Database, a host.Auth) (*host.Connector, func() error, error) {
	shared, err := host.NewState(ctx, host.StateConfig{Store: store, Keys: [][]byte{bytes.Repeat([]byte{1}, 32)}})
	if err != nil {
		return nil, nil, err
	}
	h, c, err := connected(ctx, b, a, func(c *host.Config) { c.State = shared })
	if err != nil {
		return nil, nil, errors.Join(err, shared.Close(ctx))
	}
	return c, func() error { return errors.Join(h.Close(ctx), shared.Close(ctx)) }, nil
}

func besideNoState(ctx context.Context, s session) (_ result, err error) {
	store, done, err := sqliteState(ctx)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, done()) }()
	with, without := &base{}, &base{}
	c, closeNode, err := node(ctx, with, store, authOf("oauth_client_credentials"))
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, closeNode()) }()
	h, alone, err := connected(ctx, without, authOf("oauth_client_credentials"))
	if err != nil {
		return result{}, err
	}
	defer h.Close(ctx)
	r := request(ctx)
	return s.pair(ctx, op{run: roundTripOf(c.Transport(with), r)}, op{run: roundTripOf(alone.Transport(without), r)})
}

// users is the number of the users of which each has a token of their own.
const users = 200

// storedElsewhere measures the first request of each user on one node, after another node has stored their tokens.
func storedElsewhere(ctx context.Context, s session, open func(context.Context) (state.Database, func() error, error)) (_ result, err error) {
	store, done, err := open(ctx)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, done()) }()
	sample := 0
	return s.bound(ctx, float64(2*time.Millisecond), func() (p50 float64, err error) {
		sample++ // its users are new
		personal := authOf("oauth_client_credentials")
		personal.Config = map[string]any{
			"client_id": "{{ user.id }}", "client_secret": "{{ get_secret('client') }}", "token_url": tokenURL,
			"scope": fmt.Sprint("read", sample),
		}
		b := &base{}
		var times []time.Duration
		for range 2 { // the first node fills the store
			c, closeNode, err := node(ctx, b, store, personal)
			if err != nil {
				return 0, err
			}
			defer func() { err = errors.Join(err, closeNode()) }()
			transport := c.Transport(b)
			times = times[:0]
			for i := range users {
				r := request(host.WithUser(ctx, host.User{ID: fmt.Sprint("user", i)}))
				began := time.Now()
				if err := send(transport, r); err != nil {
					return 0, err
				}
				times = append(times, time.Since(began))
			}
		}
		if n := b.exchanges.Load(); n != users {
			return 0, fmt.Errorf("%d tokens were to be asked for, and %d were", users, n)
		}
		slices.Sort(times)
		return float64(times[len(times)/2]), nil
	})
}
