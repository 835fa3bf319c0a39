package gateway

import (
	"errors"
	"testing"
	"time"
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
