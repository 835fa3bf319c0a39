package lease

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/fairqueue"
)

// ErrBusy means that a call was not made, because so many others wait, or one for as long as the call may take.
var ErrBusy = errors.New("too many other calls")

const (
	mostWaiting = 128     // requests that wait for the turn of a partition
	mostLines   = 1 << 16 // partitions whose line is remembered
	mostFloor   = 1 << 62 // floor of a number, so that there are always higher ones
)

// Serials has the turns of requests with numbers that only rise: those of a partition go one at a time, in the order of arrival. Nodes
// with one store of state share turns and numbers. It is safe for concurrent use.
type Serials struct {
	// node is nil if there is no store of state.
	node  *Node
	lines *lru.Cache[[32]byte, *line]
}

// line has the requests of a partition on this node.
type line struct {
	place   *fairqueue.Queue
	waiting atomic.Int32
	// last is the last number, if there is no store.
	last int64
}

// NewSerials returns the turns of a node, which may be nil.
func NewSerials(node *Node) *Serials {
	lines, _ := lru.New[[32]byte, *line](mostLines) // the only error is for sizes below one
	return &Serials{node, lines}
}

// Serial is the turn of a request, with a number for each of its two attempts. So no later number shows whether there was a second one.
type Serial struct {
	first int64
	// End ends the turn.
	End func()
	// late is nil if there is no store.
	late func() bool
}

// Number returns the number of the first attempt, or of the second. That of a nil Serial is 0.
func (s *Serial) Number(second bool) int64 {
	switch {
	case s == nil:
		return 0
	case second:
		return s.first + 1
	}
	return s.first
}

// Late reports whether two thirds of the turn's lease are over. What is sent then may arrive after the next number of another node.
func (s *Serial) Late() bool { return s.late != nil && s.late() }

// Begin takes the turn of a partition. Its numbers are above those of all earlier turns, and not below floor. Errors are [ErrBusy] if
// 128 others wait, or if patience is over, [ErrRolledBack], and those of the store and of ctx.
func (s *Serials) Begin(ctx context.Context, partition [32]byte, floor int64, patience time.Duration) (*Serial, error) {
	fresh := &line{place: fairqueue.New(1, 0)}
	l, ok, _ := s.lines.PeekOrAdd(partition, fresh)
	if !ok {
		l = fresh
	}
	s.lines.Get(partition) // it is used
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > mostWaiting {
		return nil, ErrBusy
	}
	waitCtx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	leave, err := l.place.Enter(waitCtx, patience, "")
	if err == nil {
		turn, ok := &Serial{End: leave}, false
		defer func() {
			if !ok { // also if the store panics
				leave()
			}
		}()
		if err = s.count(waitCtx, partition, l, turn, min(floor, mostFloor)); err == nil {
			ok = true
			return turn, nil
		}
	}
	if ctx.Err() == nil && (waitCtx.Err() != nil || errors.Is(err, fairqueue.ErrNone)) {
		err = ErrBusy
	}
	return nil, err
}

// count sets the numbers of a turn. With a store, it waits until no other node has the turn, and the store has the numbers before it
// returns, so that none is used again after a node has died.
func (s *Serials) count(ctx context.Context, partition [32]byte, l *line, turn *Serial, floor int64) error {
	if s.node == nil {
		turn.first = max(floor, l.last+1)
		l.last = turn.first + 1
		return nil
	}
	n := s.node
	id := n.id(useSerial, Key{Partition: partition})
	for {
		row, last, err := n.lastNumber(ctx, id)
		if err != nil {
			return err
		}
		lease, start, ok, err := n.claim(ctx, id, row)
		if ok {
			turn.first = max(floor, last+1)
			if ok, err = n.put(ctx, lease, strconv.AppendInt(nil, turn.first+1, 10), 0, false); ok {
				turn.late = func() bool { return n.remaining(start) <= 0 }
				leave := turn.End
				turn.End = func() {
					n.release(ctx, lease)
					leave()
				}
				return nil
			}
			n.release(ctx, lease)
		}
		if err == nil {
			err = n.wait(ctx, id, row)
		}
		if err != nil {
			return err
		}
	}
}

// lastNumber reads a row, and returns it with its last number, which is 0 for an empty row.
func (n *Node) lastNumber(ctx context.Context, id state.ID) (row reading, last int64, err error) {
	if row, err = n.get(ctx, id); err != nil {
		return row, 0, err
	}
	text, err := n.lasting(id, row)
	if err == nil && row.Value != nil {
		last, err = strconv.ParseInt(string(text), 10, 64)
	}
	return row, last, err
}
