package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

// The clock of the store was wrong, and is set back. Neither a lease nor a refusal of that time holds for longer than it would
// have (threats.md 148).
func TestStoreClockSetBack(t *testing.T) {
	now := time.Now()
	store, key, ctx := state.NewMemory(func() time.Time { return now }), stateKey(), t.Context()
	gone, node := newNode(t, store, key), newNode(t, store, key)
	access, refused, lost := lease.Key{Name: "access"}, lease.Key{Name: "refused"}, lease.Key{Name: "lost"}
	beginExchange(t, gone, access)
	testworld.Must(gone.Begin(ctx, grantKey, []byte("seed"), true))(t)
	intended(t, gone, "lost")
	wait := func(int) time.Duration { return time.Minute }
	testworld.Must(gone.Refuse(ctx, refused, []byte("no"), wait))(t)
	now = now.Add(-240 * time.Hour)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if got, err := node.Fetch(ctx, access, token); err != nil || string(got.Value) != "token" {
		t.Errorf("a node gets %q, %v", got.Value, err)
	}
	sends(t, node, grantKey, "seed", "seed", "next")
	if sent, err := redeem(ctx, node, lost, "seed of lost", "next"); !errors.As(err, new(*lease.UncertainError)) {
		t.Errorf("a node sends %q, %v, want an UncertainError", sent, err)
	}
	if r, err := node.Refusal(ctx, refused); err != nil || r.Wait > 0 {
		t.Errorf("the endpoint is not asked for %s, %v", r.Wait, err)
	}
}

// The clock of the store is set back a little: a lease counts as held for as long as the store keeps others from it, and no longer
// (threats.md 148).
func TestStoreClockSetBackSlightly(t *testing.T) {
	now := time.Now()
	store := state.NewMemory(func() time.Time { return now })
	node := configured(t, lease.Config{Store: store, Keys: [][]byte{stateKey()}, Lease: time.Minute})
	intended(t, node, "grant")
	now = now.Add(-time.Minute - state.Slack)
	for _, want := range []lease.Standing{lease.Good, lease.Uncertain} {
		stands(t, node, lease.Key{Name: "grant"}, want)
		now = now.Add(-1)
	}
}

// Nodes may have leases of different times. That of a node with the longest one is not over for one with the shortest.
func TestLeasesOfDifferentTimes(t *testing.T) {
	store, key := state.NewMemory(time.Now), stateKey()
	long := configured(t, lease.Config{Store: store, Keys: [][]byte{key}, Lease: 10 * time.Minute})
	short := configured(t, lease.Config{Store: store, Keys: [][]byte{key}, Lease: 3 * time.Second})
	turn := intended(t, long, "grant")
	defer turn.End(t.Context())
	stands(t, short, lease.Key{Name: "grant"}, lease.Good)
}

// Somebody who writes the database takes the value of a grant away, or raises its generation: a node that has seen the grant does
// not begin it anew (threats.md 147).
func TestGrantWithoutItsValue(t *testing.T) {
	store := newRecorder()
	node := newNode(t, store, stateKey())
	sends(t, node, grantKey, "seed", "seed", "next")
	for _, by := range []int64{-1, 0, 1, 1 << 40} {
		store.swap = func(_ state.ID, row state.Row) state.Row {
			return state.Row{Generation: row.Generation + by}
		}
		if sent, err := redeem(t.Context(), node, grantKey, "seed", "next"); !errors.Is(err, lease.ErrRolledBack) {
			t.Errorf("with a generation raised by %d a node sends %q, %v", by, sent, err)
		}
	}
}

// Somebody who writes the database makes a row that nobody can acquire. A node asks for it now and then, until its time is over
// (threats.md 147).
func TestUnacquirableRow(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	pauses, reads := 0, 0
	store := newRecorder()
	node := configured(t, lease.Config{Store: store, Keys: [][]byte{stateKey()}, Sleep: func(context.Context, time.Duration) {
		if pauses++; pauses == 5 {
			cancel()
		}
	}})
	store.swap = func(_ state.ID, row state.Row) state.Row {
		if reads++; reads == 100 {
			cancel()
		}
		return state.Row{Generation: row.Generation + 1}
	}
	if sent, err := redeem(ctx, node, grantKey, "seed", "next"); !errors.Is(err, context.Canceled) || pauses != 5 || reads > 5 {
		t.Errorf("a node sends %q, %v after %d reads and %d pauses", sent, err, reads, pauses)
	}
}

