package console

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
)

// secretMemory is the time for which the console remembers whether a secret is there, so that pages that are made every few seconds
// do not ask a store all the time. secretTime limits how long a page waits for stores.
const (
	secretMemory = 15 * time.Second
	secretTime   = 2 * time.Second
)

// presence remembers which secrets are there, and nothing of their values.
type presence struct {
	mu    sync.Mutex
	known map[string]found
}

// found is the condition of a secret at a time.
type found struct {
	at time.Time
	// problem says why it cannot be read, or is "".
	problem string
}

// secretState is a secret that a connector names.
type secretState struct {
	Name string
	// Problem says why it cannot be read, or is "". Owned reports whether it is a secret of tenants or users, which is not read.
	Problem string
	Owned   bool
}

// secretsOf returns the conditions of secrets, by their names in templates.
func (c *Console) secretsOf(ctx context.Context, s *State, names []string) (all []secretState) {
	ctx, cancel := context.WithTimeout(ctx, secretTime)
	defer cancel()
	for _, name := range names {
		state := secretState{Name: name, Owned: strings.Contains(name, "*")}
		if !state.Owned {
			state.Problem = c.presence.problem(ctx, c.config.Clock(), s.Set, name)
		}
		all = append(all, state)
	}
	return all
}

// problem says why a secret cannot be read, or returns "".
func (p *presence) problem(ctx context.Context, now time.Time, set *connectors.Set, name string) string {
	p.mu.Lock()
	before, known := p.known[name]
	p.mu.Unlock()
	if known && now.Sub(before.at).Abs() < secretMemory {
		return before.problem
	}
	text := ""
	if err := set.CheckSecret(ctx, name, host.User{}); err != nil {
		text = host.Printable(err.Error())
	}
	if ctx.Err() != nil {
		return "the store does not answer in time"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) > 10_000 {
		p.known = map[string]found{}
	}
	p.known[name] = found{now, text}
	return text
}
