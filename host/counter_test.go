//go:build !race

package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/contract"
)

// rising returns a guest that sends a number, of which floor is the floor, with a secret.
func rising(floor func() int64, prepare func(contract.Env)) *guest {
	g := &guest{about: abi.Description{
		Uses: []string{contract.GroupTurn, contract.GroupCache, contract.GroupBody}, Fields: []abi.Field{sealedField("value", contract.SinkHeader)},
		Challenge: &abi.Challenge{Statuses: []int{http.StatusConflict}},
	}}
	g.authenticate = func(env contract.Env) (string, error) {
		if prepare != nil {
			prepare(env)
		}
		n := env.Counter(floor())
		env.Input()
		return header("Authorization", "Count "+value(env, "value")+" "+strconv.FormatInt(n, 10)), nil
	}
	return g
}

func nothing() int64 { return 0 }

// number returns the number of a request.
func number(t *testing.T, r sent) int64 {
	t.Helper()
	fields := strings.Fields(r.Header.Get("Authorization"))
	return must(strconv.ParseInt(fields[len(fields)-1], 10, 64))(t)
}

var secretValue = config{"value": "{{ get_secret('s') }}"}

// Numbers rise, and are not below the floor. The second attempt of a request has the next one, and a request without one skips it.
func TestNumbersRise(t *testing.T) {
	floor := int64(0)
	w := newWorld(t, withoutBuiltIns, withGuest(rising(func() int64 { return floor }, nil)))
	c := w.connect("custom", secretValue)
	for _, step := range []struct{ floor, want int64 }{{0, 1}, {0, 3}, {-5, 5}, {7, 7}, {1000, 1000}, {7, 1002}, {math.MaxInt64, 1 << 62}, {0, 1<<62 + 2}} {
		floor = step.floor
		if got := number(t, w.get(c)); got != step.want {
			t.Errorf("with the floor %d: %d, want %d", step.floor, got, step.want)
		}
	}
	w.api.Answer(status(http.StatusConflict))
	w.get(c)
	if got := number(t, w.api.Last()); got != 1<<62+5 {
		t.Errorf("the second attempt has %d", got)
	}
	if number(t, w.get(w.connectAs("other", "custom", secretValue))) != 2 {
		t.Error("another connector goes on with the numbers of the first")
	}
}

// The requests of a partition go one at a time, in the order in which they came, and 128 wait at most. Those of others go on.
// threats.md 500
func TestTurns(t *testing.T) {
	bubble(t, "turns", func(t *testing.T) {
		w := newWorld(t, withoutBuiltIns, withGuest(rising(nothing, nil)))
		c := w.connect("custom", secretValue)
		next := make(chan bool)
		w.api.Answer(func(r *http.Request) (*http.Response, error) {
			<-next
			return status(http.StatusOK)(r)
		})
		all := make([]<-chan error, 130)
		for i := range all {
			r := get(t.Context())
			r.Header.Set("X-Request", strconv.Itoa(i))
			all[i] = w.background(c, r)
			synctest.Wait()
		}
		var failed *host.Error
		if err := <-all[129]; !errors.Is(err, host.ErrBusy) || !errors.As(err, &failed) || failed.Stage != host.StageSign || !failed.Retryable() {
			t.Errorf("with 128 that wait: %v", err)
		}
		neighbour := w.background(w.connectAs("other", "custom", secretValue), get(t.Context()))
		synctest.Wait()
		if n := w.api.Count(); n != 2 {
			t.Errorf("%d requests are at the API", n)
		}
		for range 130 {
			next <- true
			synctest.Wait()
		}
		check(t, <-neighbour)
		for i := range 129 {
			check(t, <-all[i])
		}
		i, last := 0, int64(0)
		for _, r := range w.api.Received() {
			if r.Header.Get("X-Request") == "" {
				continue
			}
			if n := number(t, r); r.Header.Get("X-Request") != strconv.Itoa(i) || n <= last {
				t.Errorf("request %d is %s, with the number %d after %d", i, r.Header.Get("X-Request"), n, last)
			} else {
				i, last = i+1, n
			}
		}
	})
}

// A request that waits for longer than the time of a call fails, and so does one whose caller goes away. Neither has a turn.
func TestNoTurn(t *testing.T) {
	bubble(t, "patience", func(t *testing.T) {
		w := newWorld(t, withoutBuiltIns, withGuest(rising(nothing, nil)))
		c := w.connect("custom", secretValue)
		ctx, cancel := context.WithCancel(t.Context())
		w.api.Answer(silent)
		first := w.background(c, get(ctx))
		synctest.Wait()
		caller, leave := context.WithCancel(t.Context())
		second, third := w.background(c, get(caller)), w.background(c, get(t.Context()))
		synctest.Wait()
		leave()
		if err := <-second; !errors.Is(err, context.Canceled) || errors.Is(err, host.ErrBusy) {
			t.Errorf("the one that went away got %v", err)
		}
		if err := <-third; !errors.Is(err, host.ErrBusy) {
			t.Errorf("the one that waited got %v", err)
		}
		cancel()
		<-first
		w.api.Answer(status(http.StatusOK))
		if n := number(t, w.get(c)); n != 3 {
			t.Errorf("the next has %d", n)
		}
	})
}

