// Package secretstore provides stores of secrets for services: a directory, a file encrypted with age, and HashiCorp Vault or OpenBao, with
// a cache for slow stores. Each is a [host.Secrets]. [host.FirstOf] combines several. Vault is a [host.Keys], too, if it is configured so.
//
// If a store does not have a name, the error is [host.ErrSecretNotFound]. Other failures, such as a store that is down or an invalid file,
// are other errors, so that an old value in another store is not used instead. No error contains a secret, a token, or a server's response.
package secretstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/files"
)

func checkName(name string) error {
	if expr.ValidSecret(name) {
		return nil
	}
	return fmt.Errorf("%w: %q is not a secret's name", host.ErrSecretNotFound, host.Printable(name))
}

// readFile reads a regular file. It returns an error if the file is empty or larger than limit bytes, or if it is to be private and
// others may access it or its group may write it. The group may read it, because Kubernetes mounts files in this way for programs that
// are not root. Errors begin with what, a description of the file.
func readFile(name, what string, limit int64, private bool) ([]byte, error) {
	info, err := os.Stat(name) // before it is opened, because to open a pipe blocks
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", what, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s %q is not a regular file", what, name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", what, err)
	}
	defer file.Close()
	content, err := files.ReadAll(file, limit)
	if err == nil {
		info, err = file.Stat() // of the opened file: its name may lead to another one now
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w", what, err)
	case private && info.Mode().Perm()&0o027 != 0 && runtime.GOOS != "windows": // Windows has no such modes
		return nil, fmt.Errorf("%s %q is open to others (mode %04o): chmod g-w,o= it", what, name, info.Mode().Perm())
	case int64(len(content)) > limit:
		return nil, fmt.Errorf("%s %q has more than %d bytes", what, name, limit)
	case len(content) == 0:
		return nil, fmt.Errorf("%s %q is empty", what, name)
	}
	return content, nil
}

const leastTTL, mostTTL = time.Second, time.Minute

// Cached returns a store that caches the values of another one for ttl, 1 s to 60 s, from the start of each lookup. So a
// rotated secret takes effect after ttl at the latest, or after the time of a lookup if that is longer. Concurrent lookups of
// one name share a single call of store. Errors are not cached, nor are blank values, which a file has while it is written:
// after these, the next caller asks again, and an older value is not used. store must return the same value to every caller.
//
// Cached returns an error if ttl is out of range.
func Cached(store host.Secrets, ttl time.Duration, clock func() time.Time) (host.Secrets, error) {
	if ttl < leastTTL || ttl > mostTTL {
		return nil, fmt.Errorf("secrets may be remembered for %s to %s, not %s", leastTTL, mostTTL, ttl)
	}
	return &cached{store: store, values: memory[string]{ttl: ttl, clock: clock}}, nil
}

type cached struct {
	store   host.Secrets
	lookups flights[string]
	values  memory[string]
}

func (c *cached) Secret(ctx context.Context, name string) (string, error) {
	if value, ok := c.values.get(name); ok {
		return value, nil
	}
	const lookupTime = 30 * time.Second // callers may stop waiting earlier
	return c.lookups.do(ctx, name, lookupTime, func(ctx context.Context) (string, error) {
		if value, ok := c.values.get(name); ok {
			return value, nil // from a lookup that ended just before this one began
		}
		requestTime := c.values.clock()
		value, err := c.store.Secret(ctx, name)
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(value) != "" {
			c.values.put(name, value, requestTime)
		}
		return value, nil
	})
}

// A memory keeps the answers of a store for ttl. It is safe for concurrent use.
type memory[T any] struct {
	ttl   time.Duration
	clock func() time.Time

	mu      sync.Mutex
	answers map[string]answer[T]
	// swept is the time at which expired answers were last removed.
	swept time.Time
}

type answer[T any] struct {
	value       T
	requestTime time.Time
}

func (m *memory[T]) get(name string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.answers[name]
	return a.value, ok && m.fresh(a.requestTime)
}

// fresh reports whether an answer that was asked for at this time may be used, which none from the future may: the clock was set back.
func (m *memory[T]) fresh(requestTime time.Time) bool {
	age := m.clock().Sub(requestTime)
	return age >= 0 && age < m.ttl
}

// put stores an answer that was asked for at this time. Once in ttl it removes expired ones, so that unused secrets leave the memory.
func (m *memory[T]) put(name string, value T, requestTime time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.fresh(m.swept) {
		maps.DeleteFunc(m.answers, func(_ string, a answer[T]) bool { return !m.fresh(a.requestTime) })
		m.swept = m.clock()
	}
	if m.answers == nil {
		m.answers = map[string]answer[T]{}
	}
	m.answers[name] = answer[T]{value, requestTime}
}

func (m *memory[T]) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.answers, name)
}

// Dir is like [host.DirSecrets], but caches each secret for a second. A changed file, whether renamed, written in place or
// reached by a changed link, takes effect after a second at the latest. A new file takes effect at once.
func Dir(dir string, clock func() time.Time) host.Secrets {
	store, _ := Cached(host.DirSecrets(dir), leastTTL, clock) // the TTL is in range
	return store
}

// flights merges concurrent calls with the same key. The work has the values of the first caller's context, but not its
// cancellation, so that it goes on for the others if that caller goes away. The zero value is ready to use.
type flights[T any] struct{ group singleflight.Group }

// do returns the result of work, which may take limit, or of a running call with the same key. A panic is an error.
func (f *flights[T]) do(ctx context.Context, key string, limit time.Duration, work func(context.Context) (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, gaveUp(ctx)
	}
	shared := f.group.DoChan(key, func() (value any, err error) {
		defer func() {
			if recover() != nil {
				err = errors.New("the store of secrets panicked") // with a text that could contain anything
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		return work(ctx)
	})
	select {
	case result := <-shared:
		value, _ := result.Val.(T)
		return value, result.Err
	case <-ctx.Done():
		return none, gaveUp(ctx)
	}
}

func gaveUp(ctx context.Context) error {
	return fmt.Errorf("gave up waiting for a secret: %w", context.Cause(ctx))
}

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
