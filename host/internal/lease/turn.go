package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keywright/keywright/host/state"
)

type phase byte

const (
	started phase = iota
	// intended: the intent is written, and the token may have been sent.
	intended
	// over: the turn holds no lease any more, or hands it over to pending.
	over
)

// Turn is the right to send the token of a grant, which one node has at a time. It is not safe for concurrent use. Its
// methods that write go on when their context is cancelled, within Config.StoreTimeout.
type Turn struct {
	// n is nil for a turn of NewTurn.
	n     *Node
	lease state.Lease
	rec   record
	start time.Time
	phase phase
}

// Begin takes the turn of a grant. It waits until nobody else has it, or ctx is done. seed is the first token of the grant.
// A new seed begins the grant anew, whatever became of the one before. Without a seed, only [Node.Renew] begins a grant.
// If resend is not set, the turn of a token that may have been sent is not taken. The caller must call [Turn.End].
//
// Errors are a [*LostError] if the token may not be sent again, an [*UncertainError] if it may not be sent now,
// [ErrNotConnected], [ErrSeedUsed], [ErrRolledBack], or those of the store and of ctx.
func (n *Node) Begin(ctx context.Context, key Key, seed []byte, resend bool) (*Turn, error) {
	id := n.id(useGrant, key)
	n.catchUp(ctx, id)
	for {
		row, rec, err := n.grant(ctx, id)
		if err == nil {
			rec, err = n.seeded(rec, seed)
		}
		switch {
		case err != nil:
			return nil, err
		case rec.Mark == rejected, rec.Lost:
			return nil, &LostError{Refused: rec.Mark == rejected}
		case rec.Mark == intent && row.LeasedFor == 0:
			switch attempts, remaining := n.catchUp(ctx, id); {
			case remaining > 0:
				return nil, errUnwritten
			case attempts > 0:
				continue
			}
			remaining, same, err := n.patience(ctx, id, row, rec)
			if err == nil && !same { // somebody has written it meanwhile
				if err = n.wait(ctx, id, row); err == nil {
					continue
				}
			}
			if err != nil {
				return nil, err
			}
			if wait := max(rec.Wait-row.Age, remaining); wait > 0 || !resend {
				return nil, &UncertainError{Wait: max(0, wait)}
			}
		case rec.Token == nil:
			return nil, ErrNotConnected
		}
		turn, err := n.take(ctx, id, row, rec)
		if turn != nil || err != nil {
			return turn, err
		}
	}
}

// NewTurn returns the turn of a call that begins a grant or ends one, with its token or nil. It writes nothing: after [Turn.Done], it has the
// next token.
func NewTurn(token []byte) *Turn { return &Turn{rec: record{Token: token}} }

// patience returns how much longer the node of an earlier attempt may take to write its end. A node that reaches the store again has
// written it within lastTry, the pause of its breaker, one call that hangs, and a second for what waits with it. That time begins with
// the last failure that this node has met and, for an attempt that is open, when the first of all nodes sees that its lease is over:
// patience notes that in the row. same is not set if the row is no longer the one that was read.
func (n *Node) patience(ctx context.Context, id state.ID, row reading, rec record) (remaining time.Duration, same bool, err error) {
	total := lastTry + pause + n.c.StoreTimeout + time.Second
	remaining = n.breaker.unrest(n.c.Now(), total)
	if !rec.Open {
		return remaining, true, nil
	}
	if rec.SeenAge == 0 || row.Age < rec.SeenAge { // the clock of the store was set back
		rec.SeenAge = max(1, row.Age)
		if same, err = n.reseal(ctx, id, row.Generation, n.ring.seal(id, row.Generation, rec.encode())); err != nil {
			return 0, false, fmt.Errorf("note in the grant that its attempt is over: %w", err)
		}
		return total, same, nil
	}
	return max(remaining, total-(row.Age-rec.SeenAge)), true, nil
}

// errUnwritten says that the node knows more of a grant than the store.
var errUnwritten = errors.New("the store of state has not confirmed yet what became of the token of the grant: try again")

func (n *Node) grant(ctx context.Context, id state.ID) (reading, record, error) {
	row, err := n.get(ctx, id)
	if err != nil {
		return row, record{}, fmt.Errorf("read the grant: %w", err)
	}
	rec, err := n.record(id, row)
	return row, rec, err
}

// take takes the lease of a row that was read, or waits for the row to change and returns nil.
func (n *Node) take(ctx context.Context, id state.ID, row reading, rec record) (*Turn, error) {
	lease, start, ok, err := n.claim(ctx, id, row)
	switch {
	case err != nil:
		return nil, fmt.Errorf("acquire the grant: %w", err)
	case ok:
		rec.Open, rec.SeenAge = false, 0 // no earlier holder can write any more
		return &Turn{n: n, lease: lease, rec: rec, start: start}, nil
	}
	err = n.wait(ctx, id, row)
	if errors.Is(err, context.DeadlineExceeded) { // such as after the node of the other call was killed
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for another call with the grant: %w", err)
	}
	return nil, nil
}

