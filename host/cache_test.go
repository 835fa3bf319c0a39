package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
)

// Concurrent requests: decisions.md "Tokens", threats.md 29, 30, 31, 32, 33 and 34.

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

// threats.md 30.
func TestDecision_Tokens_many_requests_at_once_one_exchange(t *testing.T) {
	const callers = 10_000
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *host.Config) { c.Limits.ConcurrentGuests = 4; c.Observe = nil })
		w.canary("s")
		g := newGate(token("t1", 3600))
		w.login.Answer(g.answer)
		c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
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
		w := newWorld(t)
		w.canary("s")
		g := newGate(token("t1", 3600))
		w.login.Answer(g.answer)
		c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
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

// threats.md 34: a connector's Timeout limits its exchanges, whether it is shorter or longer than the host's CallTime.
func TestTimeoutOfAConnector(t *testing.T) {
	for _, timeout := range []time.Duration{2 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(c *host.Config) { c.Limits.CallTime = 7 * time.Second })
			w.canary("s")
			w.login.Answer(newGate(nil).answer)
			c, err := w.host.Connect(t.Context(), host.ConnectorConfig{
				Name: "slow", Origins: []string{"https://api.test"}, Timeout: timeout,
				Auth: host.Auth{Type: "oauth_client_credentials", Config: oauth("{{ get_secret('s') }}")},
			})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			w.refuse(c, get(t.Context()), host.StageToken, "deadline exceeded")
			if took := time.Since(began); took != timeout {
				t.Errorf("it took %v, want %v", took, timeout)
			}
		})
	}
}

// dripping is a body that returns one blank a second until its context ends.
type dripping struct{ ctx context.Context }

func (d *dripping) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		return copy(p, " "), nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

// threats.md 34: the host reads a bounded part of an answer, even if the answer claims to be compressed.
func TestTokenAnswerIsBounded_threats_34(t *testing.T) {
	for _, encoding := range []string{"", "gzip"} {
		w := newWorld(t)
		w.canary("s")
		endless := &counting{Reader: strings.NewReader(strings.Repeat("\x1f\x8b", 5<<20))}
		w.login.Answer(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Accept-Encoding") != "" {
				t.Error("the host asks for compression")
			}
			response, err := status(http.StatusOK)(r)
			response.Header.Set("Content-Encoding", encoding)
			response.Body = endless
			return response, err
		})
		w.refuse(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), get(t.Context()), host.StageToken, "more than 65536 bytes")
		if endless.read > 128<<10 || endless.closed != 1 {
			t.Errorf("%d bytes were read, and the body was closed %d times", endless.read, endless.closed)
		}
	}
}

// counting is a body that counts the bytes read and the calls of Close.
type counting struct {
	io.Reader
	read, closed int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

func (c *counting) Close() error {
	c.closed++
	return nil
}

func TestCloseWaitsForCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.canary("s")
		g := newGate(token("t1", 3600))
		w.login.Answer(g.answer)
		c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
		gone, leave := context.WithCancel(t.Context())
		go func() { _, _ = w.try(c, get(gone)) }()
		synctest.Wait()
		leave() // the call goes on without its caller
		synctest.Wait()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.host.Close(impatient); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close gives %v while a call runs and its own time is over", err)
		}
		closed := make(chan error, 1)
		go func() { closed <- w.host.Close(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Errorf("Close did not wait: %v", err)
		default:
		}
		if err := w.refuse(c, get(t.Context()), host.StagePlugin); !errors.Is(err, host.ErrClosed) {
			t.Errorf("a new request gets %v", err)
		}
		if _, err := c.Explain(get(t.Context())); !errors.Is(err, host.ErrClosed) {
			t.Errorf("Explain gets %v", err)
		}
		if _, err := w.host.Connect(t.Context(), host.ConnectorConfig{Name: "x", Origins: []string{apiOrigin}, Auth: host.Auth{Type: "none"}}); !errors.Is(err, host.ErrClosed) {
			t.Errorf("Connect gets %v", err)
		}
		close(g.open)
		if err := <-closed; err != nil {
			t.Errorf("Close gives %v", err)
		}
	})
}

// A run that ends to wait for an entry has no effect: its cache_set would otherwise take effect twice.
func TestRestartedCallHasHadNoEffect(t *testing.T) {
	w := misusedWorld(t, func(env abi.Env) (string, error) {
		count, _ := env.CacheGet("count")
		env.CacheSet("count", count+"x", 60)
		if _, found := env.CacheGet("other"); !found {
			env.CacheSet("other", "there", 60)
		}
		return header("X-Key", value(env, "to_header")+count), nil
	})
	c := w.connect("custom", misused)
	for _, want := range []string{"", "x", "xx", "xxx"} {
		if got := strings.TrimPrefix(w.get(c).Header.Get("X-Key"), w.secrets["s"]); got != want {
			t.Errorf("the count is %q, want %q", got, want)
		}
	}
}

// Observe counts the token requests that were sent, not those that were refused.
func TestObserveCountsWhatWasSent(t *testing.T) {
	for name, c := range map[string]struct {
		guest     func(abi.Env) (string, error)
		exchanges int
	}{
		"more than are allowed": {func(env abi.Env) (string, error) {
			for range 9 {
				if out, err := tokenRequest(env, value(env, "url")); err != nil {
					return out, err
				}
			}
			return header("X-Key", value(env, "to_header")), nil
		}, 4},
		"another place": {func(env abi.Env) (string, error) { return tokenRequest(env, "https://other.test/token") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := misusedWorld(t, c.guest)
			w.refuse(w.connect("custom", misused), get(t.Context()), host.StagePlugin)
			if got := w.calls[0].Exchanges; got != c.exchanges || w.login.Count() != c.exchanges {
				t.Errorf("%d are observed and %d were sent, want %d", got, w.login.Count(), c.exchanges)
			}
		})
	}
}

// A call that waited for one entry, and then long for a second one, does not use the first if it has expired meanwhile.
func TestWaitedEntryIsNotUsedPastItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := make(chan struct{}), make(chan struct{})
		made := 0
		w := misusedWorld(t, func(env abi.Env) (string, error) {
			one, found := env.CacheGet("one")
			if !found {
				<-first
				made++
				one = fmt.Sprint("one-", made)
				env.CacheSet("one", one, 10)
			}
			two, found := env.CacheGet("two")
			if !found {
				<-second
				two = " two"
				env.CacheSet("two", two, 36000)
			}
			return marshal(abi.Mutation{Headers: []abi.Pair{{Name: "X-Key", Value: value(env, "to_header")}, {Name: "X-Entries", Value: one + two}}}), nil
		})
		for _, name := range []string{"s", "k", "text"} {
			w.canary(name)
		}
		c := w.connect("custom", misused)
		var all sync.WaitGroup
		for range 3 { // one call makes the first entry, one makes the second, and one waits for both
			all.Go(func() { _, _ = w.try(c, get(t.Context())) })
			synctest.Wait()
		}
		first <- struct{}{}
		synctest.Wait()
		w.Advance(2 * time.Hour)
		close(second)
		synctest.Wait()
		close(first)
		all.Wait()
		if got := w.api.Last().Header.Get("X-Entries"); w.api.Count() != 3 || got != "one-2 two" {
			t.Errorf("%d requests were sent, the last with %q", w.api.Count(), got)
		}
	})
}
