// Package fairqueue limits concurrent work and the memory that it holds, and shares both between owners, so that none of
// them blocks the others.
package fairqueue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// Queue is a number of places and of bytes that owners share. An owner has at most its share of the places, the last quarter goes
// to owners without a place only, and an owner has at most as many bytes as remain free. Of several owners of a place, the last is one of
// many parts of the others, and has half of a share. Queue is safe for concurrent use.
type Queue struct {
	// share is the maximum number of places of an owner, and reserved the number of places for owners without one.
	share, reserved int
	// mostHeld is the maximum number of bytes of all owners.
	mostHeld int64

	mu   sync.Mutex
	free int
	// turn is the number of the newest waiter.
	turn uint64
	// bytes is the number of bytes of all owners.
	bytes  int64
	owners map[string]*owner
	// lines are those of waiters, by the names of their owners, which may be few of all owners.
	lines map[string]*line
}

// owner has the places and the bytes of an owner.
type owner struct {
	inside int
	bytes  int64
}

// line holds the waiters with the same owners, in the order of arrival.
type line struct {
	owners  []string
	waiting []*waiter
}

// waiter is a call of Enter that waits. served is closed when it gets a place.
type waiter struct {
	turn   uint64
	served chan struct{}
}

// ErrNone is returned by [Queue.Enter] if no place became free in time.
var ErrNone = errors.New("no place became free in time")

// New returns a Queue with a number of places and a maximum of bytes. The share of an owner is half of the places, but at least one.
func New(all int, mostHeld int64) *Queue {
	return &Queue{share: max(1, all/2), reserved: all / 4, mostHeld: mostHeld, free: all, owners: map[string]*owner{}, lines: map[string]*line{}}
}

// Share returns the maximum number of places of an owner.
func (q *Queue) Share() int { return q.share }

// ownerOf returns the state of an owner, which it creates if necessary. The caller holds q.mu, and calls tidy before it releases it.
func (q *Queue) ownerOf(name string) *owner {
	o := q.owners[name]
	if o == nil {
		o = &owner{}
		q.owners[name] = o
	}
	return o
}

// tidy removes the state of an owner that has nothing. The caller holds q.mu.
func (q *Queue) tidy(name string) {
	if o := q.owners[name]; o != nil && *o == (owner{}) {
		delete(q.owners, name)
	}
}

// Enter waits for a place, which counts for each of the owners. The caller must call leave exactly once when its work is done.
// Enter returns [ErrNone] if there is no place within patience, and the cause of ctx if that ends first.
func (q *Queue) Enter(ctx context.Context, patience time.Duration, owners ...string) (leave func(), err error) {
	leave = func() { q.leave(owners) }
	w := &waiter{served: make(chan struct{})}
	if q.wait(w, owners) {
		return leave, nil
	}
	select {
	case <-w.served:
		return leave, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(patience):
		err = ErrNone
	}
	if !q.giveUp(w, owners) {
		leave() // it got a place meanwhile
	}
	return nil, err
}

// Try is like [Queue.Enter], and does not wait. ok reports whether there was a place.
func (q *Queue) Try(owners ...string) (leave func(), ok bool) {
	w := &waiter{served: make(chan struct{})}
	return func() { q.leave(owners) }, q.wait(w, owners) || !q.giveUp(w, owners)
}

// wait adds a waiter to the line of its owners. It reports whether the waiter has a place already.
func (q *Queue) wait(w *waiter, owners []string) (served bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn++
	w.turn = q.turn
	name := strings.Join(owners, "\n")
	l := q.lines[name]
	if l == nil {
		l = &line{owners: owners}
		q.lines[name] = l
	}
	l.waiting = append(l.waiting, w)
	q.serve()
	select {
	case <-w.served:
		return true
	default:
		return false
	}
}

// serve assigns the free places to waiters. First is who has the fewest places, as the one of its owners that has most, among equals as the
// last of them, and then the waiter that came first. The caller holds q.mu.
func (q *Queue) serve() {
	for q.free > 0 {
		var next *line
		fewest, fewestOfLast := q.share, 0 // nobody enters with as many
		if q.free <= q.reserved {
			fewest = 1
		}
		for _, l := range q.lines {
			n, last := q.inside(l.owners)
			order := cmp.Or(n-fewest, last-fewestOfLast)
			if n < fewest || next != nil && (order < 0 || order == 0 && l.waiting[0].turn < next.waiting[0].turn) {
				next, fewest, fewestOfLast = l, n, last
			}
		}
		if next == nil {
			return
		}
		close(next.waiting[0].served)
		q.remove(next, 0)
		for _, name := range next.owners {
			q.ownerOf(name).inside++
		}
		q.free--
	}
}

// inside returns the number of places of the owner that has most of them, where those of the last of several count twice, and the
// number of the last. The caller holds q.mu.
func (q *Queue) inside(owners []string) (limit, last int) {
	for _, name := range owners {
		last = 0
		if o := q.owners[name]; o != nil {
			last = o.inside
		}
		limit = max(limit, last)
	}
	if len(owners) > 1 {
		limit = max(limit, 2*last)
	}
	return limit, last
}

// remove removes waiter i from a line. The caller holds q.mu.
func (q *Queue) remove(l *line, i int) {
	if l.waiting = slices.Delete(l.waiting, i, i+1); len(l.waiting) == 0 {
		delete(q.lines, strings.Join(l.owners, "\n"))
	}
}

func (q *Queue) leave(owners []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, name := range owners {
		q.ownerOf(name).inside--
		q.tidy(name)
	}
	q.free++
	q.serve()
}

// giveUp removes w from its line. It reports whether w was still waiting; otherwise w has a place.
func (q *Queue) giveUp(w *waiter, owners []string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[strings.Join(owners, "\n")]; l != nil {
		if i := slices.Index(l.waiting, w); i >= 0 {
			q.remove(l, i)
			return true
		}
	}
	return false
}

// Hold adds bytes to those of an owner, and reports whether the owner now has at most as many bytes as remain free. So
// some bytes are left for others, however many owners are slow. The bytes count even if Hold returns false. The caller
// subtracts them by a call with a negative number.
func (q *Queue) Hold(owner string, bytes int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.ownerOf(owner)
	o.bytes += bytes
	q.bytes += bytes
	defer q.tidy(owner)
	return o.bytes <= q.mostHeld-q.bytes
}