// Token returns the token that the turn may send.
func (t *Turn) Token() []byte { return bytes.Clone(t.rec.Token) }

// Intent writes that the token is about to be sent. Only if it returns no error, the caller may send the token, once, and
// within the context that it returns, which ends within the lease. After [Turn.NotRedeemed] there may be another Intent.
func (t *Turn) Intent(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if t.phase != started {
		return nil, nil, errors.New("the turn of the grant is over: nothing is sent")
	}
	if t.n == nil {
		t.phase = intended
		ctx, cancel := context.WithCancel(ctx)
		return ctx, cancel, nil
	}
	if err := t.n.reserve(); err != nil {
		return nil, nil, err
	}
	t.phase = over
	sending := t.rec.withAttempt()
	sending.Open = true
	ok, err := t.n.put(context.WithoutCancel(ctx), t.lease, sending.encode(), 0, false)
	if down, ok := errors.AsType[*StoreError](err); ok && down.Paused { // nothing was written
		t.n.freeSlot()
		t.phase = started
		return nil, nil, fmt.Errorf("write the intent: %w", err)
	}
	if !ok && err == nil {
		t.n.freeSlot()
		return nil, nil, errors.New("another node has taken over the grant before its token was sent: try again")
	}
	t.lease.Generation++
	if err != nil { // nothing was sent, and nothing will be
		t.n.later(ctx, unwritten{lease: t.lease, rec: t.rec, doubted: true})
		return nil, nil, fmt.Errorf("write the intent: %w", err)
	}
	remaining := t.n.remaining(t.start)
	if remaining <= 0 {
		t.n.later(ctx, unwritten{lease: t.lease, rec: t.rec})
		return nil, nil, errors.New("the lease of the grant was over before its token was sent: try again")
	}
	t.phase = intended
	callCtx, cancel := t.n.c.Within(ctx, remaining)
	return callCtx, cancel, nil
}

// Done ends the turn after the server has redeemed the token. token is the next one. It is nil if the server lets the one
// that was sent be used again. If the store does not take it, the node keeps it and tries again.
func (t *Turn) Done(ctx context.Context, token []byte) {
	if token == nil {
		token = t.rec.Token
	}
	t.settle(ctx, t.rec.with(ready, bytes.Clone(token)))
}

// Refused ends the turn after the server said that the token is not valid (invalid_grant). Nobody sends it again. The error
// says whether an earlier attempt may have redeemed it.
func (t *Turn) Refused(ctx context.Context) *LostError {
	if t.rec.Mark == intent { // another version may have written it, and counts no attempts
		return t.Lost(ctx)
	}
	t.settle(ctx, t.rec.with(rejected, t.rec.Token))
	return &LostError{Refused: true}
}

// Lost ends the turn after the server has answered, and what it issued cannot be kept. Nobody sends the token again.
func (t *Turn) Lost(ctx context.Context) *LostError {
	lost := t.rec.with(intent, t.rec.Token)
	lost.Lost = true
	t.settle(ctx, lost)
	return &LostError{}
}

// Unknown ends the turn after the attempt is over, and nobody knows whether the server has redeemed the token. wait returns how long
// nobody sends it again, after a number of such attempts, of which this is the last.
func (t *Turn) Unknown(ctx context.Context, wait func(count int) time.Duration) *UncertainError {
	rec := t.rec.withAttempt()
	rec.Wait = wait(rec.Tries)
	t.settle(ctx, rec)
	return &UncertainError{Wait: rec.Wait}
}

func (t *Turn) settle(ctx context.Context, rec record) {
	if t.phase != intended {
		return
	}
	t.phase = over
	if t.n == nil {
		t.rec = rec
		return
	}
	t.n.later(ctx, unwritten{lease: t.lease, rec: rec})
}

// NotRedeemed takes the intent back, after the caller has found that the server has not redeemed the token: there was no
// connection, or the server refused for another reason than the token. The turn goes on.
func (t *Turn) NotRedeemed(ctx context.Context) {
	switch {
	case t.phase != intended:
		return
	case t.n == nil:
		t.phase = started
		return
	}
	ok, err := t.n.put(context.WithoutCancel(ctx), t.lease, t.rec.encode(), 0, false)
	switch {
	case err != nil:
		t.settle(ctx, t.rec)
	case !ok:
		t.phase = over
		t.n.freeSlot()
	default:
		t.lease.Generation++
		t.phase = started
		t.n.freeSlot()
	}
}

// End ends the turn. An intent without an outcome is one of an attempt that is over, see [Turn.Unknown].
func (t *Turn) End(ctx context.Context) {
	if t.phase == started && t.n != nil {
		t.n.release(ctx, t.lease) // those who wait learn at once what the row says
	}
	t.settle(ctx, t.rec.withAttempt())
	t.phase = over
}
