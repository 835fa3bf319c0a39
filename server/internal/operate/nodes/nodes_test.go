package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/nodes"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

// failing is a store that fails while it is down.
type failing struct {
	statedb.Records
	down   atomic.Bool
	hangs  atomic.Bool
	writes atomic.Int64
}

var errDown = errors.New("connection refused")

func (f *failing) PutRecords(ctx context.Context, all ...statedb.Record) error {
	f.writes.Add(1)
	if f.down.Load() {
		return errDown
	}
	return f.Records.PutRecords(ctx, all...)
}

func (f *failing) ListRecords(ctx context.Context, l statedb.List) ([]statedb.Record, error) {
	if f.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if f.down.Load() {
		return nil, errDown
	}
	return f.Records.ListRecords(ctx, l)
}

// node is a process with a recorder.
type node struct {
	*nodes.Nodes
	recorder *activity.Recorder
	clock    func() time.Time
	// set sets what the reports of the process say. It may be nil.
	set func(*activity.Report)
}

// newNodes returns nodes with one store in memory, which has the clock of the test. That of each node but the first is ahead.
func newNodes(t *testing.T, count int, offsets ...time.Duration) (all []*node, store *failing) {
	t.Helper()
	db := testworld.Must(sqlite.OpenMemory(t.Context(), sqlite.Options{}))(t)
	state := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: db, Keys: [][]byte{[]byte("a state key of 32 bytes, for all")}}))(t)
	t.Cleanup(func() { _ = errors.Join(state.Close(context.Background()), db.Close()) })
	store = &failing{Records: db}
	for i := range count {
		name := string(rune('a' + i))
		clock := time.Now
		if i > 0 && len(offsets) > 0 {
			clock = func() time.Time { return time.Now().Add(offsets[0]) }
		}
		started := clock().Add(time.Duration(i))
		recorder := activity.New(activity.Config{Clock: clock, Node: name, Hash: func(tenant, user string) uint64 { return uint64(len(tenant)<<8 + len(user)) }})
		n := &node{recorder: recorder, clock: clock}
		n.Nodes = nodes.New(nodes.Config{
			Clock: clock, Recorder: recorder, Store: &records.Store{Records: store, State: state}, Shared: true, Logger: slog.New(slog.DiscardHandler),
			Describe: func(r *activity.Report) {
				if r.Node, r.Started = name, started; n.set != nil {
					n.set(r)
				}
			},
		})
		all = append(all, n)
	}
	return all, store
}

func (n *node) request(id string, status int) {
	e := gateway.Event{ID: id, Connector: "orders", Status: status, UpstreamStatus: status, Began: n.clock()}
	n.recorder.Request(&e)
}

func summary(t *testing.T, n *node) (text string) {
	t.Helper()
	reports, note := n.Reports(t.Context())
	for _, r := range reports {
		text += r.Node + " "
	}
	s := activity.Merge(reports, time.Now()).Summary("orders")
	return text + fmt.Sprint(s.Lately.Requests, " ", s.Lately.Failed, " ", note)
}

// Each of many equal failures of a node is found at another one. The first 20 of a minute have their ways.
func TestEqualFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newNodes(t, 2)
		for i := range 30 {
			all[0].request(fmt.Sprint("failure-", i), 401)
		}
		testworld.Check(t, all[0].Write(t.Context()))
		for i := range 30 {
			if f, err := all[1].Find(t.Context(), fmt.Sprint("failure-", i)); err != nil || f == nil || f.UpstreamStatus != 401 || (f.Way != nil) != (i < 20) {
				t.Errorf("failure %d is %+v, %v", i, f, err)
			}
		}
		if f, err := all[1].Find(t.Context(), "failure-30"); f != nil || err != nil {
			t.Errorf("a failure that was not is %+v, %v", f, err)
		}
	})
}

