package host

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
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
	// Observe is called once for each attempt to authenticate a request, before the request goes on or fails. After a 401, it is
	// called for the second attempt too. For an attempt that gave up waiting for a token, it is called when the token has come.
	// What is refused earlier, such as a request for another origin, is no attempt. Nil: not called.
	Observe func(context.Context, Attempt)
}

// Attempt describes one attempt to authenticate a request.
type Attempt struct {
	// Connector is the name of the connector, and Type its auth type.
	Connector, Type string
	// Sandbox is the time of the guest and its host functions, without waits for token endpoints and for other guests.
	Sandbox time.Duration
	// Fuel is the guest's work, in the units of [Limits].Fuel. It is the same for the same call on the same input.
	Fuel int64
	// Exchanges counts the token requests that were sent, and Token is the time that their endpoints took.
	Exchanges int
	Token     time.Duration
	// Cached reports whether a value of the token cache was read.
	Cached bool
	// Reused reports whether the mutation of an earlier call was used, and the plugin not run.
	Reused bool
	// Err is nil when the plugin returned what the request needs.
	Err error
}

// Egress says where the host may connect to. The zero value allows https to public addresses.
type Egress struct {
	// AllowHTTP allows origins and token URLs of plain http, for development.
	AllowHTTP bool
	// AllowPrivate allows private and loopback addresses.
	AllowPrivate bool
	// Allow has further addresses that may be dialled.
	Allow []netip.Prefix
	// Proxy is used for all connections. The proxies of the environment are ignored.
	Proxy *url.URL
	// TLS has roots and client certificates. The version is TLS 1.2 at least, and certificates are always verified.
	TLS *tls.Config
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

// TokenCache keeps what plugins store, tokens above all, in memory. Each host has one of its own, unless
// [Config].Tokens names one that outlives it. Then a host that takes the place of another, because its configuration
// has changed, goes on with the tokens, the refusals of token endpoints, the exchanges in flight, and the pace at which
// a 401 may bring new tokens.
//
// An entry is found by a connector with the same name, auth type, plugin, grants, configuration, secrets, variables and
// user, and by no other. Hosts that share a cache must have the same Egress and Base: nothing checks whether a host may
// connect to where a token came from.
//
// It is safe for concurrent use, also by several hosts at once.
type TokenCache struct {
	entries *hostfn.Cache
	salt    [32]byte // of partitions: what one process has in memory is of no use elsewhere
}

// NewTokenCache makes an empty cache. It uses Clock, Random, Limits.CacheEntries and Limits.CachePerPartition of the Config.
// The hosts must have the same Clock. Their own CacheEntries and CachePerPartition do not change the cache. It fails for
// limits below 0, and without randomness.
func NewTokenCache(c Config) (*TokenCache, error) {
	limits := c.Limits.WithDefaults()
	if err := limits.check(); err != nil {
		return nil, err
	}
	clock := c.Clock
	if clock == nil {
		clock = time.Now
	}
	random := c.Random
	if random == nil {
		random = rand.Reader
	}
	t := &TokenCache{entries: tokencache.New[[]seal.Piece](limits.CacheEntries, limits.CachePerPartition, clock)}
	if _, err := io.ReadFull(random, t.salt[:]); err != nil {
		return nil, fmt.Errorf("no randomness: %w", err)
	}
	return t, nil
}
