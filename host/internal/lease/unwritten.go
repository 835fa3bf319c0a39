package lease

import (
	"bytes"
	"context"

	"github.com/keywright/keywright/host/state"
)

// unwritten is a record that the store has not confirmed yet. The fence of the lease makes it safe to try again.
type unwritten struct {
	lease state.Lease
	rec   record
	// doubted is the attempt of the intent that the record takes back, if the store has not confirmed that intent.
	doubted []byte
}

// later writes a record now, and if that fails, keeps it for Flush.
func (n *Node) later(ctx context.Context, u unwritten) {
	n.mu.Lock()
	n.pending[u.lease] = u
	n.mu.Unlock()
	n.settle(context.WithoutCancel(ctx), u)
}

// Flush writes what the store did not take before, and returns the number of records that are still not written. The caller
// calls it now and then while there are some, and before the process ends: their grants are lost without it.
func (n *Node) Flush(ctx context.Context) int {
	for _, u := range n.unwritten(nil) {
		n.settle(ctx, u)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.pending)
}

// catchUp tries to write what the store did not take of a row. It returns how many records there were, and are left.
func (n *Node) catchUp(ctx context.Context, id state.ID) (tried, left int) {
	all := n.unwritten(&id)
	for _, u := range all {
		n.settle(ctx, u)
	}
	return len(all), len(n.unwritten(&id))
}

// unwritten returns what the store did not take, of one row or of all.
func (n *Node) unwritten(id *state.ID) (all []unwritten) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for lease, u := range n.pending {
		if id == nil || lease.ID == *id {
			all = append(all, u)
		}
	}
	return all
}

// settle tries to write a record, and forgets it once the store has taken it, or never will.
func (n *Node) settle(ctx context.Context, u unwritten) {
	ok, err := n.put(ctx, u.lease, u.rec.encode(), 0, true)
	if err != nil || !ok && u.doubted != nil && !n.overtaken(ctx, u) {
		return
	}
	if !ok {
		n.release(ctx, u.lease) // an earlier try may have written the record, and kept the lease
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pending, u.lease)
}

// overtaken reports whether a doubted intent can no longer reach the store. If it may still be on its way, overtaken
// acquires the lease, after which its fence is too old.
func (n *Node) overtaken(ctx context.Context, u unwritten) bool {
	row, err := n.get(ctx, u.lease.ID)
	if err != nil {
		return false
	}
	switch row.Generation {
	case u.lease.Generation: // if it has come meanwhile, the next try takes it back
		rec, err := n.record(u.lease.ID, row)
		return err != nil || !bytes.Equal(rec.Attempt, u.doubted)
	case u.lease.Generation - 1:
		next, taken, err := n.acquire(ctx, u.lease.ID, row.Generation)
		if err != nil || !taken {
			return false
		}
		n.release(ctx, next)
		return true
	}
	return true
}
