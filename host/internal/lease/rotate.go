package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/keywright/keywright/host/state"
)

// Answer is the answer of an exchange that has sent a token that may be used once.
type Answer struct {
	// Token is the next token. It is nil if the server lets the one that was sent be used again.
	Token []byte
	// Value may be used for TTL.
	Value []byte
	TTL   time.Duration
}

// NotRedeemedError is the error of an exchange that knows that the server did not take the token: there was no connection,
// or the server refused for another reason than the token.
type NotRedeemedError struct{ Err error }

// Error returns the text of the cause.
func (e *NotRedeemedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *NotRedeemedError) Unwrap() error { return e.Err }

// DeadError is the error of an exchange whose server said that the token is not valid (invalid_grant).
type DeadError struct{ Err error }

// Error returns the text of the cause.
func (e *DeadError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *DeadError) Unwrap() error { return e.Err }

// LostError is the error for a grant whose token must not be sent again. A new seed renews the grant.
type LostError struct {
	// Refused is set if the server refused the token. Otherwise it may have been redeemed, and the answer is not there.
	Refused bool
}

// Error returns the text of the error.
func (e *LostError) Error() string {
	if e.Refused {
		return "the grant is lost: the server refused its token: renew the grant"
	}
	return "the grant may be lost: its token may have been redeemed without an answer, and is not sent again: renew the grant"
}

// ErrSeedUsed says that a seed was used before and another one replaced it. It would be a second use of its token.
var ErrSeedUsed = errors.New("the configured token was used before, and a newer one has replaced it: configure the newer one, or renew the grant")

// Rotate returns the value of a grant whose token may be used once. The first token is the seed. If the value has expired, or
// has the generation that was rejected, one node exchanges the present token for the next one. If the store fails, Rotate
// fails before anything is sent. exchange runs at most once, and also if the caller goes away.
func (n *Node) Rotate(ctx context.Context, key Key, seed []byte, rejected int64, exchange func(ctx context.Context, token []byte) (Answer, error)) (Token, error) {
	id := name(n.nameKey, key)
	if token, ok := n.unwritten(ctx, id, rejected); ok {
		return token, nil
	}
	for {
		before := n.c.Now()
		row, err := n.get(ctx, id)
		if err != nil {
			return Token{}, fmt.Errorf("read the grant: %w", err)
		}
		rec, err := n.record(id, row)
		if err != nil {
			return Token{}, err
		}
		rec, err = rec.seeded(n.seedHash(seed), seed)
		if err != nil {
			return Token{}, err
		}
		if left := rec.left(row, n.c.Now().Sub(before)); rec.Mark == ready && left > 0 && row.Generation != rejected {
			return Token{Value: rec.Value, ExpiresIn: left, Generation: row.Generation}, nil
		}
		if rec.Mark != ready && (rec.Mark == refused || row.LeasedFor == 0) {
			return Token{}, &LostError{Refused: rec.Mark == refused}
		}
		if row.LeasedFor == 0 {
			before = n.c.Now()
			lease, taken, err := n.acquire(ctx, id, row.Generation)
			if err != nil {
				return Token{}, fmt.Errorf("acquire the grant: %w", err)
			}
			if taken {
				return n.redeem(context.WithoutCancel(ctx), lease, rec, before, exchange)
			}
		}
		if err := n.c.Store.Wait(ctx, id, row.Generation); err != nil {
			return Token{}, err
		}
	}
}

// redeem writes the intent, exchanges, and writes what came of it.
func (n *Node) redeem(ctx context.Context, lease state.Lease, rec record, asked time.Time, exchange func(context.Context, []byte) (Answer, error)) (Token, error) {
	if _, err := io.ReadFull(n.c.Random, rec.Attempt[:]); err != nil {
		n.release(ctx, lease)
		return Token{}, err
	}
	unmarked := rec
	rec.Mark = intent
	ok, err := n.put(ctx, lease, rec.encode(), keep, false)
	if !ok && err == nil {
		return Token{}, errors.New("another node has taken over the grant before its token was sent: try again")
	}
	lease.Generation++
	if err != nil { // nothing was sent, and nothing will be
		n.later(ctx, unwritten{lease: lease, rec: unmarked, withdrawn: true})
		return Token{}, fmt.Errorf("write the intent: %w", err)
	}
	left := n.c.Lease*2/3 - n.c.Now().Sub(asked)
	if left <= 0 {
		n.later(ctx, unwritten{lease: lease, rec: unmarked, withdrawn: true})
		return Token{}, errors.New("the lease was over before the token was sent: try again")
	}
	within, cancel := n.c.Within(ctx, left)
	answer, err := exchange(within, bytes.Clone(rec.Token))
	cancel()
	done := n.c.Now()
	next := unmarked
	var not *NotRedeemedError
	var dead *DeadError
	switch {
	case errors.As(err, &not):
		n.later(ctx, unwritten{lease: lease, rec: unmarked, withdrawn: true})
		return Token{}, err
	case errors.As(err, &dead):
		next.Mark = refused
		n.later(ctx, unwritten{lease: lease, rec: next, withdrawn: true})
		return Token{}, errors.Join(&LostError{Refused: true}, err)
	case err != nil:
		n.release(ctx, lease) // the mark stays: those who wait learn it at once
		return Token{}, errors.Join(&LostError{}, err)
	}
	if answer.Token != nil {
		next.Token = answer.Token
	}
	next.Value, next.TTL = answer.Value, answer.TTL
	n.later(ctx, unwritten{lease: lease, rec: next, since: done})
	return Token{Value: answer.Value, ExpiresIn: answer.TTL, Generation: lease.Generation + 1}, nil
}
