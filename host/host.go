package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/plugins"
)

// Config configures a host. The zero Config is a host with the five built-in auth types and no secrets. Its
// interfaces and functions are used from many goroutines at once.
type Config struct {
	// Secrets has the secrets that templates name. Nil: none.
	Secrets Secrets
	// BuiltIns are the auth types that Keywright comes with. Nil: all five of package plugins. Empty but not nil: none. A
	// host with fewer starts faster.
	BuiltIns []Plugin
	// Plugins are further auth types.
	Plugins []Plugin
	// Variables are the texts that get_variable returns in templates. They are not secret.
	Variables map[string]string
	// Egress says where the host itself may connect to.
	Egress Egress
	// Limits bound what plugins may use.
	Limits Limits
	// Logger takes the log. Nil: logs are dropped.
	Logger *slog.Logger

	// Tokens is a cache that outlives the host. Nil is one that ends with it.
	Tokens *TokenCache
	// Base sends token requests, and the requests of a Transport that is given no base. Nil is a transport that keeps
	// to Egress; another one has to guard itself.
	Base http.RoundTripper
	// Clock is the time, in templates, tokens and the cache. Nil is time.Now.
	Clock func() time.Time
	// Random is read for sealed values and uuid(); it must be fit for keys. Nil is crypto/rand.
	Random io.Reader
	// CodeCache is a directory that keeps the compiled code of plugins, so that the next host starts faster. It is made
	// when there is none. What lies there runs outside of the sandbox: New refuses a directory that others may write to or
	// replace. Empty: none.
	CodeCache string
	// NoReuse has the plugin run for each request. Otherwise a mutation is used again while all that it came from is
	// what it was, unless the plugin read the request, the time or anything random, signed, or logged.
	NoReuse bool
	// Observe is told once of each attempt to authenticate a request, before that goes on or fails: of the second one after a
	// 401 too, and of one that gave up waiting for a token, when that has come. What is refused before that, such as a
	// request for another origin, is not counted. Nil: nobody.
	Observe func(context.Context, Call)
}

// Call is how one attempt to authenticate a request went.
type Call struct {
	Connector string
	Type      string
	Sandbox   time.Duration // of the guest and its host functions; waits for token endpoints and for other guests are not in it
	Fuel      int64         // units of work of the guest: the same for the same call on the same input
	Exchanges int           // token requests that were sent
	Token     time.Duration // that token endpoints took
	Cached    bool          // a cached value was read
	Reused    bool          // the plugin was not run: the mutation is that of an earlier call
	Err       error         // nil when the plugin gave what the request needs
}

// Egress says where the host may connect to. The zero value allows https to public addresses.
type Egress struct {
	AllowHTTP    bool           // origins and token URLs may be plain http: for development
	AllowPrivate bool           // private and loopback addresses may be dialled
	Allow        []netip.Prefix // further addresses that may be dialled
	Proxy        *url.URL       // for all connections; the environment's proxies are ignored
	TLS          *tls.Config    // roots and client certificates; TLS 1.2 at least, always verified
}

// Transport makes a transport that connects only to where it may, for requests that no connector sends. It checks the
// very address that it dials, so that no name and no redirect leads inside. It leaves compression to its user: it neither
// asks for it nor undoes it. AllowHTTP is not its concern, but that of who makes the URLs. An error says what of Egress
// cannot be.
func (e Egress) Transport() (*http.Transport, error) {
	transport, err := e.policy().Transport()
	if err != nil {
		return nil, err
	}
	transport.DisableCompression = true // it would add Accept-Encoding: a request goes out as it was made
	return transport, nil
}

func (e Egress) policy() egress.Policy {
	return egress.Policy{AllowPrivate: e.AllowPrivate, Allow: e.Allow, Proxy: e.Proxy, TLS: e.TLS}
}

// Host runs connectors. Make one with [New], and close it.
type Host struct {
	config  Config
	runtime *sandbox.Runtime
	cache   *TokenCache
	signer  *signing.Signer
	base    http.RoundTripper
	tokens  *http.Client
	// revealed is called with what guests reveal, in tests of plugins.
	revealed func(text string)
	// exchanging has a place for each call that may wait for token endpoints, because a guest that waits keeps its memory.
	exchanging chan struct{}
	types      map[string]*plugin
	order      []*plugin

	// reusable holds the results of calls of connectors that name something of the user.
	reusable *lru.Cache[reuseKey, *reusable]

	mu     sync.Mutex // of entering and closing
	closed atomic.Bool
	calls  sync.WaitGroup
}

