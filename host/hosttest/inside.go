package hosttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/template"
)

// secrets is the host's view of the harness's secrets. The token of an identity is the secret of its name.
type secrets struct{ harness *Harness }

func (s secrets) Secret(_ context.Context, name string) (string, error) {
	s.harness.mu.Lock()
	defer s.harness.mu.Unlock()
	if value, ok := s.harness.secrets[name]; ok {
		return value, nil
	}
	return "", fmt.Errorf("%w: set one with Harness.Canary or Harness.Secret, or in secrets of a case", host.ErrSecretNotFound)
}

// Hosts implements host.Identities.
func (s secrets) Hosts(string, string) []string { return s.harness.config.UserTokenHosts }

// Identity implements host.Identities.
func (s secrets) Identity(ctx context.Context, r host.IdentityRequest) (string, error) {
	return s.Secret(ctx, r.Name)
}

type locked struct {
	mu     sync.Mutex
	reader io.Reader
}

func (l *locked) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reader.Read(p)
}

type logger struct {
	harness *Harness
	attrs   []slog.Attr
}

func (*logger) Enabled(context.Context, slog.Level) bool { return true }

func (l *logger) Handle(_ context.Context, r slog.Record) error {
	r = r.Clone()
	r.AddAttrs(l.attrs...)
	l.harness.set(func() { l.harness.logs = append(l.harness.logs, r) })
	return nil
}

func (l *logger) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logger{harness: l.harness, attrs: append(slices.Clone(l.attrs), attrs...)}
}

// WithGroup returns l itself: for a search of all values, the groups of attributes do not matter.
func (l *logger) WithGroup(string) slog.Handler { return l }

// Render returns a text whose expressions are evaluated, as those of a connector are, with the secrets, the variables, the user and
// the time of the harness.
func (h *Harness) Render(text string) (string, error) {
	compiled, wrong := template.Compile(text)
	if len(wrong) > 0 {
		return "", wrong[0]
	}
	h.mu.Lock()
	v := values{h, maps.Clone(h.config.Variables), h.user}
	h.mu.Unlock()
	parts, err := compiled.Render(v)
	if err != nil {
		return "", err
	}
	return template.Join(parts), nil
}

type values struct {
	harness   *Harness
	variables map[string]string
	user      host.User
}

func (v values) Secret(name string) (string, error) {
	return secrets{v.harness}.Secret(context.Background(), name)
}

func (v values) Variable(name string) (string, bool) {
	value, ok := v.variables[name]
	return value, ok
}

func (v values) User() *template.User {
	u := v.user
	return &template.User{ID: u.ID, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName, Token: u.Token}
}

func (v values) TenantID() string { return v.user.TenantID }

func (v values) Now() int64 { return v.harness.Now().Unix() }

func (v values) Identity(i template.Identity) (string, error) { return v.Secret(i.Name) }

func (values) Discovered(template.Discovery) (string, error) {
	return "", errors.New("an expected text cannot be discovered: write it")
}

func (values) UUID() (string, error) {
	return "", errors.New("an expected text cannot be random: use {matches: …}")
}
