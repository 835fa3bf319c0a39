package hosttest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	randv2 "math/rand/v2"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/internal/testworld"
)

func init() {
	testworld.NewTrial = func(harness any) testworld.Trial { return harness.(*Harness).trial() }
}

// trial returns what package conform does with a harness. In each request, guests get the same random bytes.
func (h *Harness) trial() testworld.Trial {
	random, secrets := h.config.Random.(*locked), 0
	h.fixedRandom = true
	return testworld.Trial{
		HideSecret: func(name, value, part string) {
			h.secrets[name] = value
			h.evidence.secret(fmt.Sprintf("secret %q", name), part)
			secrets = len(h.evidence.needles)
		},
		Begin: func(connection string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.connection = connection
		},
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
