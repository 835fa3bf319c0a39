package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/state"
)

// LostError is the error for a grant whose token must not be sent again. A new seed or [Node.Renew] renews the grant.
type LostError struct {
	// Refused is set if the server refused the token at the first attempt. Otherwise it may have issued the next one, which is not there.
	Refused bool
}

func (e *LostError) Error() string {
	if e.Refused {
		return "the grant is lost: the server refused its token: renew the grant"
	}
	return "the grant may be lost: its token may have been redeemed without an answer, and is not sent again: renew the grant"
}

// UncertainError is the error for a grant whose token was sent, and nobody knows what became of it.
type UncertainError struct {
	// Wait is the time until the token may be sent again.
	Wait time.Duration
}

func (e *UncertainError) Error() string {
	return "the grant is uncertain: its token was sent, and nobody knows what became of it: try again later"
}

var (
	// ErrSeedUsed says that a seed was used before and another one replaced it. It would be a second use of its token. Seeds
	// have no order: if an earlier one was never used, a node with that configuration still replaces the later one.
	ErrSeedUsed = errors.New("the configured token was used before, and a newer one has replaced it: configure the newer one, or renew the grant")
	// ErrNotConnected says that there is no grant.
	ErrNotConnected = errors.New("there is no grant: nobody has given consent yet, or it was taken back")
	// ErrUnread says that a grant was forgotten whose token could not be read.
	ErrUnread = errors.New("the grant is forgotten, and its token could not be read, so that nobody can revoke it")
)

// Permanent reports whether a person has to mend what an error says. Otherwise the same may succeed later.
func Permanent(err error) bool {
	return slices.ContainsFunc([]error{ErrSeedUsed, ErrUnread, ErrRolledBack, errSealed, errForm}, func(permanent error) bool {
		return errors.Is(err, permanent)
	})
}

// Renew writes the token of a new consent, whatever became of the one before. It waits until nobody has the turn of the
// grant, so ctx should last longer than a lease.
func (n *Node) Renew(ctx context.Context, key Key, token []byte) error {
	if len(token) == 0 {
		return errors.New("there is no token to begin a grant with")
	}
	_, err := n.replace(ctx, key, token)
	return err
}

// Forget removes a grant. It returns its token, so that the caller can revoke it, or nil if there is none. Like
// [Node.Renew], it waits. It forgets a grant that cannot be read as well, and returns [ErrUnread] then.
func (n *Node) Forget(ctx context.Context, key Key) ([]byte, error) {
	return n.replace(ctx, key, nil)
}

// replace writes a token, or that there is none, and returns the previous one. The record stays without a token: it has the
// hashes of the seeds, which must not be sent again. A row that cannot be read, and never will be, is replaced as well.
func (n *Node) replace(ctx context.Context, key Key, token []byte) (previous []byte, err error) {
	id := n.id(useGrant, key)
	n.catchUp(ctx, id) // so that Forget returns the newest token, unless another node has that and could not write it
	var grant []byte
	if token != nil {
		grant = make([]byte, 16)
		if _, err := io.ReadFull(n.c.Random, grant); err != nil {
			return nil, err
		}
	}
	for {
		row, rec, err := n.grant(ctx, id)
		var unread error
		if Permanent(err) {
			rec, err = record{}, nil // there is no other way out
			if token == nil {
				unread = ErrUnread
			}
		} else if token == nil && err == nil && rec.Token == nil {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		turn, err := n.take(ctx, id, row, rec)
		if err != nil {
			return nil, err
		}
		if turn == nil {
			continue
		}
		next := rec.with(ready, bytes.Clone(token))
		next.Grant = grant
		ok, err := n.put(ctx, turn.lease, next.encode(), 0, true)
		if err != nil {
			turn.End(ctx)
			return nil, err
		}
		if ok {
			return rec.Token, unread
		}
	}
}

// Standing says whether the token of a grant may be sent. It is the text of a host.Condition.
type Standing string

// The standings.
const (
	None      Standing = "not connected" // there is no grant
	Good      Standing = "connected"     // the token may be sent
	Uncertain Standing = "uncertain"     // nobody knows whether the token was redeemed; it may be sent again
	Lost      Standing = "lost"          // the token may have been redeemed without an answer, and is not sent again
	Refused   Standing = "refused"       // the server refused the token
)

// Condition is the condition of a grant.
type Condition struct {
	Standing Standing
	// Grant is another one after each [Node.Renew]. It is empty without a grant, and for that of a seed.
	Grant string
	// Age is the time since the grant became lost or refused, or since a good one was redeemed or renewed last.
	Age time.Duration
}

// Look returns the condition of a grant. A grant whose token is being redeemed is good.
func (n *Node) Look(ctx context.Context, key Key) (Condition, error) {
	row, rec, err := n.grant(ctx, n.id(useGrant, key))
	if err != nil {
		return Condition{}, err
	}
	return Condition{Standing: rec.standing(row.LeasedFor > 0), Grant: string(rec.Grant), Age: row.Age}, nil
}

// Standings counts the grants in the store. Those that no state key opens are left out.
func (n *Node) Standings(ctx context.Context) (map[Standing]int, error) {
	all := map[Standing]int{}
	err := n.c.Store.Rows(ctx, func(id state.ID, row state.Row) error {
		var rec record
		if id == nameKeyRow || row.ExpiresIn > 0 { // a grant has no end
			return nil
		}
		if text, err := n.ring.open(id, row.Generation, row.Value); err == nil && json.Unmarshal(text, &rec) == nil && rec.Mark <= rejected {
			all[rec.standing(row.LeasedFor > 0)]++
		}
		return nil
	})
	delete(all, None)
	return all, err
}

func (r record) standing(hasLease bool) Standing {
	switch {
	case r.Token == nil:
		return None
	case r.Mark == rejected:
		return Refused
	case r.Lost:
		return Lost
	case r.Mark == intent && !hasLease:
		return Uncertain
	}
	return Good
}

type mark byte

const (
	ready    mark = iota // the token was not sent
	intent               // the token may have been sent; while the lease holds, it may be on its way
	rejected             // the server does not take the token
)

// pastSeeds is the number of earlier seeds that a record remembers.
const pastSeeds = 256

// record is the value of the row of a grant.
type record struct {
	Mark mark `json:",omitempty"`
	// Seed and Past are hashes of the present seed and of earlier ones.
	Seed []byte   `json:",omitempty"`
	Past [][]byte `json:",omitempty"`
	// Grant is random for each [Node.Renew]. It is the name of the grant.
	Grant []byte `json:",omitempty"`
	// Token is nil if there is no grant, or no longer.
	Token []byte `json:",omitempty"`
	// Tries counts the attempts whose outcome nobody knows, with the one under way. Wait is the time between the last write and the
	// next attempt. Lost is set if there is no next one.
	//
	// All of them stand beside the mark intent, so that nodes of a version without them do not send the token.
	Tries int           `json:",omitempty"`
	Wait  time.Duration `json:",omitempty"`
	Lost  bool          `json:",omitempty"`
	// Open is set while nobody has written the end of the attempt. Its node may still know more than the store.
	Open bool `json:",omitempty"`
	// SeenAge is the age of the row when a node first saw that the lease of an open attempt is over, or 0.
	SeenAge time.Duration `json:"Seen,omitempty"`
}

func (r record) encode() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic("lease: a record has no JSON: " + err.Error())
	}
	return text
}