// Somebody who writes the database removes the key of the names, or makes a row of it that nobody can acquire: a node does not start
// with other names, under which grants would begin anew (threats.md 147).
func TestLostNameKey(t *testing.T) {
	store, key := newRecorder(), stateKey()
	sends(t, newNode(t, store, key), grantKey, "seed", "seed", "next")
	never := func(context.Context, time.Duration) { t.Error("a node waits") }
	for _, row := range []state.Row{{}, {Generation: 1}} {
		store.swap = func(state.ID, state.Row) state.Row { return row }
		if _, err := lease.NewNode(t.Context(), lease.Config{Store: store, Keys: [][]byte{key}, Sleep: never}); err == nil || !strings.Contains(err.Error(), "remove all rows") {
			t.Errorf("the error is %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	within := func(context.Context, time.Duration) (context.Context, context.CancelFunc) { return ctx, func() {} }
	store = newRecorder()
	store.swap = func(state.ID, state.Row) state.Row { return state.Row{Generation: 1} }
	if _, err := lease.NewNode(t.Context(), lease.Config{
		Store: store, Keys: [][]byte{key}, Within: within, Sleep: func(context.Context, time.Duration) { cancel() },
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

// Somebody who writes the database takes away the time until which a token may be used: the token is not used (threats.md 147).
func TestTokenWithoutItsTime(t *testing.T) {
	store, now, fetched := newRecorder(), time.Now(), 0
	config := lease.Config{Store: store, Keys: [][]byte{stateKey()}, Now: func() time.Time { return now }}
	fetch := func(context.Context) ([]byte, time.Duration, error) {
		fetched++
		return []byte("token"), time.Hour, nil
	}
	for range 2 {
		testworld.Must(configured(t, config).Fetch(t.Context(), lease.Key{}, fetch))(t)
		store.swap = func(_ state.ID, row state.Row) state.Row {
			row.ExpiresIn = 0
			return row
		}
	}
	if fetched != 2 {
		t.Errorf("%d tokens were fetched, want 2", fetched)
	}
}

// A grant that no key opens is forgotten, and who forgets it learns that nobody can revoke its token (threats.md 149).
func TestForgetUnopened(t *testing.T) {
	store := newRecorder()
	node := newNode(t, store, stateKey())
	testworld.Check(t, node.Renew(t.Context(), grantKey, []byte("token")))
	store.swap = func(_ state.ID, row state.Row) state.Row {
		row.Value[len(row.Value)-1]++
		return row
	}
	if got, err := node.Forget(t.Context(), grantKey); got != nil || !errors.Is(err, lease.ErrUnread) {
		t.Errorf("Forget returns %q, %v", got, err)
	}
	store.swap = nil
	stands(t, node, grantKey, lease.None)
}

// A node that has only read a grant refuses an earlier row of it. A later row that does not open is refused, and the real one is still
// good afterwards. threats.md 108
func TestRowsPutBackUnderAReader(t *testing.T) {
	store, key, ctx := newRecorder(), stateKey(), t.Context()
	writer, reader := newNode(t, store.Store, key), newNode(t, store, key)
	look := func(swap func(state.ID, state.Row) state.Row) error {
		store.swap = swap
		_, err := reader.Look(ctx, grantKey)
		return err
	}
	var read []state.Row
	for range 2 {
		testworld.Must(redeem(ctx, writer, grantKey, "seed", "next"))(t)
		testworld.Check(t, look(func(_ state.ID, row state.Row) state.Row {
			read = append(read, row)
			return row
		}))
	}
	if err := look(func(state.ID, state.Row) state.Row { return read[0] }); !errors.Is(err, lease.ErrRolledBack) {
		t.Errorf("an earlier row: %v", err)
	}
	if err := look(func(_ state.ID, row state.Row) state.Row {
		row.Generation++
		return row
	}); !lease.Permanent(err) {
		t.Errorf("a later row: %v", err)
	}
	if err := look(nil); err != nil {
		t.Errorf("the row as it was: %v", err)
	}
}

// confirming is a store whose confirmation of the next write takes a while.
type confirming struct {
	state.Store
	meanwhile func()
}

func (c *confirming) Put(ctx context.Context, l state.Lease, value []byte, expires time.Duration, release bool) (bool, error) {
	ok, err := c.Store.Put(ctx, l, value, expires, release)
	if meanwhile := c.meanwhile; meanwhile != nil {
		c.meanwhile = nil
		meanwhile()
	}
	return ok, err
}

// While a node waits for the confirmation of a write, another call of it reads a later row. The node refuses the earlier one afterwards.
// threats.md 108
func TestARowPutBackUnderAWriter(t *testing.T) {
	store, key, ctx := newRecorder(), stateKey(), t.Context()
	pausing := &confirming{Store: store}
	node, other := newNode(t, pausing, key), newNode(t, store.Store, key)
	var earlier state.Row
	pausing.meanwhile = func() {
		var err error
		if earlier, err = store.Get(ctx, store.puts[1]); err != nil {
			t.Error(err)
		}
		if err := other.Renew(ctx, grantKey, []byte("later")); err != nil {
			t.Error(err)
		}
		if _, err := node.Look(ctx, grantKey); err != nil {
			t.Error(err)
		}
	}
	testworld.Check(t, node.Renew(ctx, grantKey, []byte("earlier")))
	store.swap = func(state.ID, state.Row) state.Row { return earlier }
	if c, err := node.Look(ctx, grantKey); !errors.Is(err, lease.ErrRolledBack) {
		t.Errorf("the condition is %+v, %v, want ErrRolledBack", c, err)
	}
}

// The database was put back to an earlier state, and a node noticed. After a new consent the grant is good for this node, too, though
// the generation is lower than before. threats.md 108
func TestRenewAfterTheStoreWasPutBack(t *testing.T) {
	store, ctx := newRecorder(), t.Context()
	node := newNode(t, store, stateKey())
	for range 2 {
		testworld.Must(redeem(ctx, node, grantKey, "seed", "next"))(t)
	}
	store.Store = state.NewMemory(time.Now)
	if c, err := node.Look(ctx, grantKey); !errors.Is(err, lease.ErrRolledBack) {
		t.Errorf("the condition is %+v, %v, want ErrRolledBack", c, err)
	}
	testworld.Check(t, node.Renew(ctx, grantKey, []byte("consent")))
	sends(t, node, grantKey, "", "consent", "next")
}
