package fairqueue

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// inPlace is work that has a place.
type inPlace struct {
	owner string
	leave func()
}

// queue calls Enter for the owners in this order. It returns a channel of those that got a place.
func queue(q *Queue, owners ...string) <-chan inPlace {
	entered := make(chan inPlace, len(owners))
	for _, owner := range owners {
		go func() {
			if leave, err := q.Enter(context.Background(), time.Hour, strings.Fields(owner)...); err == nil {
				entered <- inPlace{owner, leave}
			}
		}()
		synctest.Wait()
	}
	return entered
}

// steps runs work of the owners, which come in this order. Each step has the owner whose work is done, and who enters then.
func steps(t *testing.T, q *Queue, come []string, first string, all []step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		places := q.free
		entered := queue(q, come...)
		var inside []inPlace
		next := func() string {
			synctest.Wait()
			select {
			case work := <-entered:
				inside = append(inside, work)
				return work.owner
			default:
				return ""
			}
		}
		got := ""
		for more := next(); more != ""; more = next() {
			got += more
		}
		if got != first {
			t.Errorf("at first, there are %s, want %s", got, first)
		}
		for _, step := range all {
			i := slices.IndexFunc(inside, func(work inPlace) bool { return work.owner == step.leaves })
			if i < 0 {
				t.Fatalf("nothing of %s is done", step.leaves)
			}
			inside[i].leave()
			inside = slices.Delete(inside, i, i+1)
			if got := next(); got != step.enters {
				t.Errorf("when work of %s is done, %q enters, want %q", step.leaves, got, step.enters)
			}
		}
		if q.free != places || len(q.owners)+len(q.lines) > 0 {
			t.Errorf("at the end, %d places are free and there are %d owners", q.free, len(q.owners))
		}
	})
}

type step struct{ leaves, enters string }

// threats.md 58: an owner has at most its share of the places, a free place goes to the owner with the fewest, and the last quarter
// to owners without one.
func TestSharedPlaces(t *testing.T) {
	steps(t, New(4, 0), []string{"a", "a", "a", "b", "b", "b", "c", "a", "c"}, "aabc", []step{
		{"a", ""}, // the last place is for an owner without one
		{"a", "a"},
		{"b", "b"},
		{"c", "c"},
		{"a", "a"},
		{"b", "b"},
		{"c", ""},
		{"a", ""},
		{"b", ""},
	})
}

// A place counts for each owner of its work. threats.md 330
func TestAPlaceHasSeveralOwners_threats_330(t *testing.T) {
	steps(t, New(4, 0), []string{"one a", "one b", "one c", "two d", "one d"}, "one aone btwo d", []step{
		{"two d", ""}, // one has its share
		{"one a", "one c"}, {"one b", "one d"}, {"one c", ""}, {"one d", ""},
	})
	steps(t, New(8, 0), []string{"one a", "one a", "one a", "one b"}, "one aone aone b", []step{ // a has half of the share of one
		{"one b", ""}, {"one a", "one a"}, {"one a", ""}, {"one a", ""},
	})
}

// Where the first owner has all of its share, a place that becomes free goes to the waiter whose last owner has the fewest. threats.md 532
func TestFairnessBelowAShare_threats_532(t *testing.T) {
	steps(t, New(8, 0), []string{"one a", "one a", "one b", "one b", "one a", "one b", "one c"}, "one aone aone bone b", []step{
		{"one a", "one c"}, {"one b", "one a"}, {"one c", "one b"}, {"one a", ""}, {"one a", ""}, {"one b", ""}, {"one b", ""},
	})
}

// Who does not wait gets a place only if one is free. threats.md 330
func TestTry_threats_330(t *testing.T) {
	q := New(4, 0)
	var all []func()
	for _, tt := range []struct {
		owner string
		want  bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"b", false}, {"c", true}, {"d", false}} {
		leave, got := q.Try(tt.owner)
		if got != tt.want {
			t.Errorf("%s has a place: %t", tt.owner, got)
		}
		if got {
			all = append(all, leave)
		}
	}
	for _, leave := range all {
		leave()
	}
	if q.free != 4 || len(q.owners)+len(q.lines) > 0 {
		t.Errorf("%d places are free", q.free)
	}
}

