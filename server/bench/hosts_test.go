package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/postgres"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

// startRows returns the rows for the time until the first connectors of a process are ready. The peer is wazero alone, which
// compiles the same modules one after the other: a bound in milliseconds would depend on the machine.
func startRows() []row {
	const work, against = "host.New and connecting the five types, ", "wazero alone compiles the five"
	return []row{
		{work: work + "nothing cached", against: against, unit: nanoseconds, goal: 0.67, measure: func(s session) result { return starts(s, "") }},
		{work: work + "code cache warm", against: against, unit: nanoseconds, goal: 0.12, measure: func(s session) result {
			dir := s.TempDir()
			child(s, "start", dir)
			return starts(s, dir)
		}},
	}
}

// starts measures processes with and without Keywright by turns.
func starts(s session, dir string) result {
	return s.rounds(func(round int) (took [2]float64) {
		turns(round, 2, func(side int) {
			took[side] += child(s, []string{"start", "compile"}[side], dir) / 2
		})
		return took
	}, quotient)
}

// partCompile measures the time in nanoseconds that wazero takes to compile the five modules.
func partCompile(t *testing.T, _ string) {
	begin := time.Now()
	runtime := wazero.NewRuntime(t.Context())
	defer runtime.Close(t.Context())
	for _, wasm := range plugins.Default() {
		testworld.Must(runtime.CompileModule(t.Context(), wasm))(t)
	}
	writeValue(float64(time.Since(begin)))
}

// partStart measures the time in nanoseconds. Its argument is the directory of the code cache, or empty.
func partStart(t *testing.T, dir string) {
	keys() // not part of the measured time
	begin := time.Now()
	h := newHost(t, &base{}, func(c *host.Config) { c.CodeCache = dir })
	for _, a := range auths {
		connect(t, h, a.Type, a)
	}
	writeValue(float64(time.Since(begin)))
}

// idleRows returns the row for memory: 10,000 connectors of the five types in a separate process, each of which has sent a
// request. The value is the resident memory minus that before the host was created.
func idleRows() []row {
	return []row{{
		work: "10,000 connectors, each used once, idle: resident memory ÷ 200 MiB", against: "200 MiB", unit: octets, goal: 1,
		measure: func(s session) result { return s.bound(200<<20, func() float64 { return child(s, "idle", "") }) },
	}}
}

// partIdle measures the memory in bytes.
func partIdle(t *testing.T, _ string) {
	keys()
	before, b := resident(t), &base{}
	h, r := newHost(t, b), request(t.Context())
	connectors := make([]*host.Connector, 10_000)
	for i := range connectors {
		a := auths[i%len(auths)]
		connectors[i] = connect(t, h, fmt.Sprintf("%s %d", a.Type, i), a)
		testworld.Check(t, send(connectors[i].Transport(b), r))
	}
	writeValue(resident(t) - before)
	runtime.KeepAlive(connectors)
}

// resident returns the resident memory of this process in bytes, after a garbage collection. It needs Linux.
func resident(t *testing.T) float64 {
	debug.FreeOSMemory()
	text := testworld.Must(os.ReadFile("/proc/self/statm"))(t)
	pages := testworld.Must(strconv.ParseFloat(string(bytes.Fields(text)[1]), 64))(t)
	return pages * float64(os.Getpagesize())
}

// throughputRows returns the rows for the gain from a second core. Both sides are the same program, with GOMAXPROCS 2 and 1.
// Work that shares nothing is measured as well, to show the gain that is possible on the machine.
func throughputRows() (all []row) {
	for authType, name := range map[string]string{"api_key": "api_key", "jwt": "jwt ES256"} {
		all = append(all, row{
			work: "throughput of RoundTrip, " + name + ": 1.8 ÷ (two cores ÷ one)", against: "one core", unit: perSecond, goal: 1,
			measure: func(s session) result { return throughput(s, authType) },
		})
	}
	slices.SortFunc(all, func(a, b row) int { return strings.Compare(a.work, b.work) })
	return all
}

// nothing, in place of an auth type, is work that shares nothing.
const nothing = "nothing"

func throughput(s session, authType string) result {
	var possible []float64
	measured := s.rounds(func(round int) [2]float64 {
		var perCore [2][2]float64 // of our work, and of nothing
		turns(round, 1, func(side int) {
			for i, work := range []string{authType, nothing} {
				perCore[i][side] = child(s, "throughput", work+" "+s.slice.String(), []string{"GOMAXPROCS=2", "GOMAXPROCS=1"}[side])
			}
		})
		possible = append(possible, quotient(perCore[1]))
		return perCore[0]
	}, func(v [2]float64) float64 { return 1.8 / quotient(v) })
	measured.note = fmt.Sprintf("Two cores did %s times what one did; of work that shares nothing, %s times.",
		significant(1.8/measured.ratio), significant(median(possible)))
	return measured
}

