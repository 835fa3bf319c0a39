package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
)

// threats.md 29: if any one part of a partition changes, the cache misses. Variables and the plugin's digest are the
// same in the whole host; TestPartitionHasDigestVariablesAndSalt changes them.
func TestDecision_Tokens_whose_token(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Variables = map[string]string{"v": "1"} })
	same := w.secrets["s"]
	w.setSecret("s2", same)
	w.login.Answer(tokens(3600))
	base := w.connectAs("crm", "oauth_client_credentials", everyone("s"))
	user := host.User{ID: "1", Email: "e", Username: "n", FirstName: "f", LastName: "l", TenantID: "t"}
	as := func(change func(*host.User)) *http.Request {
		u := user
		change(&u)
		return get(host.WithUser(t.Context(), u))
	}
	nobodyElse := func(*host.User) {}
	w.send(base, as(nobodyElse))
	for _, c := range []struct {
		name      string
		connector *host.Connector
		request   *http.Request
	}{
		{"connector", w.connectAs("crm2", "oauth_client_credentials", everyone("s")), as(nobodyElse)},
		{"type", w.connectAs("crm", "oauth_jwt_bearer", with(bearer("{{ get_secret('s') }}"), "client_id", everyone("s")["client_id"])), as(nobodyElse)},
		{"configuration: a field", w.connectAs("crm", "oauth_client_credentials", with(everyone("s"), "scope", "x")), as(nobodyElse)},
		{"configuration: a secret of the same value", w.connectAs("crm", "oauth_client_credentials", everyone("s2")), as(nobodyElse)},
		{"user.id", base, as(func(u *host.User) { u.ID = "2" })},
		{"user.email", base, as(func(u *host.User) { u.Email = "e2" })},
		{"user.username", base, as(func(u *host.User) { u.Username = "n2" })},
		{"user.first_name", base, as(func(u *host.User) { u.FirstName = "f2" })},
		{"user.last_name", base, as(func(u *host.User) { u.LastName = "l2" })},
		{"tenant_id", base, as(func(u *host.User) { u.TenantID = "t2" })},
		{"two fields that together read the same", base, as(func(u *host.User) { u.Email, u.FirstName = "ef", "" })},
		{"two fields exchanged", base, as(func(u *host.User) { u.FirstName, u.LastName = "l", "f" })},
		{"no user", base, get(t.Context())},
	} {
		before := w.login.Count()
		w.send(c.connector, c.request.Clone(c.request.Context()))
		if n := w.login.Count() - before; n != 1 {
			t.Errorf("%s: %d exchanges, want a miss", c.name, n)
		}
		w.send(c.connector, c.request)
		if n := w.login.Count() - before; n != 1 {
			t.Errorf("%s: %d exchanges, want its own entry to be there", c.name, n)
		}
		if got := w.send(base, as(nobodyElse)).Header.Get("Authorization"); got != "Bearer t1" {
			t.Errorf("after %s the first entry results in %q", c.name, got)
		}
	}
	old := w.login.Count()
	w.canary("s") // rotates the secret
	if w.send(base, as(nobodyElse)); w.login.Count() != old+1 {
		t.Error("a new value of the secret met a token of the old one")
	}
	w.setSecret("s", same)
	if got := w.send(base, as(nobodyElse)).Header.Get("Authorization"); got != "Bearer t1" {
		t.Errorf("with the old value back: %q", got)
	}
	// A second connector with the same configuration has the same entries.
	w.send(w.connectAs("crm", "oauth_client_credentials", everyone("s")), as(nobodyElse))
	if w.login.Count() != old+1 {
		t.Error("a connector that was loaded again met none of its tokens")
	}
}

// gate holds token requests until it is opened.
type gate struct {
	open   chan struct{}
	behind answer
}

func newGate(a answer) *gate { return &gate{make(chan struct{}), a} }

