package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/fairqueue"
	"github.com/keywright/keywright/internal/testworld"
)

// Limits count requests that are under way and those of a second, and give back what a request takes that is refused by another limit.
// In a script, a name is a request of that user, with the status if it is refused, -name ends the oldest of the user, 1s is a pause, and
// nobody is a request without a user.
func TestLimits(t *testing.T) {
	ten := func(request string) string { return strings.Repeat(request+" ", 10) }
	for name, c := range map[string]struct {
		limits Limits
		script string
	}{
		"places of a user come back": {Limits{Concurrent: 4}, ten(ten("ann -ann"))},
		"places of nobody come back": {Limits{Concurrent: 4}, ten(ten("nobody -nobody"))},
		"places of all come back":    {Limits{Concurrent: 4}, ten(ten("ann bob nobody eve -ann -bob -nobody -eve"))},
		"so do those of refused requests": {
			Limits{Concurrent: 8, PerUser: 1},
			strings.Repeat("nobody 1s ", 8) + ten("ann=503") + strings.Repeat("-nobody ", 8) + "ann " + ten("ann=429") + // over the rate
				"1s ann 1s ann=429 -ann -ann ann", // two of eight are a quarter
		},
		"the total of all users":            {Limits{Concurrent: 100, Total: 3}, "ann bob nobody eve=429 1s eve"},
		"over the share, no total is used":  {Limits{Concurrent: 4, Total: 3}, "ann " + ten("ann=429") + "bob eve"},
		"over the rate, no total is used":   {Limits{Concurrent: 100, Total: 3, PerUser: 1}, "ann " + ten("ann=429") + "bob eve"},
		"without a place, no total is used": {Limits{Concurrent: 1, Total: 2}, "nobody " + ten("ann=503") + "-nobody ann"},
	} {
		now, all := time.Unix(1_800_000_000, 0), map[string][]func(){}
		limits := newLimiter(c.limits, func() time.Time { return now })
		for i, step := range strings.Fields(c.script) {
			user, want, _ := strings.Cut(step, "=")
			who := strings.TrimPrefix(user, "-")
			switch {
			case step == "1s":
				now = now.Add(time.Second)
				continue
			case who != user:
				all[who][0]()
				all[who] = all[who][1:]
				continue
			case user == "nobody":
				user = ""
			}
			release, err := limits.enter(user)
			if p := (*httpProblem)(nil); errors.As(err, &p) != (want != "") || p != nil && fmt.Sprint(p.status) != want {
				t.Fatalf("%s: step %d, %s: %v", name, i, step, err)
			}
			if want == "" {
				all[who] = append(all[who], release)
			}
		}
	}
}

// threats.md 58: with any number of processors, one connector's share leaves at least two places to others.
func TestShareLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newPlaces()
		for range all.Share() {
			testworld.Must(all.Enter(t.Context(), time.Second, "weather"))(t)
		}
		if _, err := all.Enter(t.Context(), time.Second, "weather"); !errors.Is(err, fairqueue.ErrNone) {
			t.Errorf("one more gets %v", err)
		}
		for _, other := range []string{"one", "another"} {
			if _, err := all.Enter(t.Context(), time.Second, other); err != nil {
				t.Errorf("%s connector gets %v", other, err)
			}
		}
	})
}

// There are two places for each processor, but at least four.
func TestPlacesForProcessors(t *testing.T) {
	for processors, share := range map[int]int{1: 2, 2: 2, 3: 3, 8: 8} {
		before := runtime.GOMAXPROCS(processors)
		all := newPlaces()
		runtime.GOMAXPROCS(before)
		if all.Share() != share {
			t.Errorf("with %d processors, a share is %d places, want %d", processors, all.Share(), share)
		}
	}
}

// A caller whose call found no place, of a request or of a consent, is asked to come back. threats.md 330
func TestWhoFindsNoPlaceComesBack_threats_330(t *testing.T) {
	busy := fmt.Errorf("a caller: %w", &host.Error{Stage: host.StageToken, Err: fmt.Errorf("%w wait", host.ErrBusy)})
	for name, err := range map[string]error{"a request": busy, "a consent": consentProblem(busy)} {
		p := problemOf(err)
		if p.status != http.StatusServiceUnavailable || p.kind != "too-many-requests" || p.retry != 1 || p.stage != "token" || p.alreadyLogged {
			t.Errorf("%s gets %+v", name, p)
		}
	}
}

// A body waits until the connector's timeout or until its caller leaves. From the time at which it has a place, its
// expressions have the timeout once more.
func TestWaitingForAPlaceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{})
		var leave func()
		for range g.places.Share() {
			leave = testworld.Must(g.places.Enter(t.Context(), time.Hour, "weather"))(t)
		}
		c := &call{gateway: g, connector: &Connector{definition: Definition{Permalink: "weather", Timeout: 3 * time.Second}}}
		began := time.Now()
		_, _, err := c.shaping(t.Context())
		if p := (*httpProblem)(nil); !errors.As(err, &p) || p.status != 503 || p.retry == 0 || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		gone, goes := context.WithCancelCause(t.Context())
		left := errors.New("the caller left")
		time.AfterFunc(time.Second, func() { goes(left) })
		if _, _, err := c.shaping(gone); !errors.Is(err, left) {
			t.Errorf("got %v", err)
		}

		time.AfterFunc(time.Second, leave)
		ctx, done, err := c.shaping(t.Context())
		testworld.Check(t, err)
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != 3*time.Second {
			t.Errorf("expressions have %v", time.Until(deadline))
		}
		done()
		if ctx.Err() == nil {
			t.Error("after the end, the expressions still have time")
		}
		if _, _, err := c.shaping(t.Context()); err != nil {
			t.Errorf("the place was not given back: %v", err)
		}
	})
}

// A body is refused while it is read if too many bytes are held. release then subtracts its bytes.
func TestHeldBodies(t *testing.T) {
	g := New(Config{})
	g.places = fairqueue.New(4, 20)
	read := func(length int) (release func(), fits bool) {
		whole, release, err := g.read(strings.NewReader(strings.Repeat("x", length)), "weather")
		if known := (*httpProblem)(nil); err != nil && (!errors.As(err, &known) || known.status != 503) || err == nil && len(whole) != length {
			t.Errorf("%d bytes, %v", len(whole), err)
		}
		return release, err == nil
	}
	first, fits := read(10)
	if !fits {
		t.Error("what fits is refused")
	}
	second, fits := read(1)
	if second(); fits {
		t.Error("one byte more is not refused")
	}
	first()
	if _, fits := read(10); !fits {
		t.Error("what is over still counts")
	}
}
