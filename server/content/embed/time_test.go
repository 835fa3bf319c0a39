package embed_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// after returns an answer that arrives after d, or fails if the context of the request ends before.
func after(d time.Duration) testworld.Answer {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return reply(200, "application/json", rich("embedded")), nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func urls(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "<p>https://tu.example.net/%d</p>", i)
	}
	return all.String()
}

func TestTimeLimits(t *testing.T) {
	for name, c := range map[string]struct {
		urls, want int
		each, took time.Duration
	}{
		"in time":                        {1, 1, 2 * time.Second, 2 * time.Second},
		"too slow":                       {1, 0, 5 * time.Second, 3 * time.Second},
		"eight at once":                  {8, 8, 2 * time.Second, 2 * time.Second},
		"twenty, in three turns":         {20, 20, time.Second, 3 * time.Second},
		"what is not there after four s": {20, 8, 2500 * time.Millisecond, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newService()
				w.Answer(after(c.each))
				begin := time.Now()
				got := w.resolver(t).Resolve(t.Context(), urls(c.urls))
				if embeds := strings.Count(got, "embedded"); embeds != c.want {
					t.Errorf("%d embeds, not %d", embeds, c.want)
				}
				if stayed := strings.Count(got, "<p>https://"); stayed != c.urls-c.want {
					t.Errorf("%d URLs stayed, not %d", stayed, c.urls-c.want)
				}
				if took := time.Since(begin); took != c.took {
					t.Errorf("it took %s, not %s", took, c.took)
				}
				<-time.After(time.Minute) // until the remaining fetches have ended
			})
		})
	}
}

// An answer whose body arrives too slowly is cut off like one that does not begin.
func TestDrippingAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newService()
		w.Answer(func(r *http.Request) (*http.Response, error) {
			answer := reply(200, "application/json", "")
			answer.Body = &drip{r.Context()}
			return answer, nil
		})
		begin := time.Now()
		if got := w.resolver(t).Resolve(t.Context(), one); got != one || time.Since(begin) != 3*time.Second {
			t.Errorf("after %s it is %s", time.Since(begin), got)
		}
	})
}

type drip struct{ ctx context.Context }

func (d *drip) Read(p []byte) (int, error) {
	select {
	case <-time.After(100 * time.Millisecond):
		return copy(p, " "), nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

func (*drip) Close() error { return nil }

// Concurrent callers of one URL share a fetch, even if the first of them goes away.
func TestConcurrentCallersShareAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newService()
		w.Answer(after(2 * time.Second))
		r := w.resolver(t)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if got := r.Resolve(ctx, one); got != one {
				t.Errorf("who went away got %s", got)
			}
		})
		synctest.Wait()
		var embeds atomic.Int64
		for range 100 {
			all.Go(func() {
				if strings.Contains(r.Resolve(t.Context(), one), "embedded") {
					embeds.Add(1)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		if embeds.Load() != 100 || w.Count() != 1 {
			t.Errorf("%d embeds of %d requests, want 100 of one", embeds.Load(), w.Count())
		}
	})
}

// A fetch fills the cache even if all of its callers have gone away.
func TestAFetchGoesOnWithoutItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newService()
		w.Answer(after(2 * time.Second))
		r := w.resolver(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := r.Resolve(ctx, one); got != one {
			t.Errorf("got %s", got)
		}
		<-time.After(2 * time.Second)
		if got := r.Resolve(t.Context(), one); !strings.Contains(got, "embedded") || w.Count() != 1 {
			t.Errorf("after %d requests it is %s", w.Count(), got)
		}
	})
}

// If the caller has already gone away, no provider is asked, and the body is sanitised all the same.
func TestDisconnectedCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newService()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		got := w.resolver(t).Resolve(ctx, one+"<script>x</script>")
		synctest.Wait()
		if got != one || w.Count() != 0 {
			t.Errorf("after %d requests it is %s", w.Count(), got)
		}
	})
}

// At most 64 fetches of all documents run at once. A fetch that did not get its turn in time is not cached as a failure.
func TestTotalFetchBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newService()
		var mu sync.Mutex
		running, most := 0, 0
		w.Answer(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			defer func() {
				mu.Lock()
				running--
				mu.Unlock()
			}()
			return after(time.Hour)(r)
		})
		r := w.resolver(t)
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() { r.Resolve(t.Context(), fmt.Sprintf("https://tu.example.net/%d", i)) })
		}
		all.Wait()
		if most != 64 {
			t.Errorf("%d ran at once, not 64", most)
		}
		asked := w.Count()
		w.Answer(after(0))
		embeds := 0
		for i := range 100 {
			if strings.Contains(r.Resolve(t.Context(), fmt.Sprintf("https://tu.example.net/%d", i)), "embedded") {
				embeds++
			}
		}
		if embeds != 100-asked {
			t.Errorf("%d are embedded later, of %d that were never asked for", embeds, 100-asked)
		}
	})
}

func TestAnswerLifetime(t *testing.T) {
	const failed = `{"type":"link"}`
	for name, c := range map[string]struct {
		answer string
		kept   time.Duration
	}{
		"without an age": {`{"type":"rich","html":"x"}`, time.Hour},
		"an age":         {`{"type":"rich","html":"x","cache_age":7200}`, 2 * time.Hour},
		"a text":         {`{"type":"rich","html":"x","cache_age":"7200"}`, 2 * time.Hour},
		"short":          {`{"type":"rich","html":"x","cache_age":1}`, 5 * time.Minute},
		"long":           {`{"type":"rich","html":"x","cache_age":31536000}`, 24 * time.Hour},
		"absurd":         {`{"type":"rich","html":"x","cache_age":9223372036854775807}`, 24 * time.Hour},
		"more than that": {`{"type":"rich","html":"x","cache_age":92233720368547758070}`, time.Hour},
		"negative":       {`{"type":"rich","html":"x","cache_age":-5}`, time.Hour},
		"none":           {`{"type":"rich","html":"x","cache_age":0}`, time.Hour},
		"a failure":      {failed, time.Minute},
		"a long failure": {`{"type":"link","cache_age":7200}`, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := newService()
			w.says(c.answer)
			r := w.resolver(t)
			for i, step := range []time.Duration{0, c.kept - 1, 1} {
				w.Advance(step)
				r.Resolve(t.Context(), one)
				if want := []int{1, 1, 2}[i]; w.Count() != want {
					t.Errorf("%d requests, not %d, after step %d", w.Count(), want, i)
				}
			}
			w.Advance(-time.Second)
			if r.Resolve(t.Context(), one); w.Count() != 3 {
				t.Error("an answer of the future is used, when the clock was set back")
			}
		})
	}
}
