package hosttest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

// store is the store of state of a harness, in memory. What it is given is searched for secrets.
type store struct {
	state.Store
	evidence *evidence
}

// Put records the value, and writes it.
func (s *store) Put(ctx context.Context, l state.Lease, value []byte, expires time.Duration, release bool) (bool, error) {
	s.evidence.text("the store of state", string(l.ID[:])+string(value))
	return s.Store.Put(ctx, l, value, expires, release)
}

// newState returns the state of a host. All hosts of a harness have the same store. The caller holds h.making.
func (h *Harness) newState() *host.State {
	const stateKey = "the state key of package hosttest"
	h.tb.Helper()
	if h.store == nil {
		h.store = &store{state.NewMemory(h.Now), &h.evidence}
	}
	var err error
	h.state, err = host.NewState(context.Background(), host.StateConfig{Store: h.store, Keys: [][]byte{[]byte(stateKey)[:32]}, Clock: h.Now})
	if err != nil {
		h.tb.Fatalf("hosttest: the state cannot be made: %v", err)
	}
	return h.state
}

// Restart closes the host. The next request is one of a new host, which has the same secrets and variables, and the same store
// of state. Everything else that the host has kept is gone.
func (h *Harness) Restart() { h.stop() }

func (h *Harness) stop() {
	h.making.Lock()
	defer h.making.Unlock()
	h.mu.Lock()
	instance, state := h.host, h.state
	h.host, h.state, h.connectors = nil, nil, map[string]*host.Connector{}
	h.mu.Unlock()
	if instance == nil {
		return
	}
	if err := instance.Close(context.Background()); err != nil {
		h.tb.Errorf("hosttest: closing the host: %v", err)
	}
	if state == nil {
		return
	}
	if err := state.Close(context.Background()); err != nil {
		h.tb.Errorf("hosttest: closing the state: %v", err)
	}
}

func init() {
	testworld.NewTrial = func(harness any) testworld.Trial { return harness.(*Harness).trial() }
}

// trial returns what package conform does with a harness. In each request, guests get the same random bytes.
func (h *Harness) trial() testworld.Trial {
	random, secrets := h.config.Random.(*locked), 0
	h.random = func(bytes int64) string { return strings.Repeat("5a", int(bytes)) }
	return testworld.Trial{
		HideSecret: func(name, value string) {
			h.secrets[name] = value
			lines := parts(value)
			h.evidence.secret(fmt.Sprintf("secret %q", name), lines[len(lines)/2])
			secrets = len(h.evidence.needles)
		},
		Begin: func(connection string) { h.set(func() { h.connection = connection }) },
		Reseed: func(seed string) {
			random.mu.Lock()
			defer random.mu.Unlock()
			random.reader = randv2.NewChaCha8(sha256.Sum256([]byte(seed)))
		},
		Dropped: func(err error) bool { return errors.Is(err, hostfn.ErrDropped) },
		End: func() []string {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.searchLogs()
			h.logs, h.calls, h.exchanges = nil, nil, nil
			clear(h.connectors)
			return h.evidence.settle(secrets)
		},
	}
}
