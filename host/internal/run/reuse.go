package run

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host/internal/fairlru"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
)

// maxMutation and maxScanner are the maximum sizes in bytes of a call whose mutation is kept for later requests, and of a scanner. A
// token of 8 kB needs 24 KiB and 150 KiB. NewReuse has the sizes of all of them together.
const (
	maxMutation      = 128 << 10
	mutationOverhead = 3 << 10 // in addition to the size of the call
	maxScanner       = 512 << 10
)

// Reuse keeps the mutations of calls for later requests, and the scanners of these. Connectors share the bytes fairly. A
// scanner takes many times the memory of its mutation, so it is kept for fewer users.
type Reuse struct {
	mu        sync.Mutex
	mutations *fairlru.Cache[mutationKey, *cachedMutation]
	scanners  *fairlru.Cache[*Outcome, *requestScanner]
}

// NewReuse returns a Reuse for mutations and scanners of these sizes.
func NewReuse(mutationBytes, scannerBytes int) *Reuse {
	r := &Reuse{
		mutations: fairlru.New[mutationKey, *cachedMutation](int64(mutationBytes)),
		scanners:  fairlru.New[*Outcome, *requestScanner](int64(scannerBytes)),
	}
	r.mutations.Used = func(m *cachedMutation) bool { return m.used.Swap(false) }
	r.mutations.Dropped = func(m *cachedMutation) {
		m.outcome.reusable = false
		m.outcome.runner.lastMutation.CompareAndSwap(m, nil)
		r.scanners.Remove(m.outcome.runner.Plan.Owner, m.outcome)
	}
	r.scanners.Used = func(s *requestScanner) bool { return s.used.Swap(false) }
	r.scanners.Dropped = func(s *requestScanner) { s.outcome.lastScanner.CompareAndSwap(s, nil) }
	return r
}

// mutation returns the kept mutation of a subject, or nil.
func (r *Reuse) mutation(rn *Runner, s *hostfn.Subject) *cachedMutation {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, _ := r.mutations.Get(rn.Plan.Owner, mutationKey{rn.Plan.Plan, s.Key()})
	return m
}

func (r *Reuse) keep(m *cachedMutation, s hostfn.Subject, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.outcome.reusable = true
	plan := m.outcome.runner.Plan
	r.mutations.Add(plan.Owner, mutationKey{plan.Plan, s.Key()}, m, int64(size+mutationOverhead))
}

// keepScanner keeps a scanner as long as its outcome is kept.
func (r *Reuse) keepScanner(s *requestScanner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.outcome.reusable {
		s.outcome.lastScanner.Store(s)
		r.scanners.Add(s.outcome.runner.Plan.Owner, s.outcome, s, int64(s.scanner.Size()))
	}
}

type requestScanner struct {
	// credentials are the further credentials that it searches for.
	credentials []string
	scanner     *leakscan.Scanner
	outcome     *Outcome
	// used is set by each request, and cleared when the scanner is the next to lose its place.
	used atomic.Bool
}

// cachedMutation is the result of a call that depended only on configuration, secrets, fields of the user and cache entries, and not on its
// request, the clock or randomness. While these are unchanged, the plugin would return the same mutation, so it need not run.
type cachedMutation struct {
	// values are those of the secrets and endpoints that the connector's templates name, see inputs.Reader.Read.
	values  []string
	outcome *Outcome
	// used is set by each request, and cleared when the mutation is the next to lose its place.
	used atomic.Bool
}

// mutationKey identifies a cachedMutation of a connector whose templates name something of the user.
type mutationKey struct {
	// plan identifies the connector, since no two connectors share a plan.
	plan *hostfn.Plan
	// subject is the result of Subject.Key.
	subject hostfn.Subject
}

// lookup returns the outcome of an earlier call with the same inputs whose cache entries are all there, or nil.
func (rn *Runner) lookup(values []string, subject *hostfn.Subject) *Outcome {
	var earlier *cachedMutation
	if rn.Plan.Personal() {
		earlier = rn.Reuse.mutation(rn, subject)
	} else {
		earlier = rn.lastMutation.Load()
	}
	if earlier == nil || !slices.Equal(earlier.values, values) {
		return nil
	}
	for _, used := range earlier.outcome.used {
		if !rn.Tokens.Live(used) {
			return nil
		}
	}
	if !earlier.used.Load() {
		earlier.used.Store(true)
	}
	return earlier.outcome
}

// store keeps the outcome of a call for later requests, if it is not too large and the same inputs would have the same outcome.
func (rn *Runner) store(values []string, subject hostfn.Subject, call *hostfn.Call, out *Outcome) {
	if out.Err != nil || !rn.reuses() { // what a mutation may not hold is checked when the plugin runs
		return
	}
	pattern, size := call.Pattern, call.Size()
	if pattern != nil {
		size = pattern.Size
		out = &Outcome{runner: rn, pattern: pattern, used: out.used, Entries: out.Entries, expires: out.expires}
	}
	if pattern == nil && !call.Cacheable() || size > maxMutation {
		return
	}
	if pattern == nil {
		call.DropRequest() // the outcome's ScrubError needs only the sealed values
	}
	entry := &cachedMutation{values: slices.Clone(values), outcome: out}
	if !rn.Plan.Personal() {
		rn.lastMutation.Store(entry)
	}
	rn.Reuse.keep(entry, subject, size)
}

