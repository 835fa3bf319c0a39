package lease

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keywright/keywright/host/state"
)

// unwritten is a record that the store has not confirmed yet. The fence of the lease makes it safe to try again.
type unwritten struct {
	lease state.Lease
	rec   record
	// doubted is set if the record takes back an intent that the store has not confirmed.
	doubted bool
}

// reserve takes a place for what becomes of an intent, so that the node can keep it if the store does not take it.
func (n *Node) reserve() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return errors.New("the node is closing: nothing is sent")
	case n.unsettled >= n.c.Unwritten:
		return fmt.Errorf("the store of state has not confirmed what became of %d tokens: none is sent until it does", n.unsettled)
	}
	n.unsettled++
	return nil
}

// freeSlot frees a place that reserve took.
func (n *Node) freeSlot() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unsettled--
}

// later writes a record now, and if that fails, keeps it for Run.
func (n *Node) later(ctx context.Context, u unwritten) {
	n.mu.Lock()
	if _, ok := n.pending[u.lease]; ok { // the store was put back, and the node has acquired the same lease again
		n.unsettled--
	}
	n.pending[u.lease] = u
	n.mu.Unlock()
	n.settle(context.WithoutCancel(ctx), u)
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

// The time between two tries to write begins with firstTry, and doubles up to lastTry.
const (
	firstTry = 50 * time.Millisecond
	lastTry  = 3 * time.Second
)

// Run writes what the store did not take at once, until ctx is done. Else only calls for the same grant, and Close, try again.
func (n *Node) Run(ctx context.Context) {
	for ctx.Err() == nil {
		n.flush(ctx, func() bool { return len(n.unwritten(nil)) > 0 })
		select {
		case <-n.woken:
		case <-ctx.Done():
		}
	}
}

// Close keeps the node from sending any more tokens that may be used once, and waits until the store has confirmed what became of
// those that were sent, or ctx is done. Grants of which it does not know are lost then, and Close returns an error.
func (n *Node) Close(ctx context.Context) error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	remaining := 0
	n.flush(ctx, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		remaining = n.unsettled
		return remaining > 0
	})
	if remaining > 0 {
		return fmt.Errorf("the store of state has not confirmed what became of %d tokens that may be used once: their grants may be lost", remaining)
	}
	return nil
}

// flush tries to write while there is something left, or until ctx is done.
func (n *Node) flush(ctx context.Context, pending func() bool) {
	for pause := firstTry; pending(); pause = min(2*pause, lastTry) {
		for _, u := range n.unwritten(nil) {
			n.settle(ctx, u)
		}
		if !pending() || ctx.Err() != nil {
			return
		}
		n.c.Sleep(ctx, pause)
	}
}

// catchUp tries to write what the store did not take of a row. It returns how many records there were, and are left.
func (n *Node) catchUp(ctx context.Context, id state.ID) (attempts, remaining int) {
	all := n.unwritten(&id)
	for _, u := range all {
		n.settle(ctx, u)
	}
	return len(all), len(n.unwritten(&id))
}

// Unwritten returns the number of grants with something that the store did not take. [Node.Run] tries again.
func (n *Node) Unwritten() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.pending)
}

// unwritten returns what the store did not take, of one row or of all, in the order of the leases.
func (n *Node) unwritten(id *state.ID) (all []unwritten) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for lease, u := range n.pending {
		if id == nil || lease.ID == *id {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b unwritten) int {
		return cmp.Or(bytes.Compare(a.lease.ID[:], b.lease.ID[:]), cmp.Compare(a.lease.Fence, b.lease.Fence))
	})
	return all
}

// settle tries to write a record, and forgets it once the store has taken it, or never will.
func (n *Node) settle(ctx context.Context, u unwritten) {
	ok, err := n.put(ctx, u.lease, u.rec.encode(), 0, true)
	if err != nil || !ok && u.doubted && !n.overtaken(ctx, u) {
		return
	}
	if !ok {
		n.release(ctx, u.lease) // an earlier try may have written the record, and kept the lease
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.pending[u.lease]; ok {
		delete(n.pending, u.lease)
		n.unsettled--
	}
}

// overtaken reports whether nothing is left to try for a doubted intent whose record the store has not taken. If the intent may still
// be on its way, overtaken acquires the lease, after which the fence of the intent is too old.
func (n *Node) overtaken(ctx context.Context, u unwritten) bool {
	row, err := n.get(ctx, u.lease.ID)
	if err != nil {
		return false
	}
	switch row.Generation {
	case u.lease.Generation: // it has come since the try, and the next one takes it back, unless somebody has acquired the lease
		_, err := n.put(ctx, u.lease, u.rec.encode(), 0, true)
		return err == nil
	case u.lease.Generation - 1:
		next, ok, err := n.acquire(ctx, u.lease.ID, row.Generation)
		if err != nil || !ok {
			return false
		}
		n.release(ctx, next)
		return true
	}
	return true
}
