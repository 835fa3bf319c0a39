package lease_test

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/state"
)

var errFault = errors.New("a fault of the simulation")

// event is a function that runs at a time of the simulation.
type event struct {
	at  time.Duration
	seq int
	run func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// world is a simulation. Requests are coroutines, of which one runs at a time, so a seed decides everything: goroutines, also
// those of testing/synctest, run in an order that is not ours.
type world struct {
	random *rand.Rand
	now    time.Duration
	seq    int
	queue  events
	yield  func() // parks the running coroutine
	resume func()
	faults bool
	mutant string

	rows                            map[state.ID]*simRow
	nodes                           []*simNode
	grants                          []*grant
	wrong                           []string
	served, lost, failed, exchanges int
}

type simRow struct {
	generation, fence int64
	value             []byte
	expires, leased   time.Duration
}

// simNode is a process. A crash replaces it by the next one.
type simNode struct {
	node *lease.Node
	dead bool
}

// grant is a grant at an authorization server that rotates its tokens.
type grant struct {
	seeds  int
	seed   string
	issued int
	sent   map[string]bool
	access map[string]bool
}

func (w *world) after(d time.Duration, f func()) {
	w.seq++
	heap.Push(&w.queue, event{w.now + d, w.seq, f})
}

func (w *world) spawn(f func()) {
	var next func() (struct{}, bool)
	var yield func(struct{}) bool
	run := func() {}
	next, _ = iter.Pull(func(y func(struct{}) bool) { yield = y; f() })
	run = func() {
		w.yield, w.resume = func() { yield(struct{}{}) }, run
		next()
	}
	run()
}

func (w *world) sleep(d time.Duration) {
	yield, resume := w.yield, w.resume
	w.after(d, resume)
	yield()
}

func (w *world) chance(perMille int) bool { return w.faults && w.random.Intn(1000) < perMille }

func (w *world) some(d time.Duration) time.Duration {
	return time.Duration(w.random.Int63n(int64(d))) + 1
}

// op is a call of a service. It may fail before or after it has an effect, have its effect long after it has failed, and
// the process may be stopped on either side of it.
func (w *world) op(n *simNode, apply func()) error {
	if w.chance(5) {
		w.sleep(w.some(2 * time.Minute))
	}
	if n.dead || w.chance(10) {
		return errFault
	}
	if w.chance(5) {
		w.after(w.some(2*time.Minute), apply)
		w.sleep(2 * time.Second)
		return errFault
	}
	w.sleep(w.some(5 * time.Millisecond))
	apply()
	w.sleep(w.some(5 * time.Millisecond))
	if w.chance(5) {
		w.sleep(w.some(2 * time.Minute))
	}
	if n.dead || w.chance(10) {
		return errFault
	}
	return nil
}

// simStore is the store as a node sees it.
type simStore struct {
	w *world
	n *simNode
}

func (s simStore) Get(_ context.Context, id state.ID) (row state.Row, err error) {
	err = s.w.op(s.n, func() {
		if r := s.w.rows[id]; r != nil {
			row = state.Row{Generation: r.generation, LeasedFor: max(0, r.leased-s.w.now)}
			if r.value != nil && (r.expires == 0 || r.expires > s.w.now) {
				row.Value, row.ExpiresIn = r.value, max(0, r.expires-s.w.now)
			}
		}
	})
	return row, err
}

func (s simStore) Acquire(_ context.Context, id state.ID, generation int64, d time.Duration) (l state.Lease, taken bool, err error) {
	err = s.w.op(s.n, func() {
		r := s.w.rows[id]
		if r == nil && generation == 0 {
			r = &simRow{generation: 1}
			s.w.rows[id] = r
			generation = 1
		}
		if r == nil || r.generation != generation && s.w.mutant != "acquire without generation" || r.leased > s.w.now && s.w.mutant != "lease not checked" {
			return
		}
		r.fence++
		r.leased = s.w.now + d
		l, taken = state.Lease{ID: id, Fence: r.fence, Generation: r.generation}, true
	})
	return l, taken, err
}

func (s simStore) Put(_ context.Context, l state.Lease, value []byte, expires time.Duration, release bool) (ok bool, err error) {
	err = s.w.op(s.n, func() {
		r := s.w.rows[l.ID]
		noIntent := s.w.mutant == "no intent"
		switch {
		case r == nil,
			r.fence != l.Fence && s.w.mutant != "no fence and generation in put",
			r.generation != l.Generation && s.w.mutant != "no fence and generation in put" && (!noIntent || r.generation+1 != l.Generation):
			return
		}
		ok = true
		if noIntent && !release {
			return
		}
		r.generation, r.value, r.expires = l.Generation+1, value, 0
		if expires > 0 {
			r.expires = s.w.now + expires
		}
		if release {
			r.leased = 0
		}
	})
	return ok, err
}

func (s simStore) Release(_ context.Context, l state.Lease) error {
	return s.w.op(s.n, func() {
		if r := s.w.rows[l.ID]; r != nil && r.fence == l.Fence {
			r.leased = 0
		}
	})
}

func (s simStore) Delete(context.Context, state.ID, int64) (bool, error) { return false, errFault }

func (s simStore) Wait(_ context.Context, id state.ID, generation int64) error {
	for r := s.w.rows[id]; r != nil && r.generation == generation && r.leased > s.w.now; {
		s.w.sleep(min(r.leased-s.w.now, time.Second))
		if s.n.dead {
			return errFault
		}
	}
	return nil
}

func (s simStore) Reseal(context.Context, state.ID, int64, []byte) (bool, error) {
	return false, errFault
}

func (s simStore) Rows(context.Context, func(state.ID, state.Row) error) error { return errFault }

// start starts a node whose clock is wrong by its own offset and rate.
func (w *world) start(i int) {
	n := &simNode{}
	offset, rate := w.some(time.Hour), 0.95+w.random.Float64()/10
	faults := w.faults
	w.faults = false
	node, err := lease.NewNode(context.Background(), lease.Config{
		Store: simStore{w, n}, Keys: [][]byte{make([]byte, 32)}, Random: w.random,
		Now: func() time.Time { return time.Unix(0, 0).Add(offset + time.Duration(float64(w.now)*rate)) },
		Within: func(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
			return ctx, func() {}
		},
	})
	w.faults = faults
	if err != nil {
		w.wrong = append(w.wrong, err.Error())
		return
	}
	n.node = node
	w.nodes[i] = n
}

func (w *world) renew(g *grant, i int) {
	g.seeds++
	g.seed = fmt.Sprintf("seed %d of %d", g.seeds, i)
}

// request asks a node for an access token of a grant, and checks what comes.
func (w *world) request(at, i int) {
	n, g, ctx := w.nodes[at], w.grants[i], context.Background()
	seed, key := g.seed, lease.Key{Name: fmt.Sprint(i)}
	token, err := n.node.Fetch(ctx, key, func(ctx context.Context) ([]byte, time.Duration, error) {
		access, err := w.redeem(ctx, n, g, key, seed)
		return []byte(access), 10 * time.Second, err
	})
	var lost *lease.LostError
	switch {
	case err == nil && !g.access[string(token.Value)]:
		w.wrong = append(w.wrong, fmt.Sprintf("%q is no value of grant %d", token.Value, i))
	case err == nil:
		w.served++
	case errors.As(err, &lost):
		w.lost++
		if g.seed == seed {
			w.renew(g, i)
		}
	default:
		w.failed++
	}
	if n.node.Flush(context.Background()) > 0 && !n.dead {
		w.sleep(time.Second)
		n.node.Flush(context.Background())
	}
}

// redeem takes the turn of a grant, and exchanges its token for an access token.
func (w *world) redeem(ctx context.Context, n *simNode, g *grant, key lease.Key, seed string) (access string, err error) {
	turn, err := n.node.Begin(ctx, key, []byte(seed))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(turn.End(ctx), err) }()
	if _, _, err := turn.Intent(ctx); err != nil {
		return "", err
	}
	if w.chance(20) {
		turn.NotRedeemed(ctx)
		return "", errFault
	}
	next, err := w.exchange(n, g, string(turn.Token()))
	if err != nil {
		return "", err
	}
	turn.Done(ctx, []byte(next))
	return "access " + next, nil
}