// A waiter whose patience or context has ended gets no place, and takes none from others.
func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(4, 0)
		for range q.Share() {
			testworld.Must(q.Enter(t.Context(), time.Hour, "a"))(t)
		}
		began := time.Now()
		if _, err := q.Enter(t.Context(), 3*time.Second, "a"); !errors.Is(err, ErrNone) || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		left := errors.New("the caller left")
		gone, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(left) })
		if _, err := q.Enter(gone, time.Hour, "a"); !errors.Is(err, left) {
			t.Errorf("got %v", err)
		}
		if inside := q.owners["a"].inside; len(q.lines) > 0 || inside != q.Share() || q.free != 2 {
			t.Errorf("%d lines wait that are gone, %d are inside, %d places are free", len(q.lines), inside, q.free)
		}
	})
}

// A waiter that stops waiting leaves the line. The other waiters of its owner stay.
func TestWhoGivesUpLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(2, 0) // the share is one place
		leave := testworld.Must(q.Enter(t.Context(), time.Hour, "a"))(t)
		entered := queue(q, "a")
		if _, err := q.Enter(t.Context(), time.Second, "a"); !errors.Is(err, ErrNone) {
			t.Errorf("the one behind gets %v", err)
		}
		leave()
		synctest.Wait()
		select {
		case first := <-entered:
			first.leave()
		default:
			t.Error("the one who still waits gets no place")
		}
		if q.free != 2 || len(q.owners)+len(q.lines) != 0 {
			t.Errorf("%d places are free, %d lines are left", q.free, len(q.owners))
		}
	})
}

// A share is half of the places, but at least one.
func TestShare(t *testing.T) {
	for all, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 128: 64} {
		if got := New(all, 0).Share(); got != want {
			t.Errorf("of %d places, %d are a share", all, got)
		}
	}
}

// The number of free places is right after any concurrent calls.
func TestPlaceCount(t *testing.T) {
	q := New(4, 0)
	all := q.free
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%3 == 0 {
				go cancel()
			}
			defer cancel()
			if leave, err := q.Enter(ctx, time.Hour, string(rune('a'+i%5))); err == nil {
				leave()
			}
		})
	}
	group.Wait()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 200 { // the context has ended already, so that Enter may get a place and return it
		if leave, err := q.Enter(gone, time.Hour, "gone"); err == nil {
			leave()
		}
	}
	if q.free != all || len(q.owners)+len(q.lines) > 0 {
		t.Errorf("%d places are free of %d, and there are %d lines", q.free, all, len(q.owners))
	}
}

// An owner has at most as many bytes as remain free, so that two owners leave some to a third (threats.md 58). Bytes
// that an owner has released are free for others.
func TestSharedMemory(t *testing.T) {
	q := New(4, 20)
	var all []func()
	for _, step := range []struct {
		owner string
		bytes int64
		fits  bool
	}{{"a", 6, true}, {"a", 4, true}, {"a", 1, false}, {"b", 6, false}, {"b", 5, true}, {"c", 3, false}, {"c", 2, true}, {"d", 1, true}} {
		release := func() { q.Hold(step.owner, -step.bytes) }
		if got := q.Hold(step.owner, step.bytes); got != step.fits {
			t.Errorf("%d bytes of %s: %v", step.bytes, step.owner, got)
		}
		if all = append(all, release); !step.fits {
			release()
			all = all[:len(all)-1]
		}
	}
	for _, release := range all {
		release()
	}
	if q.bytes != 0 || len(q.owners)+len(q.lines) > 0 {
		t.Errorf("%d bytes are held, in %d lines", q.bytes, len(q.owners))
	}
	if !q.Hold("a", 10) {
		t.Error("what is over still counts")
	}
}

// BenchmarkEnter shows that Enter takes no longer while many owners hold memory, as slow clients do (threats.md 80).
func BenchmarkEnter(b *testing.B) {
	for _, holders := range []int{0, 10_000} {
		b.Run(strconv.Itoa(holders)+" hold memory", func(b *testing.B) {
			q := New(4, 1<<30)
			for i := range holders {
				q.Hold(strconv.Itoa(i), 1)
			}
			for b.Loop() {
				leave := testworld.Must(q.Enter(b.Context(), time.Second, "one more"))(b)
				leave()
			}
		})
	}
}
