package lease

import (
	"context"
	"time"

	"github.com/keywright/keywright/host/state"
)

// Exchange is the right to ask a token endpoint for a token, which one node has at a time. A nil Exchange needs no store: any
// number of nodes may have one. It is not safe for concurrent use.
type Exchange struct {
	n     *Node
	lease state.Lease
	start time.Time
	over  bool
}

// BeginExchange returns a token that another call or node has stored, or else the right to ask for one. It waits while
// another node asks, until ctx is done. A value that the node cannot open, that is older than one it has seen, or that valid
// refuses, counts as missing. If the store fails, the node asks for itself, with a nil Exchange. The caller must call [Exchange.End].
func (n *Node) BeginExchange(ctx context.Context, key Key, valid func(Token) bool) (Token, *Exchange, error) {
	id := n.id(useFetched, key)
	for {
		row, token, err := n.fetched(ctx, id)
		if err != nil {
			return n.withoutStore(ctx, err)
		}
		if token.Value != nil && valid(token) {
			return token, nil, nil
		}
		lease, start, ok, err := n.claim(ctx, id, row)
		switch {
		case err != nil:
			return n.withoutStore(ctx, err)
		case ok:
			return Token{}, &Exchange{n: n, lease: lease, start: start}, nil
		}
		if err := n.wait(ctx, id, row); err != nil {
			return n.withoutStore(ctx, err)
		}
	}
}

// TryExchange is like BeginExchange for a caller that has a token and wants the next one before its end. It does not wait, and
// does not ask without the store. If valid refuses the token of the store and another node asks for the next one, TryExchange
// returns neither a token nor the right to ask. Meanwhile the store keeps the token that it has.
func (n *Node) TryExchange(ctx context.Context, key Key, valid func(Token) bool) (Token, *Exchange, error) {
	id := n.id(useFetched, key)
	row, token, err := n.fetched(ctx, id)
	switch {
	case err != nil:
		return Token{}, nil, err
	case token.Value != nil && valid(token):
		return token, nil, nil
	}
	lease, start, ok, err := n.claim(ctx, id, row)
	if !ok {
		return Token{}, nil, err
	}
	return Token{}, &Exchange{n: n, lease: lease, start: start}, nil
}

// fetched reads a row and returns its token. The token has no value if the row is empty, if the node cannot open the value, or
// if it has seen a later one.
func (n *Node) fetched(ctx context.Context, id state.ID) (reading, Token, error) {
	start := n.c.Now()
	row, err := n.get(ctx, id)
	if err != nil {
		return row, Token{}, err
	}
	value, err := n.open(id, row) // an empty row does not open
	remaining := row.ExpiresIn - n.c.Now().Sub(start)
	if err == nil && remaining > 0 { // each token has a time
		return row, Token{Value: value, ExpiresIn: remaining, Generation: row.Generation}, nil
	}
	return row, Token{}, nil
}

// withoutStore returns the right to ask that needs no store.
func (n *Node) withoutStore(ctx context.Context, why error) (Token, *Exchange, error) {
	err := ctx.Err()
	if err == nil && n.c.Degraded != nil {
		n.c.Degraded(why)
	}
	return Token{}, nil, err
}

// Within returns a context for the exchange, which ends within the lease.
func (x *Exchange) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	if x == nil {
		return context.WithCancel(ctx)
	}
	return x.n.c.Within(ctx, x.n.c.Lease*2/3-x.n.c.Now().Sub(x.start))
}

// Put stores a token for all nodes and ends the right to ask. It returns the generation of the token, or 0 if the store has
// not taken it: the caller has a token all the same.
func (x *Exchange) Put(ctx context.Context, value []byte, ttl time.Duration) (generation int64) {
	if x == nil || x.over || ttl <= 0 {
		return 0
	}
	ok, err := x.n.put(context.WithoutCancel(ctx), x.lease, value, ttl, true)
	if x.over = ok && err == nil; x.over {
		generation = x.lease.Generation + 1
	}
	return generation
}

// End ends the right to ask, unless Put has ended it.
func (x *Exchange) End(ctx context.Context) {
	if x != nil && !x.over {
		x.over = true
		x.n.release(ctx, x.lease)
	}
}

// Drop removes a token of this generation for all nodes, as after a 401. If somebody has replaced it, Drop does nothing.
func (n *Node) Drop(ctx context.Context, key Key, generation int64) error {
	_, err := n.remove(ctx, n.id(useFetched, key), generation)
	return err
}
