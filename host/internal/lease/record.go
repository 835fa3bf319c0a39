package lease

import (
	"context"
	"time"
)

// SealRecord seals a value for the record with a name, outside of the rows of the store.
func (n *Node) SealRecord(name [16]byte, value []byte) []byte {
	return n.ring.seal(n.hash(useRecord, name[:]), 0, value)
}

// OpenRecord opens what SealRecord has sealed, and reports whether the first state key seals it.
func (n *Node) OpenRecord(name [16]byte, sealed []byte) (value []byte, current bool, err error) {
	value, err = n.ring.open(n.hash(useRecord, name[:]), 0, sealed)
	return value, n.ring.first(sealed), err
}

// Saved returns the value that [Node.Save] has written last, or nil, and its age.
func (n *Node) Saved(ctx context.Context, key Key) ([]byte, time.Duration, error) {
	id := n.id(useSaved, key)
	row, err := n.get(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	value, err := n.lasting(id, row)
	return value, row.Age, err
}

// Save writes a value that stays until the next one takes its place.
func (n *Node) Save(ctx context.Context, key Key, value []byte) error {
	id := n.id(useSaved, key)
	for {
		row, err := n.get(ctx, id)
		if err != nil {
			return err
		}
		lease, _, ok, err := n.claim(ctx, id, row)
		if err == nil && ok {
			ok, err = n.put(ctx, lease, value, 0, true)
		} else if err == nil {
			err = n.wait(ctx, id, row)
		}
		if ok || err != nil {
			return err
		}
	}
}
