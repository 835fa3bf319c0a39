package lease

import (
	"context"
	"time"

	"github.com/keywright/keywright/host/state"
)

// unwritten is a record that the store has not confirmed yet. The fence of the lease makes it safe to try again.
type unwritten struct {
	lease state.Lease
	rec   record
	// since is when the value was issued, by the clock of the node.
	since time.Time
	// withdrawn is set if the record has no new value: it takes an intent back, or marks a token as refused.
	withdrawn bool
}

// later writes a record now, and if that fails, keeps it for Flush.
func (n *Node) later(ctx context.Context, u unwritten) {
	n.mu.Lock()
	n.pending[u.lease.ID] = u
	n.mu.Unlock()
	n.settle(ctx, u)
}

// Flush writes what the store did not take before, and returns the number of records that are still not written. The caller
// calls it now and then while there are some, and before the process ends: their grants are lost without it.
func (n *Node) Flush(ctx context.Context) int {
	n.mu.Lock()
	all := make([]unwritten, 0, len(n.pending))
	for _, u := range n.pending {
		all = append(all, u)
	}
	n.mu.Unlock()
	for _, u := range all {
		n.settle(ctx, u)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.pending)
}

// unwritten returns the value of a record that the store has not taken, if it may be used.
func (n *Node) unwritten(ctx context.Context, id state.ID, rejected int64) (Token, bool) {
	n.mu.Lock()
	u, ok := n.pending[id]
	n.mu.Unlock()
	if !ok {
		return Token{}, false
	}
	n.settle(ctx, u)
	left := u.rec.TTL - n.c.Now().Sub(u.since)
	if u.withdrawn || left <= 0 || u.lease.Generation+1 == rejected {
		return Token{}, false
	}
	return Token{Value: u.rec.Value, ExpiresIn: left, Generation: u.lease.Generation + 1}, true
}

// settle tries to write a record, and forgets it once the store has taken it, or never will.
func (n *Node) settle(ctx context.Context, u unwritten) {
	expires := keep
	if !u.withdrawn {
		expires += max(0, u.rec.TTL-n.c.Now().Sub(u.since))
	}
	ok, err := n.put(ctx, u.lease, u.rec.encode(), expires, true)
	if err != nil {
		return
	}
	if !ok && u.withdrawn && !n.overtaken(ctx, u.lease) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pending[u.lease.ID].lease == u.lease {
		delete(n.pending, u.lease.ID)
	}
}

// overtaken reports whether the intent before this lease's generation can no longer reach the store. If it may still be on
// its way, overtaken acquires the lease, after which its fence is too old.
func (n *Node) overtaken(ctx context.Context, lease state.Lease) bool {
	row, err := n.get(ctx, lease.ID)
	if err != nil {
		return false
	}
	if row.Generation != lease.Generation-1 {
		return row.Generation != lease.Generation // if it has come meanwhile, the next try takes it back
	}
	next, taken, err := n.acquire(ctx, lease.ID, row.Generation)
	if err != nil || !taken {
		return false
	}
	n.release(ctx, next)
	return true
}
