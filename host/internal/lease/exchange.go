package lease

import (
	"context"
	"encoding/json"
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
		row, token, x, err := n.tryExchange(ctx, id, valid)
		if err == nil && (token.Value != nil || x != nil) {
			return token, x, nil
		}
		if err == nil {
			err = n.wait(ctx, id, row)
		}
		if err != nil {
			contextErr := ctx.Err()
			if contextErr == nil && n.c.Degraded != nil {
				n.c.Degraded(err)
			}
			return Token{}, nil, contextErr
		}
	}
}

// TryExchange is like BeginExchange for a caller that has a token and wants the next one before its end. It does not wait, and
// does not ask without the store. If valid refuses the token of the store and another node asks for the next one, TryExchange
// returns neither a token nor the right to ask. Meanwhile the store keeps the token that it has.
func (n *Node) TryExchange(ctx context.Context, key Key, valid func(Token) bool) (Token, *Exchange, error) {
	_, token, x, err := n.tryExchange(ctx, n.id(useFetched, key), valid)
	return token, x, err
}

// tryExchange is TryExchange for a row, which it returns as it has read it.
func (n *Node) tryExchange(ctx context.Context, id state.ID, valid func(Token) bool) (reading, Token, *Exchange, error) {
	row, token, err := n.fetched(ctx, id)
	if err != nil || token.Value != nil && valid(token) {
		return row, token, nil, err
	}
	lease, start, ok, err := n.claim(ctx, id, row)
	if !ok {
		return row, Token{}, nil, err
	}
	return row, Token{}, &Exchange{n: n, lease: lease, start: start}, nil
}

// fetched reads a row and returns its token, which has no value if the row is empty or does not open.
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

// Within returns a context for the exchange, which ends within the lease.
func (x *Exchange) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	if x == nil {
		return context.WithCancel(ctx)
	}
	return x.n.c.Within(ctx, x.n.remaining(x.start))
}

// Put stores a token for all nodes and ends the right to ask. It returns the generation of the token, or 0 if the store has
// not taken it: the caller has a token all the same.
func (x *Exchange) Put(ctx context.Context, value []byte, ttl time.Duration) (generation int64) {
	if x == nil || x.over || ttl <= 0 {
		return 0
	}
	if x.over, _ = x.n.put(context.WithoutCancel(ctx), x.lease, value, ttl, true); x.over {
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

// Refusal describes an answer without a token, for all nodes. Its JSON is the value of a row.
type Refusal struct {
	// Value describes the refusal.
	Value []byte
	// Count is the number of refusals since the last [Node.Accept].
	Count int
	// Wait is the time until the endpoint may be asked again. It is 0 if the time is over.
	Wait time.Duration
}

// refusalMemory is the time after the end of a wait for which a refusal still counts.
const refusalMemory = time.Hour

// Refusal returns what was refused last, or the zero Refusal, as for a row that does not open. Wait says when to ask again.
func (n *Node) Refusal(ctx context.Context, key Key) (Refusal, error) {
	start := n.c.Now()
	r, _, err := n.refusal(ctx, key)
	r.Wait = max(0, r.Wait-n.c.Now().Sub(start))
	return r, err
}

// refusal returns what was refused last, and the generation of its row.
func (n *Node) refusal(ctx context.Context, key Key) (Refusal, int64, error) {
	id := n.id(useRefusal, key)
	row, err := n.get(ctx, id)
	if err != nil {
		return Refusal{}, row.Generation, err
	}
	var last Refusal
	if text, err := n.open(id, row); err == nil && json.Unmarshal(text, &last) == nil { // an empty row does not open
		last.Wait = max(0, last.Wait-row.Age)
		return last, row.Generation, nil
	}
	return Refusal{}, row.Generation, nil
}

// Refuse writes a refusal for all nodes. wait returns how long none of them asks again, after a number of refusals, of which
// this is the last. Of refusals at the same time one is written. Refuse returns the one that holds now.
func (n *Node) Refuse(ctx context.Context, key Key, value []byte, wait func(count int) time.Duration) (Refusal, error) {
	last, generation, err := n.refusal(ctx, key)
	if err != nil || last.Wait > 0 {
		return last, err
	}
	next := Refusal{Value: value, Count: last.Count + 1}
	next.Wait = wait(next.Count)
	lease, ok, err := n.acquire(ctx, n.id(useRefusal, key), generation)
	if err != nil || !ok {
		return next, err
	}
	text, err := json.Marshal(next)
	if err == nil {
		_, err = n.put(ctx, lease, text, next.Wait+refusalMemory, true)
	}
	return next, err
}

// Accept removes a refusal, after the endpoint has answered with a token. Without one that [Node.Refusal] returns, it need not be called.
func (n *Node) Accept(ctx context.Context, key Key) error {
	last, generation, err := n.refusal(ctx, key)
	if err == nil && last.Count > 0 {
		_, err = n.remove(ctx, n.id(useRefusal, key), generation)
	}
	return err
}
