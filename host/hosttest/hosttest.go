package hosttest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/lockedreader"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

// Config is the configuration of a connector: the config object of its auth.
type Config = map[string]any

// A Harness is a host with one plugin, and everything that the host connects to. [Harness.Grant], [Harness.Variable],
// [Harness.Limits] and [Harness.AllowHTTP] must be called before the first request. A Harness is safe for concurrent use.
type Harness struct {
	tb TB
	// verbose is set if the test's log shows what calls do.
	verbose bool
	// builtIn is set if the plugin is one of the host's own.
	builtIn bool
	clock   *testworld.Clock

	// making is held while the host or a connector is made. That locks mu, so making must be locked first.
	making sync.Mutex
	// connectors has the connectors by type, origin and configuration.
	connectors map[string]*host.Connector
	// store and state keep the states of the plugin. They are nil if its description lists no states.
	store *store
	state *host.State

	mu sync.Mutex
	// config is that of the host, which is nil before the first request.
	config  host.Config
	host    *host.Host
	secrets map[string]string
	// random returns a text in place of the random bytes that the plugin asks for, or "".
	random func(bytes int64) string
	// authType replaces the plugin's own type if it is not empty.
	authType string
	user     host.User
	// endpoints has the answers of token endpoints by URL. Those of * are for all others.
	endpoints map[string]*[]Answer
	// auths is the list of authentications of connectors, or empty. hosts bounds the hosts of those that are made from now on.
	auths host.Auths
	hosts []string
	// connection is the name of connectors that are made from now on.
	connection string
	api        []Answer
	exchanges  []Exchange
	calls      []host.Attempt
	logs       []slog.Record
	evidence   evidence
}

func newHarness(tb TB, name string, plugin host.Plugin, builtIn bool) *Harness {
	random := &lockedreader.Reader{}
	random.Seed(name)
	h := &Harness{
		tb: tb, builtIn: builtIn, clock: testworld.NewClock(time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)),
		secrets: map[string]string{}, endpoints: map[string]*[]Answer{}, api: []Answer{JSON(200, `{}`)},
		connectors: map[string]*host.Connector{}, connection: "test", random: func(int64) string { return "" },
	}
	h.config = host.Config{
		Secrets: secrets{h}, Identities: secrets{h}, Variables: map[string]string{},
		BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{plugin}, // the plugin may be a built-in one
		Clock: h.Now, Random: random,
		Logger: slog.New(&logger{harness: h}), Base: testworld.Answer(h.tokenEndpoint), Observe: h.observe,
	}
	tb.Cleanup(h.finish)
	return h
}

// Secret sets a secret of the host. The value may appear only in requests; anywhere else it is a leak.
func (h *Harness) Secret(name, value string) {
	h.set(func() { h.secrets[name] = value })
	h.evidence.secret(fmt.Sprintf("secret %q", name), value)
}

// Canary sets a secret of the host to 33 random characters and returns them. Some of the characters have a meaning in URLs.
func (h *Harness) Canary(name string) string {
	secret := testworld.RandomSecret()
	h.Secret(name, secret)
	return secret
}

// Key sets a secret of the host to a signing key for a JWS algorithm. It returns the key that verifies signatures: the public key, or
// for HS256, HS384 and HS512 the secret itself as []byte. All RSA keys of a process are the same.
func (h *Harness) Key(name, algorithm string) any {
	h.tb.Helper()
	private, public, err := testworld.NewKey(algorithm)
	if err != nil {
		h.tb.Fatalf("hosttest: making a key: %v", err)
	}
	h.Secret(name, private)
	return public
}

// Variable sets a variable for get_variable in templates.
func (h *Harness) Variable(name, value string) {
	h.prepare("Variable", func() { h.config.Variables[name] = value })
}

// Grant grants rights to the plugin: sign_raw, reveal. A plugin may keep revealed values in its memory, and what it
// makes of them for a request. Both are leaks anywhere else.
func (h *Harness) Grant(grants ...string) {
	h.prepare("Grant", func() {
		plugin := &h.config.Plugins[0]
		plugin.Grants = append(plugin.Grants, grants...)
	})
}

// Limits sets the limits of the host. Zero values are the host's defaults.
func (h *Harness) Limits(limits host.Limits) {
	h.prepare("Limits", func() { h.config.Limits = limits })
}

// AllowHTTP allows origins and token URLs of plain http, for examples of specifications.
func (h *Harness) AllowHTTP() { h.prepare("AllowHTTP", func() { h.config.Egress.AllowHTTP = true }) }

// Random sets the text that the plugin gets from now on when it asks for random bytes, for examples of specifications. After
// Random("") it gets random bytes again.
func (h *Harness) Random(text string) {
	h.set(func() { h.random = func(int64) string { return text } })
}

