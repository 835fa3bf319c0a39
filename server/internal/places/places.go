// Package places bounds how much is done at once, and how much memory it takes, so that nobody keeps out the others.
package places

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Places are for work of many owners. No owner has more than a share of the places, nor more of the memory than it leaves
// free. It is safe for concurrent use.
type Places struct {
	share    int   // of the places, for one owner
	mostHeld int64 // bytes

	mu    sync.Mutex
	free  int
	turn  uint64 // of who comes next
	held  int64  // bytes of all owners
	lines map[string]*line
	queue map[*line]struct{} // the lines in which somebody waits, which need not be many of all
}

// line counts the places and the memory of an owner.
type line struct {
	inside  int
	held    int64
	waiting []*waiter // in the order in which they came
}

type waiter struct {
	turn   uint64
	served chan struct{} // closed once it has a place
}

// ErrNone says that there was no place in time.
var ErrNone = errors.New("no place became free in time")

// New makes so many places, and memory of so many bytes. Half of the places are the share of an owner, and one at least.
func New(all int, mostHeld int64) *Places {
	return &Places{share: max(1, all/2), mostHeld: mostHeld, free: all, lines: map[string]*line{}, queue: map[*line]struct{}{}}
}

// Share returns how many places one owner may have.
func (p *Places) Share() int { return p.share }

// of returns the line of an owner. The caller holds the lock, and calls tidy before it lets go of it.
func (p *Places) of(owner string) *line {
	l := p.lines[owner]
	if l == nil {
		l = &line{}
		p.lines[owner] = l
	}
	return l
}

// tidy forgets a line that has nothing in it. The caller holds the lock.
func (p *Places) tidy(owner string) {
	if l := p.lines[owner]; l != nil && l.inside == 0 && l.held == 0 && len(l.waiting) == 0 {
		delete(p.lines, owner)
	}
}

// Enter waits for a place, but no longer than patience: then the error is [ErrNone]. When the context ends first, the error
// is its cause. leave is called once, when the work is done.
func (p *Places) Enter(ctx context.Context, owner string, patience time.Duration) (leave func(), err error) {
	w := &waiter{served: make(chan struct{})}
	p.mu.Lock()
	p.turn++
	w.turn = p.turn
	l := p.of(owner)
	l.waiting = append(l.waiting, w)
	p.queue[l] = struct{}{}
	p.serve()
	p.mu.Unlock()
	leave = func() { p.leave(owner) }
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.served:
		return leave, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = ErrNone
	}
	if !p.giveUp(owner, w) {
		leave() // it was served meanwhile
	}
	return nil, err
}

// serve hands out free places: first to the owner that has the fewest, then to whoever came first. The caller holds the
// lock.
func (p *Places) serve() {
	for p.free > 0 {
		var next *line
		for l := range p.queue {
			if l.inside >= p.share {
				continue
			}
			if next == nil || l.inside < next.inside || l.inside == next.inside && l.waiting[0].turn < next.waiting[0].turn {
				next = l
			}
		}
		if next == nil {
			return
		}
		close(next.waiting[0].served)
		p.remove(next, 0)
		next.inside++
		p.free--
	}
}

// remove takes a waiter out of a line. The caller holds the lock.
func (p *Places) remove(l *line, i int) {
	if l.waiting = slices.Delete(l.waiting, i, i+1); len(l.waiting) == 0 {
		delete(p.queue, l)
	}
}

func (p *Places) leave(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(owner).inside--
	p.free++
	p.tidy(owner)
	p.serve()
}

// giveUp ends the wait of w. It reports false when w has a place already.
func (p *Places) giveUp(owner string, w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.of(owner)
	defer p.tidy(owner)
	for i, other := range l.waiting {
		if other == w {
			p.remove(l, i)
			return true
		}
	}
	return false
}

// Hold counts bytes that an owner holds, and reports whether they are within the bounds: it has no more than is free, so
// that some is left for others, however many owners are slow. They count until as many are taken off with a negative
// number, also when they are not within the bounds.
func (p *Places) Hold(owner string, bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.of(owner)
	l.held += bytes
	p.held += bytes
	defer p.tidy(owner)
	return l.held <= p.mostHeld-p.held
}
