package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/state"
)

// StateConfig configures a State.
type StateConfig struct {
	// Store keeps the state. Hosts on several nodes have the same one.
	Store state.Store
	// Keys are the state keys, of 32 bytes each. The first one seals what is written, and all of them open what is read. All
	// nodes need the same keys; to change them, add the new key behind the old one on each node first.
	Keys [][]byte
	// Lease is the time for which one node alone may ask a token endpoint for a token. A token request has two thirds of it.
	// The default is 30 seconds.
	Lease time.Duration
	// Clock returns the time. If it is nil, time.Now is used. It measures durations only.
	Clock func() time.Time
	// Random is the source of randomness. It must be fit for generating keys. If it is nil, crypto/rand is used.
	Random io.Reader
	// If not nil, Degraded is called for each token request that was made without the store, because the store failed.
	Degraded func(error)
}

// State keeps tokens in a store that several nodes share and that outlives them. Of several nodes, one asks a token endpoint
// for all. It outlives the hosts that use it, and may be used by several at once. Close ends it.
type State struct {
	node *lease.Node
}

// NewState returns the state of a store. The first node that uses a store writes a row into it. NewState returns an error if
// the store fails, or if none of the keys opens what is in it.
func NewState(ctx context.Context, c StateConfig) (*State, error) {
	if c.Store == nil {
		return nil, errors.New("the state has no store")
	}
	node, err := lease.NewNode(ctx, lease.Config{
		Store: c.Store, Keys: c.Keys, Lease: c.Lease, Now: c.Clock, Random: c.Random, Degraded: c.Degraded,
	})
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return &State{node}, nil
}

// Close writes what the store did not take before. The grants of what it cannot write are lost. It does not close the store.
func (s *State) Close(ctx context.Context) error {
	if left := s.node.Flush(ctx); left > 0 {
		return fmt.Errorf("the store of state has not taken %d new refresh tokens: their grants are lost, and must be renewed", left)
	}
	return nil
}