func (g *gate) answer(r *http.Request) (*http.Response, error) {
	select {
	case <-g.open:
		return g.behind(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// gatedWorld returns a world with a connector whose token endpoint answers with t1, once the gate is open.
func gatedWorld(t *testing.T, change ...func(*host.Config)) (*world, *host.Connector, *gate) {
	t.Helper()
	g := newGate(token("t1", 3600))
	w, c := tokenWorld(t, g.answer, change...)
	return w, c, g
}

// threats.md 30.
func TestDecision_Tokens_many_requests_at_once_one_exchange(t *testing.T) {
	const callers = 10_000
	synctest.Test(t, func(t *testing.T) {
		w, c, g := gatedWorld(t, func(c *host.Config) { c.Limits.ConcurrentGuests = 4; c.Observe = nil })
		var before, during runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var all sync.WaitGroup
		var failed atomic.Int32
		for range callers {
			all.Go(func() {
				if _, err := w.try(c, get(t.Context())); err != nil {
					failed.Add(1)
				}
			})
		}
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&during)
		goroutines := runtime.NumGoroutine()
		if w.login.Count() != 1 || w.api.Count() != 0 {
			t.Errorf("%d exchanges and %d requests while all wait", w.login.Count(), w.api.Count())
		}
		// A guest of this type has 128 KiB of memory, so 10,000 guests would take more than a gigabyte.
		if growth := int64(during.HeapAlloc) - int64(before.HeapAlloc); growth > callers*16<<10 {
			t.Errorf("%d bytes for each caller that waits", growth/callers)
		}
		if goroutines > callers+100 {
			t.Errorf("%d goroutines for %d callers", goroutines, callers)
		}
		close(g.open)
		all.Wait()
		if w.login.Count() != 1 || w.api.Count() != callers || failed.Load() != 0 {
			t.Errorf("%d exchanges, %d requests, %d failures", w.login.Count(), w.api.Count(), failed.Load())
		}
		for _, r := range w.api.Received() {
			if r.Header.Get("Authorization") != "Bearer t1" {
				t.Fatal("a request has another token")
			}
		}
	})
}

func TestDecision_Tokens_many_requests_at_once_one_exchange_for_each_entry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g := newGate(tokens(3600))
		w.login.Answer(g.answer)
		c := w.connect("oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "client_id", "{{ user.id }}"))
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if _, err := w.try(c, get(host.WithUser(t.Context(), host.User{ID: fmt.Sprint(i % 10)}))); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(g.open)
		all.Wait()
		if w.login.Count() != 10 {
			t.Errorf("%d exchanges for 10 users", w.login.Count())
		}
	})
}

// threats.md 31.
func TestDecision_Tokens_the_caller_that_began_goes_away(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, g := gatedWorld(t)
		first, leave := context.WithCancel(t.Context())
		result := w.background(c, get(first))
		synctest.Wait()
		stayed := w.background(c, get(t.Context()))
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.try(c, get(impatient)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one who waits gets %v when its time is over", err)
		}
		leave()
		var failure *host.Error
		if err := <-result; !errors.Is(err, context.Canceled) || !errors.As(err, &failure) || failure.Stage != host.StageToken {
			t.Errorf("the caller that went away got %v", err)
		}
		synctest.Wait()
		close(g.open)
		if err := <-stayed; err != nil {
			t.Errorf("the other one got %v", err)
		}
		if w.get(c); w.login.Count() != 1 {
			t.Errorf("%d exchanges, want the one that was begun", w.login.Count())
		}
	})
}

// threats.md 34: a slow drip, and an endpoint that never answers.
func TestDecision_Tokens_the_exchange_fails_for_all_who_waited(t *testing.T) {
	drip := func(r *http.Request) (*http.Response, error) {
		response, err := status(http.StatusOK)(r)
		response.Body = io.NopCloser(&dripping{r.Context()})
		return response, err
	}
	for name, login := range map[string]answer{"no answer": newGate(nil).answer, "slow drip": drip} {
		bubble(t, name, func(t *testing.T) {
			// The gate's channel must be made in this bubble.
			if name == "no answer" {
				login = newGate(nil).answer
			}
			w := newWorld(t, func(c *host.Config) { c.Limits.CallTime = 7 * time.Second })
			w.login.Answer(login)
			c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
			began := time.Now()
			errs := make(chan error, 20)
			for range cap(errs) {
				go func() {
					_, err := w.try(c, get(t.Context()))
					errs <- err
				}()
			}
			for range cap(errs) {
				var failure *host.Error
				if err := <-errs; !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &failure) || failure.Stage != host.StageToken {
					t.Errorf("one who waited got %v", err)
				}
			}
			if took := time.Since(began); took != 7*time.Second || w.login.Count() != 1 {
				t.Errorf("it took %v and %d exchanges", took, w.login.Count())
			}
			w.login.Answer(token("t1", 3600))
			w.get(c) // threats.md 32: the next request asks again
		})
	}
}

// generations returns a function that makes a new host on each call, in a world of its own. All these hosts share one
// token cache.
func generations(t *testing.T) (next func(t *testing.T, change ...func(*host.Config)) *world) {
	t.Helper()
	clock := func() time.Time { return start }
	var previous *host.Host
	return func(t *testing.T, change ...func(*host.Config)) *world {
		t.Helper()
		w := newWorld(t, append(change, func(c *host.Config) { c.Previous, c.Clock = previous, clock })...)
		previous = w.host
		w.setSecret("s", "the-same-in-all-of-them")
		return w
	}
}