// What three nodes have done adds up at each of them, and a failure at one is found by its id at another within 11 seconds. While the store
// fails, each shows what it has done itself, and says why.
func TestNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, store := newNodes(t, 3)
		ctx, stop := context.WithCancel(t.Context())
		for i, n := range all {
			go n.Run(ctx)
			for range i + 1 {
				n.request("", 200)
			}
		}
		all[0].request("failed-at-a", 401)
		time.Sleep(11 * time.Second) // of the bubble
		for i, n := range all {
			if got, want := summary(t, n), []string{"a b c 7 1 ", "b a c 7 1 ", "c a b 7 1 "}[i]; got != want {
				t.Errorf("a node shows %q, want %q", got, want)
			}
			if f, err := n.Find(t.Context(), "failed-at-a"); err != nil || f == nil || f.Node != "a" || f.UpstreamStatus != 401 {
				t.Errorf("failure = %+v, err = %v", f, err)
			}
		}
		if first := []bool{all[0].First(t.Context()), all[1].First(t.Context())}; !first[0] || first[1] {
			t.Errorf("the first node: %v", first)
		}
		store.down.Store(true)
		time.Sleep(2 * time.Second)
		if got, want := summary(t, all[1]), "b 2 0 this process only: connection refused"; got != want {
			t.Errorf("without the store: %q, want %q", got, want)
		}
		store.down.Store(false)
		stop()
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		if got := summary(t, all[1]); !strings.HasPrefix(got, "b ") {
			t.Errorf("nodes that ended two minutes ago: %q", got)
		}
	})
}

// Who looks next does not wait again for a store that hangs (threats.md 599).
func TestHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, store := newNodes(t, 1)
		store.hangs.Store(true)
		begin := time.Now()
		for range 20 {
			_ = summary(t, all[0])
		}
		if elapsed := time.Since(begin); elapsed > 6*time.Second {
			t.Errorf("20 looks took %v", elapsed)
		}
	})
}

// A node writes every ten seconds, and within two when a connector begins to fail.
func TestWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, store := newNodes(t, 1)
		ctx, stop := context.WithCancel(t.Context())
		go all[0].Run(ctx)
		time.Sleep(time.Minute - time.Millisecond) // of the bubble
		if n := store.writes.Swap(0); n != 6 {
			t.Errorf("%d writes in a minute", n)
		}
		for range 5 {
			all[0].request("x", 401)
		}
		time.Sleep(1500 * time.Millisecond)
		if n := store.writes.Swap(0); n < 2 { // the failures, and the report
			t.Errorf("%d writes after a connector began to fail", n)
		}
		stop()
		synctest.Wait()
	})
}

// A node whose clock is an hour off has its counts and the time of its trouble by the clock of the node that shows them.
func TestClocksOfNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, offset := range []time.Duration{time.Hour, -time.Hour} {
			all, _ := newNodes(t, 2, offset)
			testworld.Check(t, all[0].Write(t.Context()))
			for range 3 {
				all[1].request("x", 401)
			}
			testworld.Check(t, all[1].Write(t.Context()))
			reports, _ := all[0].Reports(t.Context())
			s := activity.Merge(reports, time.Now()).Summary("orders")
			if s.State != activity.StateFailing || s.Lately.Failed != 3 || time.Since(s.Since).Abs() > time.Second {
				t.Errorf("a node that is %s ahead: %s since %s, %d failed, now %s", offset, s.State, s.Since, s.Lately.Failed, time.Now())
			}
			if f, err := all[0].Find(t.Context(), "x"); err != nil || time.Since(f.Time).Abs() > time.Second {
				t.Errorf("a node that is %s ahead: failure %+v, %v", offset, f, err)
			}
			if up := reports[1].Up(); up.Abs() > time.Second {
				t.Errorf("a node that is %s ahead is up for %s", offset, up)
			}
			if g := s.Groups[0]; g.Lately() != 3 || time.Since(g.Last).Abs() > time.Second || time.Since(g.Examples[0].Time).Abs() > time.Second {
				t.Errorf("a node that is %s ahead: group %+v", offset, g)
			}
			if second, _ := all[1].Reports(t.Context()); len(second) != 2 || second[1].Offset.Round(time.Second) != 0 || second[0].Offset.Round(time.Second) != offset {
				t.Errorf("offsets: %s, %s", second[0].Offset, second[1].Offset)
			}
		}
	})
}