// However a request ends, its turn ends with it. threats.md 501
func TestEndOfTurn(t *testing.T) {
	fails := false
	g := rising(nothing, nil)
	takes := g.authenticate
	g.authenticate = func(env contract.Env) (string, error) {
		out, err := takes(env)
		if fails {
			return "", errors.New("the guest fails")
		}
		return out, err
	}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	c := w.connect("custom", secretValue)
	last := int64(0)
	for name, end := range map[string]func(){
		"an error of the API": func() {
			w.api.Answer(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") })
			_, _ = w.try(c, get(t.Context()))
		},
		"a panic of the transport": func() {
			defer func() { _ = recover() }()
			panics := answer(func(*http.Request) (*http.Response, error) { panic("of a test") })
			_, _ = c.Transport(panics).RoundTrip(get(t.Context())) //nolint:bodyclose // there is none
		},
		"an error of the guest": func() {
			fails = true
			_, _ = w.try(c, get(t.Context()))
			fails = false
		},
		"a body that fails": func() {
			r := get(t.Context())
			r.Method, r.Body = http.MethodPost, io.NopCloser(io.MultiReader(strings.NewReader("a"), failingReader{}))
			_, _ = w.try(c, r)
		},
		"a request that somebody else sends": func() { _, _ = c.Authenticate(get(t.Context())) },
		"an answer whose body is not read": func() {
			w.api.Answer(status(http.StatusOK))
			response := must(c.Transport(nil).RoundTrip(get(t.Context())))(t)
			t.Cleanup(func() { _ = response.Body.Close() })
		},
		"a second attempt": func() {
			w.api.Answer(status(http.StatusConflict))
			_, _ = w.try(c, get(t.Context()))
		},
	} {
		end()
		w.api.Answer(status(http.StatusOK))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		response, err := c.Transport(nil).RoundTrip(get(ctx))
		cancel()
		if err != nil {
			t.Errorf("after %s: %v", name, err)
			continue
		}
		_ = response.Body.Close()
		n := number(t, w.api.Last())
		if n <= last {
			t.Errorf("after %s: %d, and it was %d before", name, n, last)
		}
		last = n
	}
}

// A turn that a panic of the store ends is over. threats.md 501
func TestEndOfTurnByPanic(t *testing.T) {
	panics := false
	store := &failingStore{Store: state.NewMemory(time.Now)}
	store.got = func(row state.Row) state.Row {
		if panics {
			panic("of a test")
		}
		return row
	}
	w := newWorld(t, withoutBuiltIns, withGuest(rising(nothing, nil)), withState(t, store))
	c := w.connect("custom", secretValue)
	number(t, w.get(c)) // so that there is a row
	panics = true
	func() {
		defer func() { _ = recover() }()
		_, _ = w.try(c, get(t.Context()))
		t.Error("the store did not panic")
	}()
	panics = false
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if code, err := w.try(c, get(ctx)); err != nil || code != http.StatusOK {
		t.Errorf("the next request got %d, %v", code, err)
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("the caller broke off") }

// A caller that sends its body slowly has no turn meanwhile. threats.md 502
func TestSlowCaller(t *testing.T) {
	bubble(t, "slow", func(t *testing.T) {
		w := newWorld(t, withoutBuiltIns, withGuest(rising(nothing, nil)))
		c := w.connect("custom", secretValue)
		body, sender := io.Pipe()
		r := get(t.Context())
		r.Method, r.Body = http.MethodPost, body
		slow := w.background(c, r)
		synctest.Wait()
		if n := number(t, w.get(c)); n != 1 {
			t.Errorf("the fast one has %d", n)
		}
		_, _ = io.WriteString(sender, "the body")
		_ = sender.Close()
		check(t, <-slow)
		if got := w.api.Last(); number(t, got) != 3 || got.Body != "the body" {
			t.Errorf("the slow one has %d and %q", number(t, got), got.Body)
		}
	})
}

// A plugin calls counter before it reads the request, and once. threats.md 503
func TestCounterRules(t *testing.T) {
	for name, test := range map[string]struct {
		uses    string
		prepare func(contract.Env)
		words   string
	}{
		"after the request is read": {contract.GroupTurn, func(e contract.Env) { e.Input() }, "after the request was read"},
		"after a template":          {contract.GroupTurn, func(e contract.Env) { e.Compose("{path}", nil) }, "after the request was read"},
		"twice":                     {contract.GroupTurn, func(e contract.Env) { e.Counter(0) }, "called twice"},
		"without its group":         {contract.GroupSign, nil, `does not name "turn" in uses`},
	} {
		g := rising(nothing, test.prepare)
		g.about.Uses = []string{test.uses}
		w := newWorld(t, withoutBuiltIns, withGuest(g))
		err := w.refuse(w.connect("custom", secretValue), get(t.Context()), host.StagePlugin, test.words)
		if err.Retryable() {
			t.Errorf("%s: %v may pass", name, err)
		}
	}
}

// What a plugin does once it knows the answer to its request does not show in later numbers: neither whether it takes one, nor its
// floor. threats.md 503
func TestNumbersHideAnswers(t *testing.T) {
	for name, floor := range map[string]int64{"with a floor": 1 << 40, "without": 0} {
		floors := int64(0)
		w := newWorld(t, withoutBuiltIns, withGuest(rising(func() int64 { return floors }, func(env contract.Env) {
			if strings.Contains(string(env.Challenge()), `"status":409`) {
				floors = floor
			}
		})))
		c := w.connect("custom", secretValue)
		w.api.Answer(status(http.StatusConflict))
		w.get(c)
		second := number(t, w.api.Last())
		floors = 0
		w.api.Answer(status(http.StatusOK))
		if next := number(t, w.get(c)); second != 2 || next != 3 {
			t.Errorf("%s: the second attempt has %d, and the next request %d", name, second, next)
		}
	}
	// A plugin that takes a number only in the second attempt does not know the answer then.
	runs := 0
	g := rising(nothing, nil)
	g.authenticate = func(env contract.Env) (string, error) {
		if strings.Contains(string(env.Challenge()), `"status":409`) {
			env.Counter(0)
			runs++
		}
		env.Input()
		return header("Authorization", "Count "+value(env, "value")), nil
	}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	c := w.connect("custom", secretValue)
	w.api.Answer(status(http.StatusConflict))
	w.get(c)
	if n := w.api.Count(); runs != 0 || n != 2 {
		t.Errorf("the plugin had a number and the answer in %d runs, and %d requests were sent", runs, n)
	}
}

// The nodes of a store share turns and numbers: no number is used twice or arrives late. threats.md 504
func TestTurnsOfNodes(t *testing.T) {
	c := newCluster(t, token("t1", 3600))
	const nodes, requests = 3, 20
	worlds, connectors := make([]*world, nodes), make([]*host.Connector, nodes)
	var mu sync.Mutex
	last, refusals := int64(0), 0
	for i := range worlds {
		worlds[i] = c.world(withoutBuiltIns, withGuest(rising(func() int64 { return int64(100 * i) }, nil)))
		worlds[i].canaryOf("s", "the-same-on-all-of-them")
		connectors[i] = worlds[i].connect("custom", secretValue)
		worlds[i].api.Answer(func(r *http.Request) (*http.Response, error) {
			fields := strings.Fields(r.Header.Get("Authorization"))
			n, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || n <= last {
				refusals++
			}
			last = n
			return status(http.StatusOK)(r)
		})
	}
	var all sync.WaitGroup
	for i := range nodes * requests {
		all.Go(func() {
			if code, err := worlds[i%nodes].try(connectors[i%nodes], get(t.Context())); err != nil || code != http.StatusOK {
				t.Errorf("a request got %d, %v", code, err)
			}
		})
	}
	all.Wait()
	if refusals > 0 || last < 2*nodes*requests-1 {
		t.Errorf("%d of the requests have a number that is not above the last, which is %d now", refusals, last)
	}
}

// Without the store, a request fails: no number is guessed. A node that died leaves its turn behind, and its number is used up: the next one
// waits for the end of the lease, and goes on above it, also if its clock is behind. threats.md 505
func TestTurnWithoutStore(t *testing.T) {
	bubble(t, "died", func(t *testing.T) {
		c := newCluster(t, token("t1", 3600))
		floor := int64(1000)
		world := func() (*world, *host.Connector) {
			w := c.world(withoutBuiltIns, withGuest(rising(func() int64 { return floor }, nil)))
			w.canaryOf("s", "the-same-on-all-of-them")
			return w, w.connect("custom", secretValue)
		}
		w, connector := world()
		c.store.down.Store(true)
		w.refuse(connector, get(t.Context()), host.StageSign, "the store of state does not answer")
		c.store.down.Store(false)
		c.clock.Advance(2 * time.Second) // the pause of the breaker
		ctx, cancel := context.WithCancel(t.Context())
		w.api.Answer(silent)
		died := w.background(connector, get(ctx)) // its turn stays until the end of the test
		synctest.Wait()
		floor = 1
		next, second := world()
		waits := next.background(second, get(t.Context()))
		synctest.Wait()
		if n := next.api.Count(); n != 0 {
			t.Errorf("%d requests were sent while another node has the turn", n)
		}
		if err := <-waits; !errors.Is(err, host.ErrBusy) {
			t.Errorf("the one that waited for the node that died got %v", err)
		}
		c.clock.Advance(31 * time.Second)
		if got := number(t, next.get(second)); got != 1002 {
			t.Errorf("the next number is %d", got)
		}
		cancel()
		if err := <-died; !errors.Is(err, context.Canceled) {
			t.Errorf("the request that was on its way: %v", err)
		}
		if got := fmt.Sprint(number(t, next.get(second))); got != "1004" { // and the late end of its turn ends nobody else's
			t.Errorf("then it is %s", got)
		}
	})
}

// A turn that outlives its lease sends no more: neither a second attempt, nor a request that had to wait for a token. Else its number would
// arrive below one that another node has sent meanwhile. threats.md 530
func TestLateTurn(t *testing.T) {
	for name, test := range map[string]struct {
		second bool // otherwise the time passes before the first attempt
		passes time.Duration
		count  int
	}{
		"a second attempt after the lease":       {true, 31 * time.Second, 1},
		"a second attempt near its end":          {true, 21 * time.Second, 1},
		"a second attempt in time":               {true, 19 * time.Second, 2},
		"a first attempt that waited too long":   {false, 31 * time.Second, 0},
		"a first attempt that waited for a time": {false, 19 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, token("t1", 3600))
			passes := func() { c.clock.Advance(test.passes) }
			g := rising(nothing, nil)
			if takes := g.authenticate; !test.second {
				g.authenticate = func(env contract.Env) (string, error) {
					out, err := takes(env)
					passes()
					return out, err
				}
			}
			w := c.world(withoutBuiltIns, withGuest(g))
			connector := w.connect("custom", secretValue)
			if test.second {
				w.api.Answer(func(r *http.Request) (*http.Response, error) {
					passes()
					w.api.Answer(status(http.StatusOK))
					return status(http.StatusConflict)(r)
				})
			}
			code, err := w.try(connector, get(t.Context()))
			late := test.passes > 20*time.Second
			var failed *host.Error
			if late && (!errors.As(err, &failed) || failed.Stage != host.StageSign || !failed.Retryable() || !strings.Contains(err.Error(), "turn was nearly over")) {
				t.Errorf("after %v: %d, %v, want an error of the turn", test.passes, code, err)
			}
			if !late && (err != nil || code != http.StatusOK) {
				t.Errorf("after %v: %d, %v, want 200", test.passes, code, err)
			}
			if n := w.api.Count(); n != test.count {
				t.Errorf("after %v, %d requests were sent, want %d", test.passes, n, test.count)
			}
		})
	}
}

