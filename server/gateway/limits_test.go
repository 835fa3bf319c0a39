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

// limited returns functions to use a limiter with these limits. enter returns the status if the request is refused. pass moves
// the limiter's clock.
func limited(l Limits) (enter func(user string) (release func(), status int), pass func(time.Duration)) {
	now := time.Unix(1_800_000_000, 0)
	limits := newLimiter(l, func() time.Time { return now })
	enter = func(user string) (func(), int) {
		release, err := limits.enter(user)
		var p *httpProblem
		if errors.As(err, &p) {
			return nil, p.status
		}
		return release, 0
	}
	return enter, func(d time.Duration) { now = now.Add(d) }
}

// A request that has ended releases its slot, and its part of the user's share.
func TestPlacesReturned(t *testing.T) {
	for name, users := range map[string][]string{"a user": {"ann"}, "nobody": {""}, "several": {"ann", "bob", "", "eve", "joe"}} {
		t.Run(name, func(t *testing.T) {
			enter, _ := limited(Limits{Concurrent: 4})
			for i := range 100 {
				release, status := enter(users[i%len(users)])
				if status != 0 {
					t.Fatalf("request %d of %q got %d, with no other under way", i+1, users[i%len(users)], status)
				}
				release()
			}
		})
	}

	t.Run("and so are those of requests that are refused", func(t *testing.T) {
		enter, pass := limited(Limits{Concurrent: 8, PerUser: 1})
		var all []func()
		for range 8 {
			release, status := enter("")
			if all = append(all, release); status != 0 {
				break
			}
			pass(time.Second)
		}
		for range 10 {
			if _, status := enter("ann"); status != 503 {
				t.Fatalf("with all places taken, a user got %d", status)
			}
		}
		for _, release := range all {
			release()
		}
		first, status := enter("ann")
		if status != 0 {
			t.Fatalf("the first request got %d", status)
		}
		for range 10 {
			if _, status := enter("ann"); status != 429 {
				t.Fatalf("a request over the rate got %d", status)
			}
		}
		pass(time.Second)
		second, status := enter("ann")
		if status != 0 {
			t.Fatalf("a second later, the user got %d", status)
		}
		pass(time.Second)
		if _, status := enter("ann"); status != 429 { // two of eight are a quarter
			t.Errorf("over the share, the user got %d", status)
		}
		first()
		second()
		if _, status := enter("ann"); status != 0 {
			t.Errorf("the user got %d, whose share is free again", status)
		}
	})
}

// Total limits all users together.
func TestTotalOfAllUsers(t *testing.T) {
	enter, pass := limited(Limits{Concurrent: 100, Total: 3})
	for _, user := range []string{"ann", "bob", ""} {
		if _, status := enter(user); status != 0 {
			t.Errorf("%q got %d", user, status)
		}
	}
	if _, status := enter("eve"); status != 429 {
		t.Errorf("the fourth in a second got %d", status)
	}
	pass(time.Second)
	if _, status := enter("eve"); status != 0 {
		t.Errorf("a second later, a user got %d", status)
	}
}

// Refused requests do not count for Total.
func TestRefusedRequestsDoNotCountForTotal(t *testing.T) {
	t.Run("over the share", func(t *testing.T) {
		enter, _ := limited(Limits{Concurrent: 4, Total: 3})
		if _, status := enter("ann"); status != 0 {
			t.Fatalf("the first request got %d", status)
		}
		for range 10 {
			if _, status := enter("ann"); status != 429 {
				t.Fatalf("a request over the share got %d", status)
			}
		}
		for _, user := range []string{"bob", "eve"} {
			if _, status := enter(user); status != 0 {
				t.Errorf("%s got %d", user, status)
			}
		}
	})
	t.Run("over the user's rate", func(t *testing.T) {
		enter, _ := limited(Limits{Concurrent: 100, Total: 3, PerUser: 1})
		for i := range 10 {
			if _, status := enter("ann"); (status == 0) != (i == 0) {
				t.Fatalf("request %d got %d", i+1, status)
			}
		}
		for _, user := range []string{"bob", "eve"} {
			if _, status := enter(user); status != 0 {
				t.Errorf("%s got %d", user, status)
			}
		}
	})
	t.Run("over concurrent", func(t *testing.T) {
		enter, _ := limited(Limits{Concurrent: 1, Total: 2})
		release, _ := enter("")
		for range 10 {
			if _, status := enter("ann"); status != 503 {
				t.Fatalf("a request without a place got %d", status)
			}
		}
		release()
		if _, status := enter("ann"); status != 0 {
			t.Errorf("with a place, it got %d", status)
		}
	})
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