// New makes a host and loads its plugins. When the context ends, it loads no further plugin, and the error wraps the
// context's.
func New(ctx context.Context, c Config) (*Host, error) {
	h, err := tryHost(ctx, c)
	var refused *sandbox.RefusedError
	if c.CodeCache == "" || !errors.As(err, &refused) || !refused.Compiler {
		return h, err
	}
	// A full disk or a damaged file in the code cache is no reason not to run.
	dir := c.CodeCache
	c.CodeCache = ""
	h, without := tryHost(ctx, c)
	if without == nil {
		h.config.Logger.LogAttrs(ctx, slog.LevelWarn, "the code cache cannot be used, and everything was compiled: see to its disk, or delete what it holds",
			slog.String("directory", dir), slog.Any("error", err))
	}
	return h, without
}

// Inspect returns the description of a plugin, whether or not its auth type is taken in some host.
func Inspect(ctx context.Context, p Plugin) (PluginInfo, error) {
	h, err := New(ctx, Config{BuiltIns: []Plugin{}, Plugins: []Plugin{p}})
	if err != nil {
		return PluginInfo{}, err
	}
	return h.order[0].info, h.Close(ctx)
}

func tryHost(ctx context.Context, c Config) (*Host, error) {
	if c.BuiltIns == nil {
		for _, wasm := range plugins.All() {
			c.BuiltIns = append(c.BuiltIns, Plugin{Name: "built-in", Wasm: wasm})
		}
	}
	if c.Secrets == nil {
		c.Secrets = MapSecrets{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	c.Limits = c.Limits.withDefaults()
	if err := c.Limits.check(); err != nil {
		return nil, err
	}
	c.Variables = maps.Clone(c.Variables)
	h := &Host{config: c, signer: signing.New(c.Limits.Keys), types: map[string]*plugin{}}
	h.exchanging = make(chan struct{}, c.Limits.Exchanging)
	var err error
	if h.cache = c.Tokens; h.cache == nil {
		if h.cache, err = NewTokenCache(c); err != nil {
			return nil, err
		}
	}
	if h.reusable, err = lru.New[reuseKey, *reusable](c.Limits.CacheEntries); err != nil {
		return nil, err
	}
	h.revealed = testhook.RevealObserver(ctx)
	if err := h.dialers(); err != nil {
		return nil, err
	}
	h.runtime, err = sandbox.New(ctx, sandbox.Config{
		Limits: c.Limits.sandbox(), Clock: c.Clock, Random: c.Random, Observe: observer(ctx), CodeCache: c.CodeCache,
	})
	if err != nil {
		return nil, fmt.Errorf("the sandbox cannot be made: %w", err)
	}
	if err := h.loadAll(ctx); err != nil {
		return nil, errors.Join(err, h.runtime.Close(ctx))
	}
	return h, nil
}

func (h *Host) dialers() error {
	if h.base = h.config.Base; h.base == nil {
		transport, err := h.config.Egress.Transport()
		if err != nil {
			return fmt.Errorf("egress: %w", err)
		}
		h.base = transport
	}
	var err error
	if h.tokens, err = h.config.Egress.policy().TokenClient(); err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	if h.config.Base != nil {
		h.tokens.Transport = h.config.Base
	}
	return nil
}

// loadAll loads the plugins, as many at once as there are processors, and the largest first, so that no processor has
// nothing to do while another is still at it: compiling is what takes a host's start.
func (h *Host) loadAll(ctx context.Context) error {
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
	if err := ctx.Err(); err != nil { // which is no plugin's fault
		return fmt.Errorf("loading the plugins: %w", err)
	}
	for i, p := range prepared {
		if errs[i] != nil {
			return fmt.Errorf("plugin %q: %w", sources[i].Name, errs[i])
		}
		p.info.BuiltIn = i < len(h.config.BuiltIns)
		if err := h.register(p); err != nil {
			return fmt.Errorf("plugin %q: %w", sources[i].Name, err)
		}
	}
	return nil
}

// enter counts a call in; it is matched by h.calls.Done.
func (h *Host) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed.Load() {
		return ErrClosed
	}
	h.calls.Add(1)
	return nil
}

// Close refuses new calls, waits for those in flight, and frees the sandbox. It returns early, with the context's error,
// when the context ends first.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed.Store(true)
	h.mu.Unlock()
	done := make(chan struct{})
	go func() {
		h.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, transport := range []http.RoundTripper{h.base, h.tokens.Transport} {
		if t, ok := transport.(*http.Transport); ok && h.config.Base == nil {
			t.CloseIdleConnections()
		}
	}
	return h.runtime.Close(ctx)
}

// Base is the host's own transport, or [Config].Base: what [Connector.Transport] takes when it is given none. It adds no
// credential.
func (h *Host) Base() http.RoundTripper { return h.base }
