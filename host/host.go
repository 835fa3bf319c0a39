package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/describe"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/run"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/send"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/fairqueue"
	"github.com/keywright/keywright/plugins"
)

// A Host loads plugins and runs connectors. Make one with [New], and close it with [Host.Close].
type Host struct {
	config  Config
	runtime *sandbox.Runtime
	cache   *tokenCache
	signer  *signing.Signer
	dialer  *dialer
	hooks   testhook.Hooks
	// shared has the parts that the runners of all connectors use.
	shared         run.Shared
	userTokenHosts connect.HostList
	types          map[string]*plugin
	order          []*plugin

	// dialers holds the dialers of connectors with an Egress of their own. mu guards it.
	mu      sync.Mutex
	dialers map[dialerKey]*dialer

	// identities holds the transports of connectors with TLS of their own.
	identities *send.Identities

	// grants holds the names of grants that the store has returned.
	grants knownGrants
}

// New returns a Host with its plugins loaded. It returns an error if c is invalid or a plugin cannot be loaded. If ctx
// ends first, New loads no further plugin, and its error wraps the context's. It waits for the plugins that it is compiling.
// A full disk or a damaged file in CodeCache is not an error: New then compiles all plugins without it and logs a warning.
func New(ctx context.Context, c Config) (*Host, error) {
	h, err := tryHost(ctx, c)
	if c.CodeCache == "" || !errors.Is(err, sandbox.ErrCompiler) {
		return h, err
	}
	dir := c.CodeCache
	c.CodeCache = ""
	h, retryErr := tryHost(ctx, c)
	if retryErr == nil {
		h.config.Logger.LogAttrs(ctx, slog.LevelWarn, "the code cache cannot be used, and everything was compiled: see to its disk, or delete what it holds",
			slog.String("directory", dir), slog.Any("error", err))
	}
	return h, retryErr
}

// Inspect returns the description of a plugin, which it loads as a host with these limits does. It also accepts a plugin whose
// auth type is that of a built-in one.
func Inspect(ctx context.Context, p Plugin, limits Limits) (PluginInfo, error) {
	h, err := New(ctx, Config{BuiltIns: []Plugin{}, Plugins: []Plugin{p}, Limits: limits})
	if err != nil {
		return PluginInfo{}, err
	}
	return h.order[0].info, h.Close(ctx)
}

// tryHost makes a host with the defaults in place of what c leaves out.
func tryHost(ctx context.Context, c Config) (*Host, error) {
	c = c.withDefaults()
	if err := c.Limits.check(); err != nil {
		return nil, err
	}
	h := &Host{config: c, signer: signing.New(c.Limits.Keys), types: map[string]*plugin{}, dialers: map[dialerKey]*dialer{}}
	var err error
	if h.userTokenHosts, err = connect.ParseHostList(c.UserTokenHosts); err != nil {
		return nil, fmt.Errorf("UserTokenHosts: %w", err)
	}
	if h.config.Previous = nil; c.Previous != nil && c.Previous.cache.state == c.State {
		h.cache = c.Previous.cache
	} else if h.cache, err = newTokenCache(&c); err != nil {
		return nil, err
	}
	h.shared.Tokens, h.shared.Turns, h.shared.MaxEntries = h.cache.tokens, h.cache.turns, c.Limits.CachePerPartition
	h.shared.Reuse, h.shared.NoReuse = run.NewReuse(c.Limits.MutationsBytes, c.Limits.ScannersBytes), c.NoReuse
	h.shared.Exchanges, h.shared.Keys = fairqueue.New(c.Limits.ConcurrentExchanges, 0), fairqueue.New(c.Limits.ConcurrentKeys, 0)
	h.shared.Ahead = fairqueue.New(max(1, c.Limits.ConcurrentExchanges/4), 0)
	h.grants.cache, _ = lru.New[lease.Key, knownGrant](1 << 16) // the only error is for sizes below one
	h.identities = send.NewIdentities()
	h.hooks = testhook.Of(ctx)
	if h.dialer, err = newDialer(c.Egress, c.Base); err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	h.runtime, err = sandbox.New(ctx, sandbox.Config{
		Limits: limitsFor[sandbox.Limits](c.Limits), Clock: c.Clock, Random: c.Random, Observe: h.hooks.Memory, CodeCache: c.CodeCache, Code: h.hooks.Code,
	})
	if err != nil {
		return nil, fmt.Errorf("the sandbox cannot be made: %w", err)
	}
	if err := h.loadAll(ctx); err != nil {
		return nil, errors.Join(err, h.runtime.Close(ctx))
	}
	h.cache.tokens.Resize(int64(c.Limits.TokensBytes)) // last, so that a host that cannot be made drops no tokens of another one
	return h, nil
}

