// Package places limits concurrent work and the memory that it holds, and shares both between owners, so that none of
// them blocks the others.
package places

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Places is a number of places and of bytes that owners share. An owner has at most its share of the places, and at
// most as many bytes as remain free. Places is safe for concurrent use.
type Places struct {
	// share is the maximum number of places of an owner.
	share int
	// mostHeld is the maximum number of bytes of all owners.
	mostHeld int64

	mu   sync.Mutex
	free int
	// turn is the number of the newest waiter.
	turn uint64
	// held is the number of bytes of all owners.
	held  int64
	lines map[string]*line
	// queue holds the lines that have waiters. They may be few of all lines.
	queue map[*line]struct{}
}

// line holds the state of an owner: its places, its bytes, and its waiters in the order of arrival.
type line struct {
	inside  int
	held    int64
	waiting []*waiter
}

// waiter is a call of Enter that waits. served is closed when it gets a place.
type waiter struct {
	turn   uint64
	served chan struct{}
}

// ErrNone is returned by [Places.Enter] if no place became free in time.
var ErrNone = errors.New("no place became free in time")

// New returns Places with a number of places and a maximum of bytes. The share of an owner is half of the places, but
// at least one.
func New(all int, mostHeld int64) *Places {
	return &Places{share: max(1, all/2), mostHeld: mostHeld, free: all, lines: map[string]*line{}, queue: map[*line]struct{}{}}
}

// Share returns the maximum number of places of an owner.
func (p *Places) Share() int { return p.share }

// of returns the line of an owner, which it creates if necessary. The caller holds p.mu, and calls tidy before it
// releases it.
func (p *Places) of(owner string) *line {
	l := p.lines[owner]
	if l == nil {
		l = &line{}
		p.lines[owner] = l
	}
	return l
}

// tidy removes the line of an owner if it is empty. The caller holds p.mu.
func (p *Places) tidy(owner string) {
	if l := p.lines[owner]; l != nil && l.inside == 0 && l.held == 0 && len(l.waiting) == 0 {
		delete(p.lines, owner)
	}
}

// Enter waits for a place. The caller must call leave exactly once when its work is done. Enter returns [ErrNone] if
// there is no place within patience, and the cause of ctx if that ends first.
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
		leave() // it got a place meanwhile
	}
	return nil, err
}

// serve assigns the free places to waiters. The owner with the fewest places is first, and among equals the waiter that
// came first. The caller holds p.mu.
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

// remove removes waiter i from a line. The caller holds p.mu.
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

// giveUp removes w from its line. It reports whether w was still waiting; otherwise w has a place.
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

// Hold adds bytes to those of an owner, and reports whether the owner now has at most as many bytes as remain free. So
// some bytes are left for others, however many owners are slow. The bytes count even if Hold returns false. The caller
// subtracts them by a call with a negative number.
func (p *Places) Hold(owner string, bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.of(owner)
	l.held += bytes
	p.held += bytes
	defer p.tidy(owner)
	return l.held <= p.mostHeld-p.held
}
