// Package lease keeps tokens in a store of state that several nodes share, so that one of them asks a token endpoint for all.
// It knows neither HTTP nor plugins: the exchange is a function of the caller.
//
// # Tokens that may be fetched again
//
// A node reads the row. If there is no value, it acquires the lease of the generation that it has read, exchanges within the time of the
// lease, and writes. If somebody else holds the lease, it waits and reads again. If the store is down, each node exchanges for itself.
//
// # Tokens that may be used once
//
// Servers take a second use of a refresh token that rotates for theft, and revoke the grant (RFC 9700 section 4.14.2). So the holder
// of the lease first writes an intent: the same token, marked as about to be sent. It sends only after the store has confirmed that.
// The caller takes the steps, because it sends: [Node.Begin] takes the lease, [Turn.Intent] writes the intent, and [Turn.Done],
// [Turn.NotRedeemed], [Turn.Refused], [Turn.Lost] or [Turn.Unknown] writes what came of it.
//
// No two attempts are on their way at once: a caller sends a token only after an Intent for it returned no error, once for each, and
// within its context, which ends with two thirds of the lease. Others acquire the row after the lease, or after the caller has seen
// the end of its attempt. None follows an answer that decides, once the store has it: it replaces the token, or ends it, and a
// seed stays in the row as a hash.
//
// A mark without a lease means that the token was sent, and that nobody knows what became of it. The next Begin sends it again, after a
// wait that grows with the attempts. Until somebody acquires the row, a holder that was stopped can still write what it got. If the
// attempt has no end in the store, its holder may be one that the store did not answer. So the first node that finds the lease over
// notes that in the row, and nobody acquires it for as long as such a holder needs to write.
//
// The argument needs a store that keeps what it has confirmed, leases as well. Nodes that have seen a later generation notice a
// database that is put back to an earlier state, but not after they were started again, and not if only a lease is gone.
package lease

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host/state"
)

// Key names a row among those of its use. The store learns only a keyed hash of it.
type Key struct {
	Partition [32]byte
	Name      string
}

// Token is a value, the time for which it may be used, and its generation in the store, or 0.
type Token struct {
	Value      []byte
	ExpiresIn  time.Duration
	Generation int64
}

// Config has the parts of a Node.
type Config struct {
	Store state.Store
	// Keys are the state keys, of 32 bytes each. The first one seals, and all open.
	Keys [][]byte
	// Lease is the time of a lease. The default is 30 seconds. An exchange has two thirds of it.
	Lease time.Duration
	// StoreTimeout bounds each call of the store except Wait. The default is 2 seconds.
	StoreTimeout time.Duration
	// Random is the source of the name key and of names of grants. The default is crypto/rand.
	Random io.Reader
	// Unwritten is the most grants that may wait for the store to confirm what became of their token. If there are as many, no
	// token is sent: it might get lost. The default is 1024.
	Unwritten int
	// Now is the clock of the node. The default is time.Now. It measures durations only.
	Now func() time.Time
	// Within bounds a context. The default is context.WithTimeout.
	Within func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// Sleep waits between tries to write, or until the context is done. The default uses a timer.
	Sleep func(ctx context.Context, d time.Duration)
	// Degraded is called for each exchange that was made without the store. It may be nil.
	Degraded func(err error)
}

// Node is a node's side of the protocol. It is safe for concurrent use.
type Node struct {
	c       Config
	ring    *keyring
	nameKey []byte
	// highest has the highest generation that the node has seen of each row.
	highest *lru.Cache[state.ID, int64]
	breaker breaker

	mu sync.Mutex
	// pending has the writes that the store has not confirmed.
	pending map[state.Lease]unwritten
	// unsettled is the number of intents that have no outcome in the store, which includes those of pending.
	unsettled int
	closed    bool
	// woken has a value after something was added to pending.
	woken chan struct{}
}

// remembered is the number of rows whose generation a node remembers.
const remembered = 1 << 16

// nameKeyRow is the ID of the row that has the name key.
var nameKeyRow state.ID

