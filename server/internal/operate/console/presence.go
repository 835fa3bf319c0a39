package console

import (
	"context"
	"strings"
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

// maxKnown is the maximum number of secrets of which the console remembers that.
const maxKnown = 10_000

// found is the condition of a secret at a time. Nothing of its value is remembered.
type found struct {
	checkedAt time.Time
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
			state.Problem = c.secretProblem(ctx, s.Set, name)
		}
		all = append(all, state)
	}
	return all
}

// secretProblem says why a secret cannot be read, or returns "".
func (c *Console) secretProblem(ctx context.Context, set *connectors.Set, name string) string {
	now := c.config.Clock()
	entry, ok := c.conditions.Get(name)
	if ok && now.Sub(entry.checkedAt).Abs() < secretMemory {
		return entry.problem
	}
	text := ""
	if err := set.CheckSecret(ctx, name, host.User{}); err != nil {
		text = host.Printable(err.Error())
	}
	if ctx.Err() != nil {
		return "the store does not answer in time"
	}
	c.conditions.Add(name, found{now, text})
	return text
}
