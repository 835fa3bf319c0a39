package host

import (
	"sync"

	"github.com/keywright/keywright/host/internal/fairlru"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/inputs"
)

// maxMutation and maxScanner are the maximum sizes in bytes of a call whose mutation is kept for later requests, and of a scanner. A
// token of 8 kB needs 24 KiB and 150 KiB. All of them together have [Limits].MutationsBytes and ScannersBytes.
const (
	maxMutation = 128 << 10
	maxScanner  = 512 << 10
)

// mutationOverhead is the size of a kept mutation beside the size of its call, in bytes.
const mutationOverhead = 3 << 10

// reuse has what calls left for later requests: their mutations, and the scanners of these. Connectors share the bytes fairly. A
// scanner takes many times the memory of its mutation, so it is kept for fewer users.
type reuse struct {
	mu        sync.Mutex
	mutations *fairlru.Cache[mutationKey, *cachedMutation]
	scanners  *fairlru.Cache[*outcome, *requestScanner]
}

func newReuse(l Limits) *reuse {
	r := &reuse{
		mutations: fairlru.New[mutationKey, *cachedMutation](int64(l.MutationsBytes)),
		scanners:  fairlru.New[*outcome, *requestScanner](int64(l.ScannersBytes)),
	}
	r.mutations.Used = func(m *cachedMutation) bool { return m.used.Swap(false) }
	r.mutations.Dropped = func(m *cachedMutation) {
		m.outcome.reusable = false
		m.connector.lastMutation.CompareAndSwap(m, nil)
		r.scanners.Remove(m.connector.config.Name, m.outcome)
	}
	r.scanners.Used = func(s *requestScanner) bool { return s.used.Swap(false) }
	r.scanners.Dropped = func(s *requestScanner) { s.outcome.lastScanner.CompareAndSwap(s, nil) }
	return r
}

// mutation returns the mutation of a key, or nil.
func (r *reuse) mutation(c *Connector, s *inputs.Subject) *cachedMutation {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, _ := r.mutations.Get(c.config.Name, mutationKey{c.plan.Plan, s.Key()})
	return m
}

// keep keeps a mutation of a size.
func (r *reuse) keep(m *cachedMutation, plan *hostfn.Plan, s inputs.Subject, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.outcome.reusable = true
	r.mutations.Add(m.connector.config.Name, mutationKey{plan, s.Key()}, m, int64(size+mutationOverhead))
}

// keepScanner keeps a scanner as long as its outcome is kept.
func (r *reuse) keepScanner(c *Connector, s *requestScanner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.outcome.reusable {
		s.outcome.lastScanner.Store(s)
		r.scanners.Add(c.config.Name, s.outcome, s, int64(s.scanner.Size()))
	}
}
