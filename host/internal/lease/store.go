package lease

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/keywright/keywright/host/state"
)

// StoreError is the error of a store that does not answer, or not in time.
type StoreError struct {
	Err error
	// Paused is set if the store was not asked, because it has failed several times in a row. Err is the last failure then.
	Paused bool
}

func (e *StoreError) Error() string {
	if e.Paused {
		return state.ErrUnavailable.Error() + ", and is asked again in a moment: " + e.Err.Error()
	}
	return state.ErrUnavailable.Error() + ": " + e.Err.Error()
}

// Unwrap returns [state.ErrUnavailable] and the error of the store.
func (e *StoreError) Unwrap() []error { return []error{state.ErrUnavailable, e.Err} }

const (
	// failures in a row keep the store from being asked for a while. One alone may be a connection that was cut.
	failures = 3
	// pause is that while. Then one call asks in each while, until the store answers.
	pause = time.Second
)

// breaker keeps calls from a store that does not answer, so that not each of them takes Config.StoreTimeout.
type breaker struct {
	mu     sync.Mutex
	failed int
	last   error
	since  time.Time
}

// enter returns an error if the store must not be asked now.
func (b *breaker) enter(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed < failures {
		return nil
	}
	if now.Sub(b.since) < pause {
		return &StoreError{Err: b.last, Paused: true}
	}
	b.since = now
	return nil
}

// leave records what a call returned. A call whose caller has gone says nothing about the store.
func (b *breaker) leave(now time.Time, err error, canceled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.failed = 0
	case !canceled:
		b.failed, b.last, b.since = min(b.failed+1, failures), err, now
	}
}

// unrest returns how much is left of a time since the last failure. Other nodes may have failed, too, and not yet written what they know.
func (b *breaker) unrest(now time.Time, d time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		return 0
	}
	return min(d, d-now.Sub(b.since))
}

// ask calls the store within its time, unless it is paused. Errors are a [*StoreError], or that of ctx.
func (n *Node) ask(ctx context.Context, call func(ctx context.Context) error) error {
	if err := n.breaker.enter(n.c.Now()); err != nil {
		return err
	}
	callCtx, cancel := n.c.Within(ctx, n.c.StoreTimeout)
	defer cancel()
	err := call(callCtx)
	canceled := ctx.Err() != nil
	n.breaker.leave(n.c.Now(), err, canceled)
	switch {
	case err == nil:
		return nil
	case canceled:
		return ctx.Err()
	}
	return &StoreError{Err: err}
}

type reading struct {
	state.Row
	// highest is the highest generation that the node had seen before, or 0.
	highest int64
}

func (n *Node) get(ctx context.Context, id state.ID) (row reading, err error) {
	row.highest, _ = n.highest.Get(id)
	err = n.ask(ctx, func(ctx context.Context) (err error) {
		row.Row, err = n.c.Store.Get(ctx, id)
		return err
	})
	if row.LeasedFor > 2*n.c.Lease+state.Slack { // the clock of the store was set back, and Acquire does not count such a lease either
		row.LeasedFor = 0
	}
	return row, err
}

func (n *Node) acquire(ctx context.Context, id state.ID, generation int64) (lease state.Lease, ok bool, err error) {
	ok, err = n.change(ctx, func(ctx context.Context) (ok bool, err error) {
		lease, ok, err = n.c.Store.Acquire(ctx, id, generation, n.c.Lease)
		return ok, err
	})
	return lease, ok, err
}

// claim acquires the lease of a row that was read, unless somebody holds it. start is when the time of the lease began, or before.
func (n *Node) claim(ctx context.Context, id state.ID, row reading) (lease state.Lease, start time.Time, ok bool, err error) {
	if row.LeasedFor > 0 {
		return lease, start, false, nil
	}
	start = n.c.Now()
	lease, ok, err = n.acquire(ctx, id, row.Generation)
	return lease, start, ok, err
}

