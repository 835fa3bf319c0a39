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

// places bounds how many bodies are shaped at once, since a decoded body takes many times the memory of its text and
// much of a processor. No connector has more than a share of the places (threats.md 58), nor more of the memory for
// bodies that wait than it leaves free.
type places struct {
	share    int   // of the places, for one connector
	mostHeld int64 // bytes

	mu    sync.Mutex
	free  int
	turn  uint64 // of who comes next
	held  int64  // bytes of all bodies that are read to be shaped
	lines map[string]*line
}

// line counts the places and the memory that the bodies of a connector take. It is found by the permalink, so that it
// outlives a reload.
type line struct {
	inside  int // bodies that are shaped
	held    int64
	waiting []*waiter // in the order in which they came
}

type waiter struct {
	turn   uint64
	served chan struct{} // closed once it has a place
}

// newPlaces makes two places for each processor, and four at least.
func newPlaces() *places {
	all := max(4, 2*runtime.GOMAXPROCS(0))
	return &places{share: all / 2, mostHeld: 256 << 20, free: all, lines: map[string]*line{}}
}

// of returns the line of a connector. The caller holds the lock, and calls tidy before it lets go of it.
func (p *places) of(connector string) *line {
	l := p.lines[connector]
	if l == nil {
		l = &line{}
		p.lines[connector] = l
	}
	return l
}

// tidy forgets a line that has nothing in it. The caller holds the lock.
func (p *places) tidy(connector string) {
	if l := p.lines[connector]; l != nil && l.inside == 0 && l.held == 0 && len(l.waiting) == 0 {
		delete(p.lines, connector)
	}
}

var errNoPlace = &problem{
	status: http.StatusServiceUnavailable, kind: "too-many-requests", detail: "this connector has more bodies to shape than it can", retry: 1,
	cause: errors.New("no body of this connector was done within timeout: others wait for the same places"),
}

// enter waits for a place, but no longer than patience. leave is called when the body has been shaped.
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

// serve hands out free places: first to the connector that has the fewest, then to whoever came first. The caller holds
// the lock.
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

// giveUp ends the wait of w. It reports false when w has a place already.
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

// read reads a connector's body to its end. release must be called once the body is no longer needed, also after an
// error.
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

// hold counts bytes of a connector's bodies, and reports whether they are within the bounds: it has no more than is free,
// so that some is left for others, however many connectors have slow callers.
func (p *places) hold(connector string, bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.of(connector)
	l.held += bytes
	p.held += bytes
	p.tidy(connector)
	return l.held <= p.mostHeld-p.held
}