func (c Config) withDefaults() Config {
	if c.BuiltIns == nil {
		for _, wasm := range plugins.Default() {
			c.BuiltIns = append(c.BuiltIns, Plugin{Name: "built-in", Wasm: wasm})
		}
	}
	if c.Secrets == nil {
		c.Secrets = MapSecrets{}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Clock == nil {
		c.Clock = time.Now
	}
	c.Random = cmp.Or(c.Random, rand.Reader)
	c.Limits = c.Limits.WithDefaults()
	c.Variables = maps.Clone(c.Variables)
	return c
}

// ballast is the size in bytes of a part of the heap that is never used while plugins are compiled. The garbage collector waits
// until the heap has doubled. In a process that has just started it would run for every few megabytes, and take a third of the
// time. Memory that nobody writes to is not resident.
const ballast = 16 << 20

// loadAll compiles the plugins, at most as many at once as there are processors. It begins with the largest, so that no
// processor is idle while another still compiles one: compiling takes most of a host's start.
func (h *Host) loadAll(ctx context.Context) error {
	if h.config.CodeCache == "" { // otherwise most is compiled already, and the collection that the ballast itself causes takes longer
		unused := make([]byte, ballast)
		defer runtime.KeepAlive(unused)
	}
	sources := slices.Concat(h.config.BuiltIns, h.config.Plugins)
	prepared, errs := make([]*plugin, len(sources)), make([]error, len(sources))
	var all sync.WaitGroup
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	largest := make([]int, len(sources))
	for i := range largest {
		largest[i] = i
	}
	slices.SortStableFunc(largest, func(a, b int) int { return cmp.Compare(len(sources[b].Wasm), len(sources[a].Wasm)) })
	for _, i := range largest {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			if ctx.Err() == nil {
				prepared[i], errs[i] = h.prepare(ctx, sources[i])
			}
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("loading the plugins: %w", err)
	}
	for i, p := range prepared {
		switch {
		case errors.As(errs[i], new(*LimitError)): // it names the plugin
			return errs[i]
		case errs[i] != nil:
			return fmt.Errorf("plugin %q: %w", sources[i].Name, errs[i])
		}
		p.info.BuiltIn = i < len(h.config.BuiltIns)
		if err := h.register(p); err != nil {
			return fmt.Errorf("plugin %q: %w", sources[i].Name, err)
		}
	}
	return nil
}

func (h *Host) prepare(ctx context.Context, source Plugin) (*plugin, error) {
	p := &plugin{Plugin: connect.Plugin{Guest: source.guest, Digest: sha256.Sum256(source.Wasm), Grants: map[string]bool{}}}
	digest := hex.EncodeToString(p.Digest[:])
	if source.SHA256 != "" && !strings.EqualFold(source.SHA256, digest) {
		return nil, fmt.Errorf("its SHA-256 is %s, but %s is pinned", digest, Printable(source.SHA256))
	}
	for _, grant := range source.Grants {
		if !slices.Contains(contract.Grants, grant) {
			return nil, fmt.Errorf("there is no grant %q; there are %s", grant, strings.Join(contract.Grants, ", "))
		}
		p.Grants[grant] = true
	}
	p.deterministic = true
	p.info = PluginInfo{Name: source.Name, SHA256: digest, Size: len(source.Wasm), Grants: source.Grants}
	if err := p.setLimits(source.Limits, h.config.Limits); err != nil {
		return nil, err
	}
	if p.Guest == nil {
		module, err := h.runtime.Load(ctx, source.Wasm, limitsFor[sandbox.Limits](p.limits))
		if err != nil {
			return nil, err
		}
		p.Guest, p.deterministic = module, module.Deterministic()
		p.info.NotPooled, p.info.Imports, p.info.Exports = module.NotPooled(), module.Imports(), module.Exports()
	}
	description, fuel, err := h.describe(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	p.info.Description, p.info.DescribeFuel = *description, fuel
	p.Description, p.CallTime = description, p.limits.CallTime
	if p.Type, err = describe.Check(description, p.Guest.Has); err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	return p, nil
}

// describe runs the describe export of a plugin, and returns its decoded output and the fuel that it used.
func (h *Host) describe(ctx context.Context, p *plugin) (*abi.Description, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limits.CallTime)
	defer cancel()
	log := &connectorLog{logger: h.config.Logger}
	plan := &hostfn.Plan{
		Random: h.config.Random, Clock: h.config.Clock, Log: log.line, Limits: limitsFor[hostfn.Limits](p.limits),
		GuestWarns: func(ctx context.Context, text string) { log.line(ctx, contract.LevelWarn, text) },
	}
	call := hostfn.New(ctx, plan, &hostfn.Inputs{}, hostfn.Describing)
	result, failure := p.run(ctx, contract.ExportDescribe, call)
	call.Flush()
	if failure != nil {
		return nil, 0, failure
	}
	var d abi.Description
	if err := describe.Decode(result.Output, &d); err != nil {
		return nil, 0, err
	}
	return &d, result.Fuel, nil
}

// register adds a plugin under its type and its aliases. It returns an error if another plugin has one of these names.
func (h *Host) register(p *plugin) error {
	names := append([]string{p.info.Type}, p.info.Aliases...)
	for _, name := range names {
		if holder := h.types[name]; holder != nil {
			return fmt.Errorf("auth type %q is taken already, by plugin %q: give this one another", name, holder.info.Name)
		}
	}
	for _, name := range names {
		h.types[name] = p
	}
	h.order = append(h.order, p)
	return nil
}

func (h *Host) userAgent() string { return cmp.Or(h.config.UserAgent, "keywright") }

// dialerFor returns the dialer of a connector whose own Egress is e, or nil. Connectors with the same Egress share one. With an error,
// the dialer is that of the host.
func (h *Host) dialerFor(e *Egress) (*dialer, error) {
	switch {
	case e == nil:
		return h.dialer, nil
	case h.config.Base != nil:
		return h.dialer, errors.New("needs the transport of the host, and Config.Base takes its place: leave one of them out")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := keyOfEgress(*e)
	if d := h.dialers[key]; d != nil {
		return d, nil
	}
	d, err := newDialer(*e, nil)
	if err != nil {
		return h.dialer, err
	}
	h.dialers[key] = d
	return d, nil
}

// Plugins returns the loaded plugins, the built-in ones first.
func (h *Host) Plugins() []PluginInfo {
	list := make([]PluginInfo, len(h.order))
	for i, p := range h.order {
		list[i] = p.info
	}
	return list
}

// Plugin returns the plugin that has an auth type, under its name or an alias, and whether there is one.
func (h *Host) Plugin(authType string) (PluginInfo, bool) {
	if p := h.types[authType]; p != nil {
		return p.info, true
	}
	return PluginInfo{}, false
}

// Base returns [Config].Base, or the host's own transport if that is nil. [Connector.Transport] uses it when its base
// is nil. It adds no credential.
func (h *Host) Base() http.RoundTripper { return h.dialer.api }

// Variable returns the value of a variable, as get_variable does in templates, and whether the host has it. The name of one of a tenant is
// tenants/ID/NAME.
func (h *Host) Variable(ctx context.Context, name string) (value string, ok bool) {
	if value, ok = h.config.Variables[name]; ok || h.config.OwnedVariables == nil || !strings.Contains(name, "/") {
		return value, ok
	}
	value, err := h.config.OwnedVariables.Secret(ctx, name)
	return value, err == nil
}

// Close refuses new calls, waits for the calls in flight, and frees the sandbox. If ctx ends first, Close returns its
// error at once, and the sandbox is not freed.
func (h *Host) Close(ctx context.Context) error {
	if err := h.shared.Gate.Close(ctx); err != nil {
		return err
	}
	if h.config.Base == nil {
		h.dialer.closeIdle()
	}
	for _, own := range h.dialers {
		own.closeIdle()
	}
	h.identities.Purge()
	return h.runtime.Close(ctx)
}