func (n *Node) put(ctx context.Context, lease state.Lease, value []byte, expires time.Duration, release bool) (ok bool, err error) {
	sealed := n.ring.seal(lease.ID, lease.Generation+1, value)
	previous, _ := n.highest.Peek(lease.ID)
	ok, err = n.change(ctx, func(ctx context.Context) (bool, error) { return n.c.Store.Put(ctx, lease, sealed, expires, release) })
	if ok {
		n.remember(lease.ID, lease.Generation+1, previous) // also if before is higher: the store has just confirmed this one
	}
	return ok, err
}

// reseal replaces a sealed value of this generation, and reports whether it did. Everything else of the row stays.
func (n *Node) reseal(ctx context.Context, id state.ID, generation int64, sealed []byte) (bool, error) {
	return n.change(ctx, func(ctx context.Context) (bool, error) { return n.c.Store.Reseal(ctx, id, generation, sealed) })
}

func (n *Node) remove(ctx context.Context, id state.ID, generation int64) (bool, error) {
	return n.change(ctx, func(ctx context.Context) (bool, error) { return n.c.Store.Delete(ctx, id, generation) })
}

// change is ask for a call that reports whether it has changed the row. After an error nobody knows.
func (n *Node) change(ctx context.Context, call func(ctx context.Context) (bool, error)) (ok bool, err error) {
	err = n.ask(ctx, func(ctx context.Context) (err error) {
		ok, err = call(ctx)
		return err
	})
	return ok && err == nil, err
}

// release ends a lease, even if the caller has gone. If that fails, the lease ends with its time.
func (n *Node) release(ctx context.Context, lease state.Lease) {
	_ = n.ask(context.WithoutCancel(ctx), func(ctx context.Context) error { return n.c.Store.Release(ctx, lease) })
}

// retryPause is the time between two tries to acquire a row that nobody holds, which somebody may have made so that nobody can.
const retryPause = 10 * time.Millisecond

// wait waits until a row that was read may have changed, for no longer than its lease, and returns an error if ctx is done.
func (n *Node) wait(ctx context.Context, id state.ID, row reading) error {
	if row.LeasedFor == 0 {
		n.c.Sleep(ctx, retryPause)
		return ctx.Err()
	}
	callCtx, cancel := n.c.Within(ctx, row.LeasedFor+n.c.StoreTimeout)
	defer cancel()
	if err := n.c.Store.Wait(callCtx, id, row.Generation); err != nil && ctx.Err() == nil && callCtx.Err() == nil {
		return &StoreError{Err: err}
	}
	return ctx.Err()
}

const keyIDSize = 8

// errSealed says that a value does not open: its key is not there, or it was changed or moved.
var errSealed = errors.New("a value in the store of state does not open: its state key is missing, so add the key that other nodes have; or else somebody changed or moved the value")

// keyring seals with its first key and opens with each. Its keys are made from state keys.
type keyring struct{ keys []sealKey }

type sealKey struct {
	id   [keyIDSize]byte
	aead cipher.AEAD
}

// newKeyring makes a keyring of state keys, which have 32 bytes each. Errors do not hold them.
func newKeyring(stateKeys [][]byte) (*keyring, error) {
	if len(stateKeys) == 0 {
		return nil, errors.New("no state key: set one of 32 random bytes")
	}
	ring := &keyring{}
	for _, stateKey := range stateKeys {
		if len(stateKey) != 32 {
			return nil, errors.New("a state key has not 32 bytes: make one of 32 random bytes")
		}
		id, err := hkdf.Key(sha256.New, stateKey, nil, "keywright state key id", keyIDSize)
		if err != nil {
			return nil, err
		}
		key, err := hkdf.Key(sha256.New, stateKey, nil, "keywright state value", 32)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block) // in FIPS 140-3 mode, no nonce may come from elsewhere
		if err != nil {
			return nil, err
		}
		ring.keys = append(ring.keys, sealKey{[keyIDSize]byte(id), aead})
	}
	return ring, nil
}

