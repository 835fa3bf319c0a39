package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"
)

// places is where bodies are shaped. A decoded body takes many times the memory of its text and much of a processor, so that
// there are only so many at once, of which no connector has more than a share (threats.md 58). Nor has it more than half of the
// memory for bodies that wait.
type places struct {
	share    int   // of the places, for one connector
	mostHeld int64 // bytes

	mu    sync.Mutex
	free  int
	turn  uint64 // of who comes next
	held  int64  // bytes of all bodies that are read to be shaped
	lines map[string]*line
}

// line is what a connector has, by its permalink: one that takes its place after a reload goes on with it.
type line struct {
	inside  int // bodies that are shaped
	held    int64
	waiting []*waiter // in the order in which they came
}

type waiter struct {
	turn   uint64
	served chan struct{} // closed once it has a place
}

// newPlaces makes places for two bodies for each processor, and for four at least.
func newPlaces() *places {
	all := max(4, 2*runtime.GOMAXPROCS(0))
	return &places{share: all / 2, mostHeld: 256 << 20, free: all, lines: map[string]*line{}}
}

// of gives the line of a connector, for somebody who holds the lock and calls tidy before the end.
func (p *places) of(connector string) *line {
	l := p.lines[connector]
	if l == nil {
		l = &line{}
		p.lines[connector] = l
	}
	return l
}

func (p *places) tidy(connector string) {
	if l := p.lines[connector]; l != nil && l.inside == 0 && l.held == 0 && len(l.waiting) == 0 {
		delete(p.lines, connector)
	}
}

var errNoPlace = &problem{
	status: http.StatusServiceUnavailable, kind: "too-many-requests", detail: "this connector has more bodies to shape than it can", retry: 1,
	cause: errors.New("no body of this connector was done within timeout: others wait for the same places"),
}

// enter waits for a place, but no longer than patience.
func (p *places) enter(ctx context.Context, connector string, patience time.Duration) (leave func(), err error) {
	w := &waiter{served: make(chan struct{})}
	p.mu.Lock()
	p.turn++
	w.turn = p.turn
	l := p.of(connector)
	l.waiting = append(l.waiting, w)
	p.serve()
	p.mu.Unlock()
	leave = func() { p.leave(connector) }
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.served:
		return leave, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = errNoPlace
	}
	if !p.giveUp(connector, w) {
		leave() // it was served meanwhile
	}
	return nil, err
}

// serve gives free places to those who wait: first to the connector that has the fewest, and then to who came first. The lock is
// held.
func (p *places) serve() {
	for p.free > 0 {
		var next *line
		for _, l := range p.lines {
			if len(l.waiting) == 0 || l.inside >= p.share {
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
		next.waiting = next.waiting[1:]
		next.inside++
		p.free--
	}
}

func (p *places) leave(connector string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(connector).inside--
	p.free++
	p.tidy(connector)
	p.serve()
}

// giveUp takes back who waits. It reports false when there is a place already.
func (p *places) giveUp(connector string, w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.of(connector)
	defer p.tidy(connector)
	for i, other := range l.waiting {
		if other == w {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// held is a body that is read to be shaped. What there is of all of them is bounded.
type held struct {
	io.Reader
	places    *places
	connector string
	bytes     int64
}

// read reads a connector's body to its end. release is to be called in any case, once nothing of it is needed any more.
func (p *places) read(from io.Reader, connector string) (whole []byte, release func(), err error) {
	h := &held{Reader: from, places: p, connector: connector}
	whole, err = io.ReadAll(h)
	return whole, func() { p.hold(connector, -h.bytes) }, err
}

func (h *held) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.bytes += int64(n)
	if !h.places.hold(h.connector, int64(n)) {
		return 0, &problem{status: http.StatusServiceUnavailable, kind: "too-many-requests", detail: "there are more bodies under way than this gateway takes", retry: 1}
	}
	return n, err
}

// hold counts bytes of a connector's bodies, and reports whether there are no more than may be.
func (p *places) hold(connector string, bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.of(connector)
	l.held += bytes
	p.held += bytes
	p.tidy(connector)
	return p.held <= p.mostHeld && l.held <= p.mostHeld/2
}