// exchange is the authorization server: it takes a token once.
func (w *world) exchange(n *simNode, g *grant, token string) (next string, err error) {
	err = w.op(n, func() {
		w.exchanges++
		if g.sent[token] {
			w.wrong = append(w.wrong, token+" was sent twice")
		}
		g.sent[token] = true
		g.issued++
		next = fmt.Sprintf("%s, token %d", g.seed, g.issued)
		g.access["access "+next] = true
	})
	return next, err
}

// simulate runs requests on nodes with faults, then once more on all grants without.
func simulate(seed int64, nodes, grants, requests int, mutant string) *world {
	w := &world{random: rand.New(rand.NewSource(seed)), rows: map[state.ID]*simRow{}, nodes: make([]*simNode, nodes), mutant: mutant}
	w.spawn(func() {
		w.mutant = ""
		for i := range nodes {
			w.start(i)
		}
		w.mutant, w.faults = mutant, true
		for i := range grants {
			g := &grant{sent: map[string]bool{}, access: map[string]bool{}}
			w.renew(g, i)
			w.grants = append(w.grants, g)
		}
		for range requests {
			w.sleep(w.some(20 * time.Millisecond))
			at := w.random.Intn(nodes)
			if w.chance(1) {
				w.nodes[at].dead = true
				w.start(at)
			}
			w.spawnLater(func() { w.request(at, w.random.Intn(grants)) })
		}
		w.sleep(time.Hour)
		w.faults = false
		for i := range grants {
			for try := 0; ; try++ {
				before := w.served
				w.request(w.random.Intn(nodes), i)
				if w.served > before {
					break
				}
				if try == 3 {
					w.wrong = append(w.wrong, fmt.Sprintf("grant %d is not served after all faults", i))
					break
				}
			}
		}
	})
	for len(w.queue) > 0 && len(w.wrong) == 0 {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.run()
	}
	return w
}

func (w *world) spawnLater(f func()) { w.after(0, func() { w.spawn(f) }) }

// No token is sent twice, no caller gets another's value, and all are served in the end.

func TestSimulation(t *testing.T) {
	w := simulate(1, 100, 200, 50_000, "")
	t.Logf("%d served, %d lost, %d failed, %d exchanges in %s", w.served, w.lost, w.failed, w.exchanges, w.now)
	for _, wrong := range w.wrong {
		t.Error(wrong)
	}
	if w.served < 25_000 {
		t.Errorf("%d of 50,000 requests were served", w.served)
	}
}

// The simulation notices a protocol that lacks a part.
func TestSimulationCatchesMutants(t *testing.T) {
	for _, mutant := range []string{"no intent", "no fence and generation in put"} {
		caught := false
		for seed := int64(1); seed <= 5 && !caught; seed++ {
			w := simulate(seed, 100, 50, 20_000, mutant)
			caught = len(w.wrong) > 0
		}
		if !caught {
			t.Errorf("%s: nothing went wrong", mutant)
		}
	}
}
