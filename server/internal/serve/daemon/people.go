package daemon

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/connections"
	"github.com/keywright/keywright/server/internal/operate/difference"
	"github.com/keywright/keywright/server/internal/operate/nodes"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/internal/operate/tenants"
	"github.com/keywright/keywright/server/internal/serve/audit"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

// people has what the daemon keeps for people: in the store of state, or in memory without one.
type people struct {
	daemon      *daemon
	store       *records.Store
	nodes       *nodes.Nodes
	connections *connections.Connections
	acts        *acts.Log
	tenants     *tenants.Tenants

	stop    context.CancelFunc
	running sync.WaitGroup
	// counting protects counts, which has the numbers of connections, and countTime, when they were counted.
	counting  sync.Mutex
	counts    map[[2]string]float64
	countTime time.Time
	// closeMemory closes what takes the place of the store.
	closeMemory func() error
}

// openPeople begins to keep what people look at. The first set has been read.
func (d *daemon) openPeople(ctx context.Context, first *inUse) error {
	p := &people{daemon: d, closeMemory: func() error { return nil }}
	d.shared.mu.Lock()
	if store := d.shared.store; store != nil {
		p.store = &records.Store{Records: store.Database, State: store.State}
	}
	d.shared.mu.Unlock()
	shared := p.store != nil
	if !shared {
		if err := p.openMemory(ctx); err != nil {
			return err
		}
	}
	seed := p.store.State.Name("users")
	d.seed.Store(binary.BigEndian.Uint64(seed[:]))
	logger := d.config.Logger
	kind := ""
	if first.State != nil {
		kind = first.State.Type()
	}
	p.nodes = nodes.New(nodes.Config{
		Clock: d.clock, Recorder: d.recorder, Store: p.store, Shared: shared, Logger: logger,
		Describe: func(r *activity.Report) {
			r.Node, r.Version, r.Started, r.Store = d.node, d.config.Version, d.began, kind
			if set := d.current(); set != nil {
				r.SHA256, r.Fingerprints = set.SHA256, func() map[string]map[string]string { return difference.Fingerprints(set.Set) }
			}
		},
	})
	p.connections = connections.New(connections.Config{Clock: d.clock, Node: d.node, Store: p.store, Connector: func(permalink string) *gateway.Connector { c, _ := d.current().Find(permalink); return c }, Logger: logger})
	p.acts = acts.New(acts.Config{Node: d.node, Clock: d.clock, Logger: logger, Audit: func() *audit.Log { return d.audit.log }, Store: p.store})
	p.tenants = &tenants.Tenants{Clock: d.clock, Current: func() *connectors.Set { return d.current().Set }}
	running, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.running.Go(func() { p.nodes.Run(running) })
	if shared {
		p.running.Go(func() { p.connections.Run(running) })
	}
	d.people = p
	return nil
}

// openMemory opens a store that ends with the process.
func (p *people) openMemory(ctx context.Context) error {
	db, err := sqlite.OpenMemory(ctx, sqlite.Options{})
	if err != nil {
		return err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	s, err := host.NewState(ctx, host.StateConfig{Store: state.NewMemory(nil), Keys: [][]byte{key}})
	p.store = &records.Store{Records: db, State: s}
	p.closeMemory = func() error { return errors.Join(s.Close(context.Background()), db.Close()) }
	return err
}

func (p *people) close() error {
	p.stop()
	p.running.Wait()
	return p.closeMemory()
}

// hashUser returns a keyed hash of a user, which is the same at all nodes.
func hashUser(seed *atomic.Uint64) func(tenant, user string) uint64 {
	return func(tenant, user string) uint64 {
		var h xxhash.Digest
		h.ResetWithSeed(seed.Load())
		_, _ = h.WriteString(tenant)
		_, _ = h.WriteString("\x00")
		_, _ = h.WriteString(user)
		return h.Sum64()
	}
}

// acted records a login, a refused one, or a logout.
func (p *people) acted(r *http.Request, who, act string, ok bool) {
	a := acts.FromRequest(r, act, "")
	if !ok {
		p.acts.RefuseLogin(r.Context(), a.Address)
		return
	}
	a.Who, a.Outcome = who, acts.Done
	p.acts.Note(r.Context(), a)
}

// acting returns a handler that records an act about a connector before h does it.
func (p *people) acting(act string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := p.acts.Do(r.Context(), acts.FromRequest(r, act, r.PathValue("permalink")), func() error {
			h.ServeHTTP(w, r)
			return nil
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}

// grants returns the numbers of connections by connector and condition, if this is the process of all nodes that counts them. It asks the
// store once a minute at most.
func (p *people) grants() map[[2]string]float64 {
	const countInterval = time.Minute
	p.counting.Lock()
	defer p.counting.Unlock()
	now := p.daemon.clock()
	if now.Sub(p.countTime).Abs() < countInterval {
		return p.counts
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // a database may hang
	defer cancel()
	p.countTime, p.counts = now, nil
	set := p.daemon.current()
	if set == nil || set.State == nil || !p.nodes.First(ctx) {
		return nil
	}
	p.counts = map[[2]string]float64{}
	names := consenting(set.Set)
	found, err := p.connections.Counts(ctx, names...)
	if err != nil {
		return p.counts
	}
	for _, name := range names {
		for _, condition := range connections.Conditions {
			p.counts[[2]string{name, string(condition)}] = float64(found[name][condition])
		}
	}
	return p.counts
}

// consenting returns the permalinks of the connectors that users connect to.
func consenting(set *connectors.Set) (names []string) {
	for _, c := range set.Connectors {
		if c.Upstream().NeedsConsent() {
			names = append(names, c.Definition().Permalink)
		}
	}
	return names
}
