package lease

import (
	"context"
	"errors"

	"github.com/keywright/keywright/host/state"
)

// Rekeyed counts the values that [Node.Rekey] has seen.
type Rekeyed struct {
	// Sealed is the number of values that Rekey has sealed under the first state key.
	Sealed int
	// Current is the number of those that were sealed under it before.
	Current int
	// Unopened is the number of those that no state key opens. Rekey leaves them as they are.
	Unopened int
}

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

// rekey seals the value of a row under the first key, and counts it. It returns false if somebody has written the row since
// it was read.
func (n *Node) rekey(ctx context.Context, id state.ID, row state.Row, counts *Rekeyed) (done bool, err error) {
	switch {
	case row.Value == nil:
		return true, nil
	case n.ring.current(row.Value):
		counts.Current++
		return true, nil
	}
	value, err := n.ring.open(id, row.Generation, row.Value)
	if errors.Is(err, errSealed) {
		counts.Unopened++
		return true, nil
	}
	sealed, err := n.ring.seal(id, row.Generation, value)
	if err != nil {
		return false, err
	}
	if done, err = n.reseal(ctx, id, row.Generation, sealed); done {
		counts.Sealed++
	}
	return done, err
}