// A store has one row for the numbers of a partition, however many requests there are. It is kept for good, and names nobody. threats.md 531
func TestRowsOfNumbers_threats_531(t *testing.T) {
	c := newCluster(t, token("t1", 3600))
	rows := func() (n int) {
		check(t, c.store.Rows(t.Context(), func(id state.ID, row state.Row) error {
			if n++; row.ExpiresIn != 0 || strings.Contains(string(id[:])+string(row.Value), "ann") {
				t.Errorf("a row ends in %v, and is %q %q", row.ExpiresIn, id, row.Value)
			}
			return nil
		}))
		return n
	}
	w := c.world(withoutBuiltIns, withGuest(rising(nothing, nil)))
	connector := w.connect("custom", config{"value": "{{ get_secret('s') }}{{ user.id }}"})
	first := rows()
	for _, user := range []string{"ann", "anna", "ann", "ann"} {
		if code, err := w.try(connector, get(host.WithUser(t.Context(), host.User{ID: user}))); err != nil || code != http.StatusOK {
			t.Fatalf("%s got %d, %v", user, code, err)
		}
	}
	if n := rows() - first; n != 2 {
		t.Errorf("2 users have %d rows", n)
	}
	c.clock.Advance(10 * 365 * 24 * time.Hour)
	if code, err := w.try(connector, get(host.WithUser(t.Context(), host.User{ID: "ann"}))); err != nil || code != http.StatusOK || number(t, w.api.Last()) != 7 {
		t.Errorf("after ten years: %d, %v, and the number %s, want 7", code, err, w.api.Last().Header.Get("Authorization"))
	}
}
