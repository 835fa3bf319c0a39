package lease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand"
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

func (e event) before(f event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// events is a heap. That of container/heap allocates for each event.
type events []event

func (e *events) push(added event) {
	*e = append(*e, added)
	all, i := *e, len(*e)-1
	for parent := (i - 1) / 2; i > 0 && all[i].before(all[parent]); parent = (i - 1) / 2 {
		all[i], all[parent] = all[parent], all[i]
		i = parent
	}
}

func (e *events) pop() event {
	all := *e
	first, last := all[0], len(all)-1
	all[0], all[last] = all[last], event{}
	all = all[:last]
	*e = all
	for i, child := 0, 1; child < last; child = 2*i + 1 {
		if child+1 < last && all[child+1].before(all[child]) {
			child++
		}
		if !all[child].before(all[i]) {
			break
		}
		all[i], all[child] = all[child], all[i]
		i = child
	}
	return first
}

// simulation is a simulation. Requests are coroutines, of which one runs at a time, so a seed decides everything: goroutines, also
// those of testing/synctest, run in an order that is not ours.
type simulation struct {
	random *rand.Rand
	now    time.Duration
	seq    int
	queue  events
	yield  func() // parks the running coroutine
	resume func()
	faults bool
	mutant string
	// down is the time at which the store answers again.
	down time.Duration

	rows   map[state.ID]*simRow
	nodes  []*simNode
	grants []*grant
	wrong  []string
	held   int

	served, lost, failed, exchanges, again, alone, dropped, early int
}

// deadline is the key of the time at which a context of the simulation ends.
type deadline struct{}

// simNode is a process. A crash replaces it by the next one.
type simNode struct {
	node *lease.Node
	// starting is set until the process runs. It meets no faults then.
	starting, dead bool
	flushing       bool
	// stopped is the time at which the process goes on.
	stopped time.Duration
	// degraded is set while an exchange without the store begins.
	degraded bool
}

func (w *simulation) wrongf(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf("after %s: ", w.now)+fmt.Sprintf(format, args...))
}

func (w *simulation) after(d time.Duration, f func()) {
	w.seq++
	w.queue.push(event{w.now + d, w.seq, f})
}

func (w *simulation) spawn(f func()) {
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

func (w *simulation) spawnLater(f func()) { w.after(0, func() { w.spawn(f) }) }

func (w *simulation) sleep(d time.Duration) {
	yield, resume := w.yield, w.resume
	w.after(d, resume)
	yield()
}

// once reports true once in n times while there are faults.
func (w *simulation) once(n int) bool { return w.faults && w.random.Intn(n) == 0 }

func (w *simulation) some(d time.Duration) time.Duration {
	return time.Duration(w.random.Int63n(int64(d))) + 1
}

// pause stops a call, or its process, now and then, for longer than a lease.
func (w *simulation) pause(n *simNode) {
	switch {
	case w.once(200):
		w.sleep(w.some(2 * time.Minute))
	case w.once(20_000):
		n.stopped = w.now + w.some(2*time.Minute)
	}
	if w.now < n.stopped {
		w.sleep(n.stopped - w.now)
	}
}

// op is a call of a service. It may fail before or after it has an effect, or have its effect long after it has failed.
func (w *simulation) op(n *simNode, apply func()) error {
	w.pause(n)
	if n.dead || w.once(100) {
		return errFault
	}
	if w.once(200) {
		w.after(w.some(2*time.Minute), apply)
		w.sleep(2 * time.Second)
		return errFault
	}
	w.sleep(w.some(5 * time.Millisecond))
	apply()
	w.sleep(w.some(5 * time.Millisecond))
	w.pause(n)
	if n.dead || w.once(100) {
		return errFault
	}
	return nil
}

// start starts a node whose clock is wrong by its own offset and rate.
func (w *simulation) start(i int) {
	n := &simNode{starting: true}
	offset, rate := w.some(time.Hour), 0.95+w.random.Float64()/10
	node, err := lease.NewNode(context.Background(), lease.Config{
		Store: simStore{w, n}, Keys: w.keys(i), Random: w.random,
		Now: func() time.Time { return time.Unix(0, 0).Add(offset + time.Duration(float64(w.now)*rate)) },
		Within: func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			return context.WithValue(ctx, deadline{}, w.now+time.Duration(float64(d)/rate)), func() {}
		},
		Sleep:    func(_ context.Context, d time.Duration) { w.sleep(d) },
		Degraded: func(error) { n.degraded = true },
	})
	if err != nil {
		w.wrongf("a node does not start: %v", err)
		return
	}
	n.node, n.starting = node, false
	w.nodes[i] = n
}

// keys returns two state keys. They are in another order for every other node, as while the keys are changed.
func (w *simulation) keys(i int) [][]byte {
	return [][]byte{bytes.Repeat([]byte{byte(i % 2)}, 32), bytes.Repeat([]byte{byte(1 - i%2)}, 32)}
}

// rekey seals all values anew.
func (w *simulation) rekey() {
	if counts, _ := w.someNode().node.Rekey(context.Background()); counts.Unopened > 0 {
		w.wrongf("%d values do not open", counts.Unopened)
	}
}

// crash ends a process, and starts the next one.
func (w *simulation) crash(i int) {
	w.nodes[i].dead = true
	w.start(i)
}

// someNode returns a node that runs.
func (w *simulation) someNode() *simNode { return w.nodes[w.random.Intn(len(w.nodes))] }
