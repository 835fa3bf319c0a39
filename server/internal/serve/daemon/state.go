package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/connectors/statestore"
)

// errStateChanged refuses a change of the member state, which needs a restart: tokens that a host is waiting for belong to the old store.
var errStateChanged = errors.New("cannot be added or changed while this runs: restart it")

// probeInterval is the time between two probes of a store that fails. A process without requests needs them.
const probeInterval = 10 * time.Second

// sharedState is the state of the file. It is opened for the first set, and all sets use it.
type sharedState struct {
	logger *slog.Logger
	clock  func() time.Time

	mu         sync.Mutex
	settings   *connectors.State
	store      *statestore.Store
	inShutdown bool
	// stop ends the probes, and probing is done when they have ended.
	stop    context.CancelFunc
	probing sync.WaitGroup

	errors              *prometheus.CounterVec
	degraded            prometheus.Counter
	waits, waitsSeconds prometheus.Counter
	// failing is the time of the first failure of the store since it last answered. It is zero while the store answers.
	failing time.Time
}

// open is the OpenState of the options with which the file is read.
func (d *daemon) open(ctx context.Context, settings *connectors.State, c *host.Config) error {
	s := d.shared
	s.mu.Lock()
	store, first := s.store, s.settings
	s.mu.Unlock()
	switch {
	case store == nil && d.current() != nil, store != nil && !first.Equal(settings):
		return errStateChanged
	case store == nil:
		var err error
		if store, err = s.start(ctx, settings, *c, d.metrics); err != nil {
			return err
		}
	}
	c.State = store.State
	return nil
}

// start opens the store. It does not hold s.mu while it opens or closes it, because a disk or a database may hang.
func (s *sharedState) start(ctx context.Context, settings *connectors.State, c host.Config, metrics *gatewayMetrics) (*statestore.Store, error) {
	s.observe(metrics)
	store, err := statestore.Open(ctx, settings, statestore.Options{
		Logger: s.logger, Clock: c.Clock, Degraded: func(error) { s.degraded.Inc() }, Observe: s.called,
	})
	if err != nil {
		return nil, err
	}
	if err := s.keep(settings, store); err != nil {
		return nil, errors.Join(err, store.Close(ctx))
	}
	return store, nil
}

// keep keeps an open store for all sets, and begins to probe it. It returns an error if the daemon has ended meanwhile.
func (s *sharedState) keep(settings *connectors.State, store *statestore.Store) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inShutdown {
		return context.Canceled
	}
	s.settings, s.store = settings, store
	probes, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.probing.Go(func() { s.probe(probes, store.Database) })
	return nil
}

// probe reads a row of the store now and then while it fails, until ctx ends.
func (s *sharedState) probe(ctx context.Context, store state.Store) {
	every := time.NewTicker(probeInterval)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if s.since().IsZero() {
				continue
			}
			bounded, cancel := context.WithTimeout(ctx, probeInterval)
			_, _ = store.Get(bounded, state.ID{}) // the store is observed
			cancel()
		}
	}
}

// close writes what the store did not take before, and closes it.
func (s *sharedState) close() error {
	const flushTime = 10 * time.Second // the time in which the store may take what it did not take before, when the daemon ends
	s.mu.Lock()
	store := s.store
	s.inShutdown, s.store = true, nil
	s.mu.Unlock()
	if store == nil {
		return nil
	}
	s.stop()
	s.probing.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	return store.Close(ctx)
}

func (s *sharedState) observe(r *gatewayMetrics) {
	s.errors = r.Counter("state_errors_total", "Calls of the store of state that failed.", "operation")
	s.degraded = r.Counter("state_degraded_exchanges_total", "Token requests that this process made for itself, because the store of state failed.").WithLabelValues()
	s.waits = r.Counter("state_waits_total", "Waits for a token request of another process.").WithLabelValues()
	s.waitsSeconds = r.Counter("state_wait_seconds_total", "Time of these waits.").WithLabelValues()
	r.Gauge("state_unwritten", "Grants with a new token that the store of state has not taken yet.", func() float64 {
		s.mu.Lock()
		store := s.store
		s.mu.Unlock()
		if store == nil {
			return 0
		}
		return float64(store.State.Unwritten())
	})
	r.Flag("state_available", "1 while the store of state answers, 0 since it failed to.", func() bool { return s.since().IsZero() })
}

// since returns the time since which the store fails, or zero.
func (s *sharedState) since() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failing
}

// notice returns a notice for /readyz while the store fails, or "". The gateway stays ready: most requests need no store.
func (s *sharedState) notice() string {
	if since := s.since(); !since.IsZero() {
		return "the store of state has not answered since " + since.UTC().Format(time.RFC3339) + ": this process asks for access tokens by itself, and uses no refresh tokens"
	}
	return ""
}

// called implements [statedb.Observe]. A caller that has gone says nothing about the store.
func (s *sharedState) called(ctx context.Context, operation string, took time.Duration, err error) {
	switch {
	case operation == "wait":
		s.waits.Inc()
		s.waitsSeconds.Add(took.Seconds())
		return
	case errors.Is(ctx.Err(), context.Canceled):
		return
	}
	if err != nil {
		s.errors.WithLabelValues(operation).Inc()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.failing = time.Time{}
	case s.failing.IsZero():
		s.failing = s.clock()
	}
}
