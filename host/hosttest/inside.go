package hosttest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/keywright/keywright/host"
)

// secrets is the host's view of the harness's secrets.
type secrets struct{ harness *Harness }

func (s secrets) Secret(_ context.Context, name string) (string, error) {
	s.harness.mu.Lock()
	defer s.harness.mu.Unlock()
	if value, ok := s.harness.secrets[name]; ok {
		return value, nil
	}
	return "", fmt.Errorf("%w: set one with Harness.Canary or Harness.Secret, or in secrets of a case", host.ErrSecretNotFound)
}

// locked makes a reader safe for concurrent use.
type locked struct {
	mu     sync.Mutex
	reader io.Reader
}

func (l *locked) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reader.Read(p)
}

// logger records what the host logs.
type logger struct {
	harness *Harness
	attrs   []slog.Attr
}

func (*logger) Enabled(context.Context, slog.Level) bool { return true }

func (l *logger) Handle(_ context.Context, r slog.Record) error {
	r = r.Clone()
	r.AddAttrs(l.attrs...)
	l.harness.mu.Lock()
	defer l.harness.mu.Unlock()
	l.harness.logs = append(l.harness.logs, r)
	return nil
}

func (l *logger) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logger{harness: l.harness, attrs: append(slices.Clone(l.attrs), attrs...)}
}

// WithGroup returns l itself: for a search of all values, the groups of attributes do not matter.
func (l *logger) WithGroup(string) slog.Handler { return l }