func (r record) withAttempt() record {
	next := r.with(intent, r.Token)
	next.Tries = r.Tries + 1
	next.Wait = tokencache.Wait(next.Tries, 0, 0)
	return next
}

// with returns the record with another mark and token, and without attempts.
func (r record) with(mark mark, token []byte) record {
	return record{Mark: mark, Seed: r.Seed, Past: r.Past, Grant: r.Grant, Token: token}
}

var errForm = errors.New("a grant in the store of state has another form than this version writes: run the version that wrote it, or renew the grant")

// record returns the record of a row, which is the zero record if the row has no value.
func (n *Node) record(id state.ID, row reading) (rec record, err error) {
	text, err := n.lasting(id, row)
	if err == nil && row.Value != nil && (json.Unmarshal(text, &rec) != nil || rec.Mark > rejected) { // a newer version may have marks of its own
		err = errForm
	}
	return rec, err
}

// seeded returns the record for a seed: a new seed begins a new grant, an earlier one is an error, and none changes nothing.
func (n *Node) seeded(r record, seed []byte) (record, error) {
	if len(seed) == 0 {
		return r, nil
	}
	sum := n.hash(useSeed, seed)
	hash := sum[:16]
	switch {
	case bytes.Equal(r.Seed, hash):
		return r, nil
	case slices.ContainsFunc(r.Past, func(past []byte) bool { return bytes.Equal(past, hash) }):
		return record{}, ErrSeedUsed
	}
	begin := record{Seed: hash, Past: r.Past, Token: seed}
	if r.Seed != nil {
		begin.Past = append(slices.Clone(r.Past), r.Seed)
		begin.Past = begin.Past[max(0, len(begin.Past)-pastSeeds):]
	}
	return begin, nil
}

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

// Peek returns what [Node.Hold] keeps, or nil, and leaves it there.
func (n *Node) Peek(ctx context.Context, key Key) ([]byte, error) {
	row, err := n.get(ctx, n.id(useHeld, key))
	if err != nil || row.Value == nil {
		return nil, err
	}
	return n.open(n.id(useHeld, key), row)
}

// Take returns what [Node.Hold] keeps, and reports whether there is something. Of all calls by all nodes at most one gets it.
// After an error it may be gone.
func (n *Node) Take(ctx context.Context, key Key) (value []byte, ok bool, err error) {
	id := n.id(useHeld, key)
	row, err := n.get(ctx, id)
	if err != nil || row.Value == nil {
		return nil, false, err
	}
	if value, err = n.open(id, row); err == nil {
		ok, err = n.remove(ctx, id, row.Generation)
	}
	if !ok {
		return nil, false, err
	}
	return value, true, nil
}