// NewNode returns a node. It reads the name key from the store, or makes one if it is the first.
func NewNode(ctx context.Context, c Config) (*Node, error) {
	c.Lease = cmp.Or(max(c.Lease, 0), 30*time.Second)
	c.StoreTimeout = cmp.Or(max(c.StoreTimeout, 0), 2*time.Second)
	c.Unwritten = cmp.Or(max(c.Unwritten, 0), 1024)
	c.Random = cmp.Or(c.Random, rand.Reader)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Within == nil {
		c.Within = context.WithTimeout
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	ring, err := newKeyring(c.Keys)
	if err != nil {
		return nil, err
	}
	highest, _ := lru.New[state.ID, int64](remembered) // the only error is for sizes below one
	n := &Node{c: c, ring: ring, highest: highest, pending: map[state.Lease]unwritten{}, woken: make(chan struct{}, 1)}
	n.nameKey, err = n.readNameKey(ctx)
	return n, err
}

// Lease returns the time of a lease.
func (n *Node) Lease() time.Duration { return n.c.Lease }

// remaining returns how much is left of the two thirds of a lease in which its holder sends.
func (n *Node) remaining(start time.Time) time.Duration { return n.c.Lease*2/3 - n.c.Now().Sub(start) }

func sleep(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// errNamesLost says that there are rows whose names nobody can make any more. With another name key, grants would begin anew.
var errNamesLost = errors.New("the store of state has values, and not the row with the key of their names: put that row back, or remove all rows and renew all grants")

// readNameKey returns the name key. Of several nodes that come first, one makes it.
func (n *Node) readNameKey(ctx context.Context) ([]byte, error) {
	ctx, cancel := n.c.Within(ctx, 2*n.c.Lease+n.c.StoreTimeout)
	defer cancel()
	used := false
	for {
		row, err := n.get(ctx, nameKeyRow)
		switch {
		case err != nil:
			return nil, err
		case row.Value != nil:
			return n.ring.open(nameKeyRow, row.Generation, row.Value)
		case used:
			return nil, errNamesLost
		}
		if used, err = n.used(ctx); err != nil {
			return nil, err
		}
		if used { // somebody may have made the key since the row was read, and it is there before any other value
			continue
		}
		lease, ok, err := n.acquire(ctx, nameKeyRow, row.Generation)
		if err != nil {
			return nil, err
		}
		if !ok {
			if err := n.wait(ctx, nameKeyRow, row); err != nil {
				return nil, err
			}
			continue
		}
		key := make([]byte, 32)
		if _, err := io.ReadFull(n.c.Random, key); err != nil {
			return nil, err
		}
		if ok, err := n.put(ctx, lease, key, 0, true); err != nil {
			return nil, err
		} else if ok {
			return key, nil
		}
	}
}

// used reports whether the store has a value.
func (n *Node) used(ctx context.Context) (bool, error) {
	found := errors.New("a value")
	err := n.c.Store.Rows(ctx, func(state.ID, state.Row) error { return found })
	switch {
	case errors.Is(err, found):
		return true, nil
	case err != nil && ctx.Err() == nil:
		err = &StoreError{Err: err}
	}
	return false, err
}

// ErrRolledBack says that a row is older than one that the node has seen.
var ErrRolledBack = errors.New("the store of state has an older value than before: was the database put back?")

// open opens the value of a row, and refuses one that is older than what the node had seen before it read the row. What it has
// seen since then says nothing: other calls of the node go on.
func (n *Node) open(id state.ID, row reading) ([]byte, error) {
	if row.Generation < row.highest {
		return nil, ErrRolledBack
	}
	value, err := n.ring.open(id, row.Generation, row.Value)
	if err == nil {
		n.remember(id, row.Generation, row.highest)
	}
	return value, err
}

// lasting returns the value of a row that nobody removes, or nil if nothing was written yet.
func (n *Node) lasting(id state.ID, row reading) ([]byte, error) {
	switch {
	case row.Value != nil:
		return n.open(id, row)
	case row.highest > 0:
		return nil, ErrRolledBack // a value was here
	}
	return nil, nil
}

// remember notes a generation that a call has read or written. previous is the highest one that the node had seen before the call. The
// highest one stays if other calls have seen it since.
func (n *Node) remember(id state.ID, generation, previous int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if highest, _ := n.highest.Peek(id); highest != previous {
		generation = max(generation, highest)
	}
	n.highest.Add(id, generation)
}
