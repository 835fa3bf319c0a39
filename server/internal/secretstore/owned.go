package secretstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host"
)

// Owned has what tenants have given to a store of state. It is opened after the stores of secrets, because its own secrets are in those.
type Owned struct {
	what  string
	clock func() time.Time
	store atomic.Pointer[host.Secrets]
}

// NewOwned returns a store without a store of state. what is secret or variable.
func NewOwned(what string, clock func() time.Time) *Owned { return &Owned{what: what, clock: clock} }

// Bind sets what the store of state has.
func (o *Owned) Bind(store *host.Owned) {
	cached, _ := Cached(store, leastTTL, o.clock) // the TTL is in range
	o.store.Store(&cached)
}

// Secret implements [host.Secrets]. A change counts after a second at the latest.
func (o *Owned) Secret(ctx context.Context, name string) (string, error) {
	if c, ok := ctx.Value(candidateKey{}).(candidate); ok && c == (candidate{o.what, name, c.text}) {
		return c.text, nil
	}
	if store := o.store.Load(); store != nil {
		return (*store).Secret(ctx, name)
	}
	return "", fmt.Errorf("%w: the store of state is not open", host.ErrSecretNotFound)
}

// candidate is a text that is tried before it is kept.
type candidate struct{ what, name, text string }

type candidateKey struct{}

// WithCandidate returns a context in which a secret or a variable of a tenant is the text.
func WithCandidate(ctx context.Context, what, name, text string) context.Context {
	return context.WithValue(ctx, candidateKey{}, candidate{what, name, text})
}
