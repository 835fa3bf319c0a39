package hosttest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"maps"
	randv2 "math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/sdk"
)

// Config is the configuration of a connector, the config object of its auth.
type Config = map[string]any

// Run runs a test of a plugin as two subtests: native, with p as it is, and sandbox, with the module of the path wasm,
// relative to the package's directory, which must be that of the plugin's sources. Each has a harness of its own.
//
// A plugin that is not written in Go has no p: nil runs the sandbox alone, and that its module is up to date is for its
// own build to check.
func Run(t *testing.T, p sdk.Plugin, wasm string, test func(*testing.T, *Harness)) {
	t.Helper()
	seed := sha256.Sum256([]byte(t.Name())) // both runs see the same random bytes
	if p != nil {
		t.Run("native", func(t *testing.T) {
			test(t, newHarness(t, seed, func(grants []string) host.Plugin {
				return testhook.NativePlugin("native", newNative(t, p), grants).(host.Plugin)
			}, builtIn(wasm)))
		})
	}
	t.Run("sandbox", func(t *testing.T) {
		module := readModule(t, wasm, p != nil)
		test(t, newHarness(t, seed, func(grants []string) host.Plugin {
			return host.Plugin{Name: filepath.Base(wasm), Wasm: module, Grants: grants}
		}, builtIn(wasm)))
	})
}

// Harness is a host with one plugin, and the world around it. What prepares it ([Harness.Grant], [Harness.Variable],
// [Harness.Limits]) comes before the first request. It may be used by several goroutines.
type Harness struct {
	tb     testing.TB
	plugin func(grants []string) host.Plugin
	// builtIn says that the plugin is one of the host's own.
	builtIn bool
	random  io.Reader

	making     sync.Mutex                 // held while the host or a connector is made, which takes the other lock
	connectors map[string]*host.Connector // by type, origin and configuration

	mu        sync.Mutex
	host      *host.Host
	grants    []string
	variables map[string]string
	limits    host.Limits
	secrets   map[string]string
	authType  string // instead of the plugin's own
	user      host.User
	now       time.Time
	endpoints map[string]*script // by URL
	api       *script
	exchanges []Exchange
	calls     []host.Attempt
	logs      []slog.Record
	evidence  evidence
}

func newHarness(tb testing.TB, seed [32]byte, plugin func(grants []string) host.Plugin, builtIn bool) *Harness {
	h := &Harness{
		tb:         tb,
		plugin:     plugin,
		builtIn:    builtIn,
		random:     &locked{reader: randv2.NewChaCha8(seed)},
		variables:  map[string]string{},
		secrets:    map[string]string{},
		now:        time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC),
		endpoints:  map[string]*script{},
		api:        newScript(JSON(200, `{}`)),
		connectors: map[string]*host.Connector{},
	}
	tb.Cleanup(h.finish)
	return h
}

// Secret returns the host a secret, or another value of one. The value may come out nowhere but in requests.
func (h *Harness) Secret(name, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.secrets[name] = value
	h.evidence.secret(fmt.Sprintf("secret %q", name), value)
}

// Canary returns the host a secret of 32 random characters, some of which mean something in URLs, and returns its
// value.
func (h *Harness) Canary(name string) string {
	secret := randomText(32)
	h.Secret(name, secret)
	return secret
}

func randomText(n int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=&%~"
	random := make([]byte, n)
	_, _ = rand.Read(random) // never fails
	for i, b := range random {
		random[i] = alphabet[int(b)%len(alphabet)]
	}
	return string(random)
}

// Variable returns templates a variable, for get_variable.
func (h *Harness) Variable(name, value string) {
	h.prepare("Variable", func() { h.variables[name] = value })
}

// Grant allows the plugin what an operator may allow it: sign_raw, reveal. What a plugin reveals it may have in its memory,
// and what it makes of that, for a request, as well; neither may come out anywhere else.
func (h *Harness) Grant(grants ...string) {
	h.prepare("Grant", func() { h.grants = append(h.grants, grants...) })
}

// Limits are those of the host; zero values are its defaults.
func (h *Harness) Limits(limits host.Limits) {
	h.prepare("Limits", func() { h.limits = limits })
}

func (h *Harness) prepare(what string, do func()) {
	h.tb.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.host != nil {
		h.tb.Fatalf("hosttest: %s comes too late: the host is there since the first request. Call it before", what)
	}
	do()
}

// Type names the auth type of the connectors that are made from now on, instead of the plugin's own: an alias.
func (h *Harness) Type(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.authType = name
}

