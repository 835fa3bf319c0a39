package gateway

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// inPlace is a body that is shaped.
type inPlace struct {
	connector string
	leave     func()
}

// queue has bodies of connectors ask for places in this order, and gives those that got one, as they got it.
func queue(p *places, connectors ...string) <-chan inPlace {
	entered := make(chan inPlace, len(connectors))
	for _, connector := range connectors {
		go func() {
			if leave, err := p.enter(context.Background(), connector, time.Hour); err == nil {
				entered <- inPlace{connector, leave}
			}
		}()
		synctest.Wait()
	}
	return entered
}

// threats.md 58: a connector has no more than its share, and a free place goes to the connector that has the fewest.
func TestPlacesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.free, p.share = 4, 2
		entered := queue(p, "a", "a", "a", "b", "b", "b", "c", "a", "c")
		var inside []inPlace
		next := func() string {
			synctest.Wait()
			select {
			case body := <-entered:
				inside = append(inside, body)
				return body.connector
			default:
				return ""
			}
		}
		leave := func(connector string) {
			for i, body := range inside {
				if body.connector == connector {
					body.leave()
					inside = append(inside[:i], inside[i+1:]...)
					return
				}
			}
			t.Errorf("no body of %s is shaped", connector)
		}
		got := next() + next() + next() + next() + next()
		if got != "aabb" {
			t.Errorf("at first, there are %s", got)
		}
		for _, step := range []struct{ leaves, enters string }{
			{"a", "c"}, // which has none, though a and b came before it
			{"b", "a"}, // a, b and c have one each: a came first
			{"a", "b"}, {"a", "a"}, {"c", "c"}, {"b", ""}, {"b", ""}, {"c", ""}, {"a", ""},
		} {
			leave(step.leaves)
			if got := next(); got != step.enters {
				t.Errorf("when a body of %s is done, one of %q enters, want %q", step.leaves, got, step.enters)
			}
		}
		if p.free != 4 || len(p.lines) > 0 {
			t.Errorf("at the end, %d places are free and there are %d lines", p.free, len(p.lines))
		}
	})
}

// threats.md 58: a share is at least one place, and not all of them, however many processors there are.
func TestNoShareIsAllPlaces(t *testing.T) {
	if p := newPlaces(); p.share < 1 || 2*p.share > p.free {
		t.Errorf("%d of %d places are a share", p.share, p.free)
	}
}

// A body waits no longer than its connector's timeout, and no longer than its caller; its expressions have the same
// time once more, from when it has a place.
func TestWaitingForAPlaceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{})
		for range g.places.share {
			if _, err := g.places.enter(t.Context(), "weather", time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		c := &call{gateway: g, connector: &Connector{Definition: Definition{Permalink: "weather", Timeout: 3 * time.Second}}}
		began := time.Now()
		_, _, err := c.shaping(t.Context())
		if p := (*problem)(nil); !errors.As(err, &p) || p.status != 503 || p.retry == 0 || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		gone, leave := context.WithCancelCause(t.Context())
		left := errors.New("the caller left")
		time.AfterFunc(time.Second, func() { leave(left) })
		if _, _, err := c.shaping(gone); !errors.Is(err, left) {
			t.Errorf("got %v", err)
		}
		if waiting := len(g.places.lines["weather"].waiting); waiting > 0 {
			t.Errorf("%d bodies wait that are gone", waiting)
		}

		time.AfterFunc(time.Second, func() { g.places.leave("weather") })
		ctx, done, err := c.shaping(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != 3*time.Second {
			t.Errorf("expressions have %v", time.Until(deadline))
		}
		done()
		if ctx.Err() == nil || g.places.lines["weather"].inside != g.places.share-1 {
			t.Errorf("after the end: %v, %+v", ctx.Err(), g.places.lines["weather"])
		}
	})
}

// Whoever comes and goes at once, no place is lost, and none is there twice.
func TestPlacesAreNeitherLostNorMade(t *testing.T) {
	p := newPlaces()
	all := p.free
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%3 == 0 {
				go cancel()
			}
			defer cancel()
			if leave, err := p.enter(ctx, string(rune('a'+i%5)), time.Hour); err == nil {
				leave()
			}
		})
	}
	group.Wait()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 200 { // whose caller leaves as they get a place
		if leave, err := p.enter(gone, "gone", time.Hour); err == nil {
			leave()
		}
	}
	if p.free != all || len(p.lines) > 0 {
		t.Errorf("%d places are free of %d, and there are %d lines", p.free, all, len(p.lines))
	}
}

// What waits to be shaped takes no more memory than there is for it, of one connector no more than is free, so that two
// whose callers are slow leave some to a third (threats.md 58). What was shaped leaves its part to others.
func TestBodiesThatAreHeld(t *testing.T) {
	p := newPlaces()
	p.mostHeld = 20
	read := func(connector string, length int) (release func(), fits bool) {
		whole, release, err := p.read(strings.NewReader(strings.Repeat("x", length)), connector)
		if known := (*problem)(nil); err != nil && (!errors.As(err, &known) || known.status != 503) || err == nil && len(whole) != length {
			t.Errorf("%d bytes, %v", len(whole), err)
		}
		return release, err == nil
	}
	var releases []func()
	for _, step := range []struct {
		connector string
		length    int
		fits      bool
	}{{"a", 6, true}, {"a", 4, true}, {"a", 1, false}, {"b", 6, false}, {"b", 5, true}, {"c", 3, false}, {"c", 2, true}, {"d", 1, true}} {
		release, fits := read(step.connector, step.length)
		if fits != step.fits {
			t.Errorf("%d bytes of %s: %v", step.length, step.connector, fits)
		}
		if releases = append(releases, release); !fits {
			release()
			releases = releases[:len(releases)-1]
		}
	}
	for _, release := range releases {
		release()
	}
	if p.held != 0 || len(p.lines) > 0 {
		t.Errorf("%d bytes are held, in %d lines", p.held, len(p.lines))
	}
	release, fits := read("a", 10)
	if release(); !fits {
		t.Error("what is over still counts")
	}
}
