package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/keywright/keywright/host/internal/hostfn"
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
	// Logger receives a line when the store fails, at most one a minute. If it is nil, nothing is logged.
	Logger *slog.Logger
	// If not nil, Degraded is called for each token request that this node made for itself because the store failed.
	Degraded func(error)
}

// State keeps tokens in a store that several nodes share and that outlives them. Of several nodes, one asks a token endpoint
// for all. A State outlives the hosts that use it, and several hosts may use it at once. Close ends it.
type State struct {
	node *lease.Node
	// writing is the goroutine that writes again what the store did not take, and stop ends it.
	writing sync.WaitGroup
	stop    context.CancelFunc
}

// NewState returns the state of a store. The first node that uses a store writes a row into it. NewState returns an error if
// the store fails, or if none of the keys opens what is in it.
func NewState(ctx context.Context, c StateConfig) (*State, error) {
	if c.Store == nil {
		return nil, errors.New("the state has no store: set StateConfig.Store")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	var lines pace
	degraded := func(err error) {
		if c.Logger != nil && lines.due(c.Clock(), time.Minute) {
			c.Logger.Warn("the store of state failed: until it answers, this node requests tokens for itself, and grants whose token may be used once fail",
				slog.Any("error", err))
		}
		if c.Degraded != nil {
			c.Degraded(err)
		}
	}
	node, err := lease.NewNode(ctx, lease.Config{
		Store: c.Store, Keys: c.Keys, Lease: c.Lease, Now: c.Clock, Random: c.Random, Degraded: degraded,
	})
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	running, stop := context.WithCancel(context.Background())
	s := &State{node: node, stop: stop}
	s.writing.Go(func() { node.Run(running) })
	return s, nil
}

// Close keeps hosts from sending any more tokens that may be used once, and waits until the store has confirmed what became of those that
// were sent. It returns an error if ctx is done before: their grants may be lost then. The caller closes the store afterwards.
func (s *State) Close(ctx context.Context) error {
	s.stop()
	s.writing.Wait()
	return s.node.Close(ctx)
}

// Unwritten returns the number of grants with a new token that the store did not take. The State writes it again and again.
// The grants are lost if the process ends before.
func (s *State) Unwritten() int { return s.node.Unwritten() }

// Connection is the state of a user's grant at a connector.
type Connection struct {
	Condition Condition
	// Age is the time since the grant was renewed, redeemed, sent without an answer, lost or refused last. It is 0 if there is none.
	Age time.Duration
}

// Grants returns the numbers of grants in the store by their condition. None of them is [ConditionNotConnected]. An error is that of the
// store, or of ctx, and the numbers are those of what was read before.
func (s *State) Grants(ctx context.Context) (map[Condition]int, error) {
	found, err := s.node.Standings(ctx)
	all := map[Condition]int{}
	for standing, n := range found {
		all[Condition(standing)] = n
	}
	return all, err
}

// Rekeyed counts the values that [State.Rekey] has seen.
type Rekeyed struct {
	// Sealed is the number of values that Rekey has sealed under the first state key, and Current the number of those that
	// were sealed under it before.
	Sealed, Current int
	// Unopened is the number of those that no state key opens. Rekey leaves them as they are.
	Unopened int
}

// Rekey seals all values in the store under the first state key. All nodes must have that key before, and may go on
// meanwhile. When Sealed is 0, the other keys are no longer needed. An error is that of the store, or of ctx: call Rekey again then.
func (s *State) Rekey(ctx context.Context) (Rekeyed, error) {
	counts, err := s.node.Rekey(ctx)
	return Rekeyed(counts), err
}

// stateFailure returns an Error of the connector for an error of package lease. text says what cannot be done.
func (c *Connector) stateFailure(text string, err error) error {
	return c.fail(StageToken, stateError(fmt.Errorf("%s: %w", text, err)))
}

// stateError marks an error of package lease as passing, see [hostfn.Passing], unless a person has to mend what it says.
func stateError(err error) error {
	if lease.Permanent(err) {
		return err
	}
	return hostfn.Passing(err)
}