// As says for whom the next requests are made; the zero User is nobody.
func (h *Harness) As(u host.User) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.user = u
}

// Now is the host's time, which passes only when the test says so.
func (h *Harness) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// Advance lets time pass; less than nothing sets the clock back.
func (h *Harness) Advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// Description returns the description of the plugin.
func (h *Harness) Description() abi.Description {
	h.tb.Helper()
	return h.live().Plugins()[0].Description
}

// Exchanges are the token requests so far.
func (h *Harness) Exchanges() []Exchange {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.exchanges)
}

// Calls returns the calls of the plugin that the host has observed so far.
func (h *Harness) Calls() []host.Attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// Logs are the log lines so far, of all levels.
func (h *Harness) Logs() []slog.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.logs)
}

// Warnings are the texts of the log lines so far that have the level of a warning.
func (h *Harness) Warnings() []string {
	var texts []string
	for _, r := range h.Logs() {
		if r.Level == slog.LevelWarn {
			texts = append(texts, r.Message)
		}
	}
	return texts
}

// live returns the host, made when it is first needed.
func (h *Harness) live() *host.Host {
	h.tb.Helper()
	h.making.Lock()
	defer h.making.Unlock()
	h.mu.Lock()
	made, grants, variables, limits := h.host, h.grants, maps.Clone(h.variables), h.limits
	h.mu.Unlock()
	if made != nil {
		return made
	}
	ctx := testhook.WithRevealObserver(context.Background(), h.evidence.reveal)
	ctx = testhook.WithMemoryObserver(ctx, h.evidence.memory)
	made, err := host.New(ctx, host.Config{
		Secrets:   secrets{h},
		BuiltIns:  []host.Plugin{}, // the plugin may be of the type of one of them
		Plugins:   []host.Plugin{h.plugin(grants)},
		Variables: variables,
		Limits:    limits,
		Logger:    slog.New(&logger{harness: h}),
		Base:      tokenEndpoints{h},
		Clock:     h.Now,
		Random:    h.random,
		Observe:   h.observe,
	})
	if err != nil {
		h.tb.Fatalf("hosttest: the plugin cannot be loaded: %v", err)
	}
	if !h.builtIn {
		h.checkType(made.Plugins()[0])
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.host = made
	return made
}

// checkType complains of a type that no host could load beside its built-in plugins, which are not there in a test.
func (h *Harness) checkType(p host.PluginInfo) {
	for _, name := range append([]string{p.Type}, p.Aliases...) {
		if slices.Contains(plugins.Types(), name) {
			h.tb.Errorf("hosttest: the auth type %q is one of the host's own, so that no host loads this plugin: give it another in Describe", name)
		}
	}
}

func (h *Harness) observe(_ context.Context, c host.Attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, c)
	h.evidence.failure("the error that Config.Observe was given", c.Err)
}

// finish waits for calls in flight, and looks through all that came out.
func (h *Harness) finish() {
	h.mu.Lock()
	made := h.host
	h.mu.Unlock()
	if made != nil {
		if err := made.Close(context.Background()); err != nil {
			h.tb.Errorf("hosttest: closing the host: %v", err)
		}
	}
	for _, r := range h.Logs() {
		line := []string{r.Message}
		r.Attrs(func(a slog.Attr) bool {
			line = append(line, a.Key+"="+a.Value.Resolve().String())
			return true
		})
		h.evidence.text("a log line of level "+r.Level.String(), strings.Join(line, " "))
	}
	for _, leak := range h.evidence.leaks() {
		h.tb.Errorf("hosttest: %s", leak)
	}
}

// secrets are the host's view of the harness's secrets.
type secrets struct{ harness *Harness }

func (s secrets) Secret(_ context.Context, name string) (string, error) {
	s.harness.mu.Lock()
	defer s.harness.mu.Unlock()
	if value, ok := s.harness.secrets[name]; ok {
		return value, nil
	}
	return "", fmt.Errorf("%w: %q; give the test one with Harness.Canary or Harness.Secret", host.ErrSecretNotFound, name)
}

// locked lets calls that run at once share a reader.
type locked struct {
	mu     sync.Mutex
	reader io.Reader
}

func (l *locked) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reader.Read(p)
}

// logger keeps what the host logs.
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

// WithGroup keeps the attributes of groups beside the others: what they hold is what counts here.
func (l *logger) WithGroup(string) slog.Handler { return l }