// bound returns what a sealed value is bound to.
func bound(id state.ID, generation int64) []byte {
	return binary.BigEndian.AppendUint64(id[:len(id):len(id)], uint64(generation))
}

// seal seals a value for a row that will have a generation: the ID of the key, a nonce, and the sealed text.
func (r *keyring) seal(id state.ID, generation int64, value []byte) []byte {
	first := r.keys[0]
	return first.aead.Seal(first.id[:len(first.id):len(first.id)], nil, value, bound(id, generation))
}

// first reports whether a value is sealed with the first key.
func (r *keyring) first(sealed []byte) bool { return bytes.HasPrefix(sealed, r.keys[0].id[:]) }

// open opens what seal has sealed for the same row and generation.
func (r *keyring) open(id state.ID, generation int64, sealed []byte) ([]byte, error) {
	for _, key := range r.keys {
		if rest, ok := bytes.CutPrefix(sealed, key.id[:]); ok {
			if value, err := key.aead.Open(nil, nil, rest, bound(id, generation)); err == nil {
				return value, nil
			}
		}
	}
	return nil, errSealed
}

// use keeps hashes of different use apart.
type use byte

const (
	useFetched use = iota + 1
	useGrant
	useHeld
	useRefusal
	useSeed
	usePartition
	useSerial
	useSaved
	useRecord
)

// hash returns a hash of parts under the name key. Lists of parts that differ have different hashes.
func (n *Node) hash(use use, parts ...[]byte) (sum [32]byte) {
	mac := hmac.New(sha256.New, n.nameKey)
	mac.Write([]byte{byte(use)})
	for _, part := range parts {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write(part)
	}
	mac.Sum(sum[:0])
	return sum
}

func (n *Node) id(use use, key Key) state.ID {
	return n.hash(use, key.Partition[:], []byte(key.Name))
}

// Partition returns a partition for a list of parts. All nodes with the same store have the same partition for the same
// list, and nobody without a state key can find out which list a partition is for.
func (n *Node) Partition(parts ...string) [32]byte {
	list := make([][]byte, len(parts))
	for i, part := range parts {
		list[i] = []byte(part)
	}
	return n.hash(usePartition, list...)
}

// Rekeyed counts the values that [Node.Rekey] has seen. Its fields are those of host.Rekeyed.
type Rekeyed struct{ Sealed, Current, Unopened int }

// Rekey seals all values under the first state key. Nodes may go on meanwhile. Those whose first key is another one write
// values under that, so all nodes get the new first key before, and Rekey is called again if some did not. When Sealed is 0,
// the other keys are no longer needed.
func (n *Node) Rekey(ctx context.Context) (Rekeyed, error) {
	var counts Rekeyed
	err := n.c.Store.Rows(ctx, func(id state.ID, row state.Row) (err error) {
		for done := false; !done && err == nil; {
			if done, err = n.rekey(ctx, id, row, &counts); !done && err == nil {
				var now reading
				now, err = n.get(ctx, id) // somebody has written it meanwhile
				row = now.Row
			}
		}
		return err
	})
	return counts, err
}

// rekey seals the value of a row under the first key, and counts it, unless somebody has written the row since it was read.
func (n *Node) rekey(ctx context.Context, id state.ID, row state.Row, counts *Rekeyed) (done bool, err error) {
	switch {
	case row.Value == nil:
		return true, nil
	case n.ring.first(row.Value):
		counts.Current++
		return true, nil
	}
	value, err := n.ring.open(id, row.Generation, row.Value)
	if errors.Is(err, errSealed) {
		counts.Unopened++
		return true, nil
	}
	if done, err = n.reseal(ctx, id, row.Generation, n.ring.seal(id, row.Generation, value)); done {
		counts.Sealed++
	}
	return done, err
}