// threats.md 64: an unchanged connector of a new host uses the token of the old one. Any other connector requests a
// token of its own.
func TestTokensOutliveTheirHost(t *testing.T) {
	next := generations(t)
	base := with(oauth("{{ get_secret('s') }}"), "client_id", "{{ get_variable('v') }}")
	first := next(t, func(c *host.Config) { c.Variables = map[string]string{"v": "1"} })
	first.get(first.connect("oauth_client_credentials", base))
	check(t, first.host.Close(t.Context()))
	for name, c := range map[string]struct {
		variables map[string]string
		secret    string
		connector string
		config    config
		exchanges int
	}{
		"nothing":            {map[string]string{"v": "1"}, "", "crm", base, 0},
		"what nobody names":  {map[string]string{"v": "1", "w": "1"}, "", "crm", base, 0},
		"a variable":         {map[string]string{"v": "2"}, "", "crm", base, 1},
		"a secret":           {map[string]string{"v": "1"}, "another-value", "crm", base, 1},
		"the connector":      {map[string]string{"v": "1"}, "", "crm2", base, 1},
		"the configuration":  {map[string]string{"v": "1"}, "", "crm", with(base, "scope", "x"), 1},
		"where tokens are":   {map[string]string{"v": "1"}, "", "crm", with(base, "token_url", "https://login.test/other"), 1},
		"the cache's limits": {map[string]string{"v": "1"}, "", "crm", base, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := next(t, func(h *host.Config) {
				h.Variables = c.variables
				if name == "the cache's limits" {
					h.Limits.CachePerPartition = 1
				}
			})
			w.login.Answer(token("t2", 3600))
			if c.secret != "" {
				w.setSecret("s", c.secret)
			}
			sent := w.get(w.connectAs(c.connector, "oauth_client_credentials", c.config))
			want := map[int]string{0: "Bearer t1", 1: "Bearer t2"}[c.exchanges]
			if got := sent.Header.Get("Authorization"); w.login.Count() != c.exchanges || got != want {
				t.Errorf("%d exchanges and %s, want %d and %s", w.login.Count(), got, c.exchanges, want)
			}
		})
	}
}

// threats.md 30 and 64: callers of the next host get the token of an exchange that the previous host began, even while
// the previous host closes.
func TestAnExchangeInFlightServesTheNextHost(t *testing.T) {
	for name, fails := range map[string]bool{"it succeeds": false, "it fails": true} {
		bubble(t, name, func(t *testing.T) {
			next := generations(t)
			before, after := next(t), next(t)
			g := newGate(token("t1", 3600))
			if fails {
				g.behind = status(http.StatusInternalServerError)
			}
			before.login.Answer(g.answer)
			after.login.Answer(token("t2", 3600))
			c := oauth("{{ get_secret('s') }}")
			one, other := before.connect("oauth_client_credentials", c), after.connect("oauth_client_credentials", c)
			answers := make(chan error, 2)
			go func() { _, err := before.try(one, get(t.Context())); answers <- err }()
			synctest.Wait()
			go func() { _, err := after.try(other, get(t.Context())); answers <- err }()
			synctest.Wait()
			closed := make(chan error, 1)
			go func() { closed <- before.host.Close(context.Background()) }()
			synctest.Wait()
			close(g.open)
			for range 2 {
				if err := <-answers; (err != nil) != fails {
					t.Errorf("a caller got %v", err)
				}
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
			want, exchanges := "Bearer t1", 0
			if fails { // the next request asks again
				want, exchanges = "Bearer t2", 1
			}
			if got := after.get(other).Header.Get("Authorization"); got != want || after.login.Count() != exchanges {
				t.Errorf("%s after %d exchanges of the next host, want %s after %d", got, after.login.Count(), want, exchanges)
			}
		})
	}
}

// threats.md 35 and 64: reading the configuration again does not allow more token requests after 401s.
func TestThePaceOf401sOutlivesTheHost(t *testing.T) {
	next := generations(t)
	exchanges := 0
	for range 3 {
		w := next(t)
		w.api.Answer(status(http.StatusUnauthorized))
		c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
		for range 3 {
			if got, err := w.try(c, get(t.Context())); got != http.StatusUnauthorized || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		}
		exchanges += w.login.Count()
	}
	if exchanges != 2 {
		t.Errorf("%d exchanges, want one and another one after the first 401", exchanges)
	}
}

func TestNewWithoutRandomness(t *testing.T) {
	if _, err := host.New(t.Context(), host.Config{Random: iotest.ErrReader(io.EOF), BuiltIns: []host.Plugin{}}); err == nil {
		t.Error("a host was made without randomness")
	}
}
