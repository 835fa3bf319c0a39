package lease

import (
	"context"
	"time"

	"github.com/keywright/keywright/host/state"
)

// Fetch returns a token that may be fetched again, from the store or by an exchange, which returns the value and its time.
// Of several nodes, one exchanges. A value that the node cannot open, or that is older than one it has seen, is replaced.
// If the store fails, the node exchanges for itself.
func (n *Node) Fetch(ctx context.Context, key Key, exchange func(context.Context) ([]byte, time.Duration, error)) (Token, error) {
	id := n.id(useFetched, key)
	for {
		before := n.c.Now()
		row, err := n.get(ctx, id)
		if err != nil {
			return n.alone(ctx, err, exchange)
		}
		if row.Value != nil {
			value, err := n.open(id, row)
			left := row.ExpiresIn - n.c.Now().Sub(before)
			if err == nil && (left > 0 || row.ExpiresIn == 0) {
				return Token{Value: value, ExpiresIn: max(left, 0), Generation: row.Generation}, nil
			}
		}
		before = n.c.Now()
		lease, taken, err := n.acquire(ctx, id, row.Generation)
		switch {
		case err != nil:
			return n.alone(ctx, err, exchange)
		case taken:
			return n.fetch(ctx, lease, before, exchange)
		}
		if err := n.wait(ctx, id, row); err != nil {
			return Token{}, err
		}
	}
}

// fetch exchanges with the lease, which was asked for at a time by the node's clock.
func (n *Node) fetch(ctx context.Context, lease state.Lease, asked time.Time, exchange func(context.Context) ([]byte, time.Duration, error)) (Token, error) {
	within, cancel := n.c.Within(ctx, n.c.Lease*2/3-n.c.Now().Sub(asked))
	value, ttl, err := exchange(within)
	cancel()
	if err != nil || ttl <= 0 {
		n.release(ctx, lease)
		return Token{Value: value}, err
	}
	token := Token{Value: value, ExpiresIn: ttl}
	// The caller has a token, even if the store does not take it.
	if ok, err := n.put(context.WithoutCancel(ctx), lease, value, ttl, true); ok && err == nil {
		token.Generation = lease.Generation + 1
	}
	return token, nil
}

// alone exchanges without the store.
func (n *Node) alone(ctx context.Context, why error, exchange func(context.Context) ([]byte, time.Duration, error)) (Token, error) {
	if err := ctx.Err(); err != nil {
		return Token{}, err
	}
	if n.c.Degraded != nil {
		n.c.Degraded(why)
	}
	value, ttl, err := exchange(ctx)
	return Token{Value: value, ExpiresIn: ttl}, err
}

// Drop removes a token of this generation for all nodes, as after a 401. If somebody has replaced it, Drop does nothing.
func (n *Node) Drop(ctx context.Context, key Key, generation int64) error {
	_, err := n.remove(ctx, n.id(useFetched, key), generation)
	return err
}