// reuses reports whether calls may be used again. With answers that are kept, each of them may change what the next call gets.
func (rn *Runner) reuses() bool {
	return !rn.NoReuse && rn.Deterministic && rn.Plan.Challenge.Keep == 0
}

// Outcome is the result of a call, or of several, one for each authentication of a list.
type Outcome struct {
	// parts has the outcome of each authentication. If it is nil, there is one. Of several, there are only these, the mutation of all, and
	// Err.
	parts []*Outcome
	// longer is the last result of and with an outcome that may be used again.
	longer atomic.Pointer[Outcome]
	runner *Runner
	// pattern is not nil if there is no Mutation and no Call yet: each request makes its own, see [hostfn.Call.Repeat].
	pattern  *hostfn.Pattern
	Mutation *hostfn.Mutation
	// used lists the cache entries that the call read.
	used []*tokencache.Handle
	// Entries lists the cache entries whose sealed values are in the mutation.
	Entries []*tokencache.Handle
	// expires is the time at which the first of the values in the mutation ends that are cached, or the one that the call has
	// fetched. It is zero if there is none, or if the plugin asks no token endpoint.
	expires time.Time
	// Call is the call itself. Its ScrubError removes the credential from the errors of base transports.
	Call *hostfn.Call
	Err  error
	// detached is set if the call runs or ran on a goroutine of its own. That goroutine calls Observe.
	detached bool
	// restart is not nil if the call must run again: with the body kept, or afresh. No other field is set then.
	restart *hostfn.Restart
	// filled is the missing entry if another call or node has stored it.
	filled *tokens.Entry
	// lastScanner is the scanner that was used last, if it is kept.
	lastScanner atomic.Pointer[requestScanner]
	// reusable is set while the outcome is kept for later requests. Reuse.mu guards it.
	reusable bool
}

// and returns the outcome of authentications one after the other: o, and then next.
func (o *Outcome) and(next *Outcome) (*Outcome, error) {
	if all := o.longer.Load(); all != nil && all.parts[len(all.parts)-1] == next {
		return all, nil
	}
	m, err := o.Mutation.And(next.Mutation)
	all := &Outcome{Mutation: m, parts: append(slices.Clip(o.Parts()), next)}
	if err == nil && next.Call.Cacheable() {
		o.longer.Store(all)
	}
	return all, err
}

// Parts returns the outcome of each authentication, in order.
func (o *Outcome) Parts() []*Outcome {
	if o.parts == nil {
		return []*Outcome{o}
	}
	return o.parts
}

// Texts returns the texts that the mutations of parts bring into their request.
func Texts(parts ...*Outcome) (texts []string) {
	for _, o := range parts {
		texts = append(texts, o.Call.Texts(o.Mutation)...)
	}
	return texts
}

// Credentials returns the secret texts that the mutations of parts bring into their request.
func Credentials(parts ...*Outcome) (texts []string) {
	for _, o := range parts {
		texts = append(texts, o.Call.Credentials(o.Mutation)...)
	}
	return texts
}

// Scrub returns a text without the secrets of the calls.
func (o *Outcome) Scrub(text string) string {
	for _, part := range o.Parts() {
		text = part.Call.Scrub(text)
	}
	return text
}

// ScrubError returns an error without the secrets of the calls, see [hostfn.Call].
func (o *Outcome) ScrubError(err error) error {
	for _, part := range o.Parts() {
		err = part.Call.ScrubError(err)
	}
	return err
}

func (o *Outcome) ends() (first time.Time) {
	if fetched := o.Call.Stored; fetched != nil {
		first = fetched.Ends()
	}
	for _, entry := range o.Entries {
		if ends := entry.Ends(); first.IsZero() || ends.Before(first) {
			first = ends
		}
	}
	return first
}

// Scanner returns a scanner for the credentials of the mutation and for further ones. It returns nil if all of them are too short.
func (o *Outcome) Scanner(extra []string) *leakscan.Scanner {
	if n := len(o.parts); n > 0 {
		return o.parts[n-1].Scanner(append(slices.Clip(extra), Credentials(o.parts[:n-1]...)...))
	}
	if e := o.lastScanner.Load(); e != nil && slices.Equal(e.credentials, extra) {
		if !e.used.Load() {
			e.used.Store(true)
		}
		return e.scanner
	}
	scanner := leakscan.New(append(o.Call.Credentials(o.Mutation), extra...))
	if scanner != nil && scanner.Size() <= maxScanner {
		o.runner.Reuse.keepScanner(&requestScanner{credentials: extra, scanner: scanner, outcome: o})
	}
	return scanner
}
