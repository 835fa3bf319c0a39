package lease

import (
	"context"
	"errors"
	"time"
)

// ErrHeld says that something else is held under the same key.
var ErrHeld = errors.New("something else is kept in the store of state under the same key: try again with another")

// Hold keeps a value until it is taken, or ttl is over. The key must be a new one.
func (n *Node) Hold(ctx context.Context, key Key, value []byte, ttl time.Duration) error {
	lease, ok, err := n.acquire(ctx, n.id(useHeld, key), 0)
	if err != nil {
		return err
	}
	if ok {
		ok, err = n.put(ctx, lease, value, max(ttl, 1), true)
	}
	if err == nil && !ok {
		err = ErrHeld
	}
	return err
}

// Take returns what [Node.Hold] keeps, and reports whether there is something. Of all calls by all nodes at most one gets it.
// After an error it may be gone.
func (n *Node) Take(ctx context.Context, key Key) (value []byte, ok bool, err error) {
	id := n.id(useHeld, key)
	row, err := n.get(ctx, id)
	if err != nil || row.Value == nil {
		return nil, false, err
	}
	if value, err = n.open(id, row); err != nil {
		return nil, false, err
	}
	ok, err = n.remove(ctx, id, row.Generation)
	if err != nil || !ok {
		return nil, false, err
	}
	return value, true, nil
}
