package lease

import (
	"context"
	"time"

	"github.com/keywright/keywright/host/state"
)

// Flush tries once to write what the store did not take, and returns how many records are left.
func (n *Node) Flush(ctx context.Context) int {
	for _, u := range n.unwritten(nil) {
		n.settle(ctx, u)
	}
	return len(n.unwritten(nil))
}

// Row returns the ID of the row of a grant.
func (n *Node) Row(key Key) state.ID { return n.id(useGrant, key) }

// Overwrite writes a value in place of the record of a grant, as another version may.
func (n *Node) Overwrite(ctx context.Context, key Key, value []byte) error {
	id := n.id(useGrant, key)
	row, err := n.get(ctx, id)
	if err != nil {
		return err
	}
	lease, _, err := n.acquire(ctx, id, row.Generation)
	if err == nil {
		_, err = n.put(ctx, lease, value, 0, true)
	}
	return err
}

// Stored returns the record of a grant as it is stored.
func (n *Node) Stored(ctx context.Context, key Key) ([]byte, error) {
	id := n.id(useGrant, key)
	row, err := n.get(ctx, id)
	if err != nil {
		return nil, err
	}
	return n.open(id, row)
}

// Unsettled returns the number of intents without an outcome.
func (n *Node) Unsettled() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unsettled
}

// Fetch returns a token that was stored, or what exchange returns: a value and its time.
func (n *Node) Fetch(ctx context.Context, key Key, exchange func(context.Context) ([]byte, time.Duration, error)) (Token, error) {
	token, x, err := n.BeginExchange(ctx, key, func(Token) bool { return true })
	if err != nil || token.Value != nil {
		return token, err
	}
	return fetch(ctx, x, exchange)
}

// FetchAhead replaces the token of this generation ahead of its end. It returns the token that another node has stored, or what
// exchange returns, or a token without a value if another node is about to ask.
func (n *Node) FetchAhead(ctx context.Context, key Key, generation int64, exchange func(context.Context) ([]byte, time.Duration, error)) (Token, error) {
	token, x, err := n.TryExchange(ctx, key, func(t Token) bool { return t.Generation != generation })
	if x == nil {
		return token, err
	}
	return fetch(ctx, x, exchange)
}

func fetch(ctx context.Context, x *Exchange, exchange func(context.Context) ([]byte, time.Duration, error)) (Token, error) {
	defer x.End(ctx)
	within, cancel := x.Within(ctx)
	value, ttl, err := exchange(within)
	cancel()
	if err != nil {
		return Token{}, err
	}
	return Token{Value: value, ExpiresIn: ttl, Generation: x.Put(ctx, value, ttl)}, nil
}