// set calls do with h.mu held.
func (h *Harness) set(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

// prepare is like set, and fails the test if the host exists already.
func (h *Harness) prepare(what string, do func()) {
	h.tb.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.host != nil {
		h.tb.Fatalf("hosttest: %s comes too late: the host is there since the first request. Call it before", what)
	}
	do()
}

// Type sets the auth type of connectors that are made from now on, such as an alias of the plugin's type.
func (h *Harness) Type(name string) { h.set(func() { h.authType = name }) }

// UserTokenHosts sets the hosts of token endpoints that may get user.token, see [host.Config]. They may get the tokens of identities, too:
// that of identity('NAME', 'AUDIENCE') is the secret NAME, for any audience.
func (h *Harness) UserTokenHosts(hosts ...string) {
	h.prepare("UserTokenHosts", func() { h.config.UserTokenHosts = hosts })
}

// Auths sets the authentications of connectors, in their order, for a plugin that stands in a list. Those beside it are of the host's own
// types. The one of the plugin's type has the configuration of each request, unless that is nil.
func (h *Harness) Auths(auths ...host.Auth) { h.prepare("Auths", func() { h.auths = auths }) }

// Hosts sets the hosts of connectors that are made from now on, for a plugin whose answers name one, see [host.ConnectorConfig].
func (h *Harness) Hosts(hosts ...string) { h.set(func() { h.hosts = hosts }) }

// As sets the user of the following requests. The zero User means no user. The user's Token is a secret, as those of [Harness.Secret] are.
func (h *Harness) As(u host.User) {
	h.set(func() { h.user = u })
	h.evidence.secret("the user's token", u.Token)
}

// Now returns the host's time, which only [Harness.Advance] changes.
func (h *Harness) Now() time.Time { return h.clock.Now() }

// Advance adds d to the host's time. A negative d sets the clock back.
func (h *Harness) Advance(d time.Duration) { h.clock.Advance(d) }

// Description returns the description of the plugin.
func (h *Harness) Description() abi.Description {
	h.tb.Helper()
	return h.live().Plugins()[0].Description
}

// Exchanges returns the token requests so far.
func (h *Harness) Exchanges() []Exchange { return copied(h, &h.exchanges) }

// Calls returns the attempts that the host has observed so far.
func (h *Harness) Calls() []host.Attempt { return copied(h, &h.calls) }

// Logs returns the log records so far, of all levels.
func (h *Harness) Logs() []slog.Record { return copied(h, &h.logs) }

func copied[T any](h *Harness, list *[]T) []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(*list)
}

// Warnings returns the messages of the log records so far that are warnings.
func (h *Harness) Warnings() []string {
	var texts []string
	for _, r := range h.Logs() {
		if r.Level == slog.LevelWarn {
			texts = append(texts, r.Message)
		}
	}
	return texts
}

// code has the modules that the hosts of all tests have compiled. Without it, compiling takes most of a test's time.
var code = sandbox.NewCode()

// live returns the host, and makes it on the first call.
func (h *Harness) live() *host.Host {
	h.tb.Helper()
	h.making.Lock()
	defer h.making.Unlock()
	h.mu.Lock()
	instance, config := h.host, h.config
	h.mu.Unlock()
	if instance != nil {
		return instance
	}
	random := func(bytes int64) (text string) {
		h.set(func() { text = h.random(bytes) })
		return text
	}
	ctx := testhook.With(context.Background(), testhook.Hooks{
		Memory: h.evidence.memory, Reveal: h.evidence.reveal, Random: random, Explain: h.explain, Code: code,
	})
	instance, err := host.New(ctx, config)
	if err == nil && (len(instance.Plugins()[0].State) > 0 || len(h.auths) > 0) {
		config.State = h.newState()
		config.Plugins = append(slices.Clone(config.Plugins), h.neighbours(instance.Plugins()[0])...)
		_ = instance.Close(ctx)
		instance, err = host.New(ctx, config)
	}
	if err != nil {
		h.tb.Fatalf("hosttest: the plugin cannot be loaded: %v", err)
	}
	if !h.builtIn {
		h.checkType(instance.Plugins()[0])
	}
	h.set(func() { h.host = instance })
	return instance
}

// neighbours returns the host's own plugins for the authentications beside that of the plugin.
func (h *Harness) neighbours(own host.PluginInfo) (all []host.Plugin) {
	types := append([]string{own.Type}, own.Aliases...)
	for _, a := range h.auths {
		if wasm := plugins.Of(a.Type); wasm != nil && !slices.Contains(types, a.Type) {
			all = append(all, host.Plugin{Name: a.Type, Wasm: wasm})
		}
		types = append(types, a.Type)
	}
	return all
}

// explain logs an explanation of a call in the sandbox, in a verbose test. It may hold no credential.
func (h *Harness) explain(text string) {
	h.evidence.text("the explanation of a call", text)
	if h.verbose {
		h.tb.Logf("%s", text)
	}
}

// checkType fails the test if a host could not load the plugin beside the built-in ones, which the harness leaves out.
func (h *Harness) checkType(p host.PluginInfo) {
	for _, name := range append([]string{p.Type}, p.Aliases...) {
		if slices.Contains(plugins.Types(), name) {
			h.tb.Errorf("hosttest: the auth type %q is one of the host's own, so that no host loads this plugin: give it another in Describe", name)
		}
	}
}

func (h *Harness) observe(_ context.Context, c host.Attempt) {
	h.set(func() { h.calls = append(h.calls, c) })
	h.evidence.failure("the error that Config.Observe was given", c.Err)
}

// finish waits for calls in flight, and reports leaks.
func (h *Harness) finish() {
	h.stop()
	h.set(h.searchLogs)
	for _, leak := range h.evidence.leaks() {
		h.tb.Errorf("hosttest: %s", leak)
	}
}

// searchLogs has the log records searched. The caller holds h.mu.
func (h *Harness) searchLogs() {
	for _, r := range h.logs {
		line := []string{r.Message}
		r.Attrs(func(a slog.Attr) bool {
			line = append(line, a.Key+"="+a.Value.Resolve().String())
			return true
		})
		h.evidence.text("a log line of level "+r.Level.String(), strings.Join(line, " "))
	}
}

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
	random, secrets := h.config.Random.(*lockedreader.Reader), 0
	h.random = func(bytes int64) string { return strings.Repeat("5a", int(bytes)) }
	return testworld.Trial{
		HideSecret: func(name, value string) {
			h.secrets[name] = value
			lines := parts(value)
			h.evidence.secret(fmt.Sprintf("secret %q", name), lines[len(lines)/2])
			secrets = len(h.evidence.needles)
		},
		Begin:   func(connection string) { h.set(func() { h.connection = connection }) },
		Reseed:  random.Seed,
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
