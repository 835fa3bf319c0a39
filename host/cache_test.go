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
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
)

// Concurrent requests: specification.md "Access tokens", threats.md 29, 30, 31, 32, 33 and 34.

// everyone returns a configuration that names everything that a template can name.
func everyone(secret string) config {
	return with(oauth("{{ get_secret('"+secret+"') }}"), "client_id",
		"{{ get_variable('v') }} {{ default(user.email, '-') }} {{ default(user.id, '-') }} {{ default(user.username, '-') }} "+
			"{{ default(user.first_name, '-') }} {{ default(user.last_name, '-') }} {{ default(tenant_id, '-') }}")
}

// threats.md 29: if any one part of a partition changes, the cache misses. Variables and the plugin's digest are the
// same in the whole host; partition_test.go changes them.
func TestDecision_Tokens_whose_token(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Variables = map[string]string{"v": "1"} })
	w.canary("s")
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
			t.Errorf("after %s the first entry gives %q", c.name, got)
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
	w := newWorld(t, change...)
	w.canary("s")
	g := newGate(token("t1", 3600))
	w.login.Answer(g.answer)
	return w, w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), g
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
		if held := int64(during.HeapAlloc) - int64(before.HeapAlloc); held > callers*16<<10 {
			t.Errorf("%d bytes for each caller that waits", held/callers)
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
		w.canary("s")
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
		left := make(chan error, 1)
		go func() {
			_, err := w.try(c, get(first))
			left <- err
		}()
		synctest.Wait()
		stayed := make(chan error, 1)
		go func() {
			_, err := w.try(c, get(t.Context()))
			stayed <- err
		}()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.try(c, get(impatient)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one who waits gets %v when its time is over", err)
		}
		leave()
		var failure *host.Error
		if err := <-left; !errors.Is(err, context.Canceled) || !errors.As(err, &failure) || failure.Stage != host.StageToken {
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The gate's channel must be made in this bubble.
				if name == "no answer" {
					login = newGate(nil).answer
				}
				w := newWorld(t, func(c *host.Config) { c.Limits.CallTime = 7 * time.Second })
				w.canary("s")
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
		})
	}
}