// partThroughput measures requests per second. Its arguments are an auth type and the duration of the measurement.
func partThroughput(t *testing.T, args string) {
	authType, duration, _ := strings.Cut(args, " ")
	slice := testworld.Must(time.ParseDuration(duration))(t)
	if authType == nothing {
		block := make([]byte, 1<<10)
		writeValue(perSecondOf(t, slice, func() error { sha256.Sum256(block); return nil }))
		return
	}
	// A process with a small heap collects garbage hundreds of times a second, and each collection synchronizes both processors. This
	// heap is as large as that of a server.
	live := make([]byte, 64<<20)
	defer runtime.KeepAlive(live)
	b := &base{}
	transport := connected(t, b, authOf(authType)).Transport(b)
	work := func() error { return send(transport, request(t.Context())) }
	perSecondOf(t, slice/10, work) // warms up
	writeValue(perSecondOf(t, slice, work))
}

// perSecondOf runs work on sixteen goroutines for a slice of time, and returns the runs per second.
func perSecondOf(t *testing.T, slice time.Duration, work func() error) float64 {
	var (
		done   atomic.Int64
		wait   sync.WaitGroup
		errs   = make([]error, 16)
		begin  = time.Now()
		finish = begin.Add(slice)
	)
	for i := range errs {
		wait.Go(func() {
			n := int64(0)
			for again := true; again && errs[i] == nil; again = time.Now().Before(finish) { // once at least, however short the slice
				errs[i] = work()
				n++
			}
			done.Add(n)
		})
	}
	wait.Wait()
	took := time.Since(begin)
	testworld.Check(t, errors.Join(errs...))
	return float64(done.Load()) / took.Seconds()
}

// engines are the databases of stores.
var engines = []string{"SQLite", "PostgreSQL"}

// durable is a PostgreSQL with the settings for durability that a server for tests turns off. With it, they are PostgreSQL's defaults.
var durable = sync.OnceValues(func() (*postgrestest.Server, error) {
	server, err := postgrestest.Start("fsync=on", "synchronous_commit=on", "full_page_writes=on")
	if err == nil {
		stopPostgres = func() { _ = server.Stop() }
	}
	return server, err
})

// stopPostgres stops the server if it runs.
var stopPostgres = func() {}

// newDatabase returns the address of an empty database: "sqlite:" and a file, or a URL.
func newDatabase(t testing.TB, engine string) string {
	t.Helper()
	if engine == "SQLite" {
		return "sqlite:" + filepath.Join(t.TempDir(), "bench.db")
	}
	server := testworld.Must(durable())(t)
	return testworld.Must(server.Database(t.Context()))(t)
}

// newStore returns an empty store of state.
func newStore(t testing.TB, engine string) (store statedb.Database) {
	t.Helper()
	address := newDatabase(t, engine)
	if file, ok := strings.CutPrefix(address, "sqlite:"); ok {
		store = testworld.Must(sqlite.Open(t.Context(), file, sqlite.Options{}))(t)
	} else {
		store = testworld.Must(postgres.Open(t.Context(), address, postgres.Options{}))(t)
	}
	t.Cleanup(func() { testworld.Check(t, store.Close()) })
	return store
}

// nodeRows returns the rows for what a store of state costs.
func nodeRows() []row {
	all := []row{{
		work: "RoundTrip, oauth_client_credentials with a cached token and a store of state", against: "the same without",
		unit: nanoseconds, goal: 1.02,
		measure: func(s session) result {
			with, without := &base{}, &base{}
			a, r := authOf("oauth_client_credentials"), request(s.Context())
			c, alone := node(s, with, newStore(s, "SQLite"), a), connected(s, without, a)
			return s.pair(roundTrip(c.Transport(with), r), roundTrip(alone.Transport(without), r))
		},
	}}
	for _, engine := range engines {
		all = append(all, row{
			work: "first RoundTrip with a token that another node has stored in " + engine + ": p50 ÷ 2 ms", against: "2 ms",
			unit: nanoseconds, goal: 1,
			measure: func(s session) result { return storedElsewhere(s, newStore(s, engine)) },
		})
	}
	return all
}

// node returns the connector of a host that is a node of a store.
func node(t testing.TB, b *base, store statedb.Database, a host.Auth) *host.Connector {
	t.Helper()
	shared := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: store, Keys: [][]byte{bytes.Repeat([]byte{1}, 32)}}))(t)
	t.Cleanup(func() { testworld.Check(t, shared.Close(context.WithoutCancel(t.Context()))) })
	return connected(t, b, a, func(c *host.Config) { c.State = shared })
}

// storedElsewhere measures the first request of each user on one node, after another node has stored their tokens.
func storedElsewhere(s session, store statedb.Database) result {
	const users = 200 // each has a token of their own
	sample := 0
	return s.bound(float64(2*time.Millisecond), func() (p50 float64) {
		sample++ // its users are new
		personal := authOf("oauth_client_credentials")
		personal.Config = map[string]any{
			"client_id": "{{ user.id }}", "client_secret": "{{ get_secret('client') }}", "token_url": tokenURL,
			"scope": fmt.Sprint("read", sample),
		}
		b := &base{}
		times := make([]time.Duration, users)
		for range 2 { // the first node fills the store
			transport := node(s, b, store, personal).Transport(b)
			for i := range times {
				r := request(host.WithUser(s.Context(), host.User{ID: fmt.Sprint("user", i)}))
				began := time.Now()
				testworld.Check(s, send(transport, r))
				times[i] = time.Since(began)
			}
		}
		b.check(s, users)
		slices.Sort(times)
		return float64(times[len(times)/2])
	})
}
