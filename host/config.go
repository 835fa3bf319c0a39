package host

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host/internal/discovery"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/tokens"
)

// Config configures a Host. The zero Config configures a host with five of the built-in auth types and no secrets. Its
// interfaces and functions must be safe for concurrent use.
type Config struct {
	// Secrets stores the secrets that templates name. Nil means no secrets.
	Secrets Secrets
	// Keys is the store of the keys that templates name with get_key. Nil means none.
	Keys Keys
	// BuiltIns are auth types that come with Keywright, from package plugins. Nil means the five of [plugins.Default]; an
	// empty slice that is not nil means none. A host with fewer of them starts faster.
	BuiltIns []Plugin
	// Plugins are further auth types.
	Plugins []Plugin
	// Variables are the texts that get_variable returns in templates, by name. They are not secret.
	Variables map[string]string
	// OwnedVariables is asked for the variables of a tenant, by tenants/ID/NAME, that Variables does not have, on each use: such as
	// [State.Variables]. Nil means none.
	OwnedVariables Secrets
	// UserTokenHosts are the hosts of token endpoints that may get user.token, the token of a [User], such as
	// login.example.com or localhost:8443. A name without a port stands for the default port of http or https. Connectors say
	// where tokens are exchanged, but only this list says who may get those of users: a connector sends user.token to no
	// other host. If it is empty, no connector may name user.token.
	UserTokenHosts []string
	// Identities are the identities of the process that templates name with identity. Nil means none.
	Identities Identities
	// UserAgent is the User-Agent (RFC 9110 section 10.1.5) of requests without that header. One with an empty list of values is sent without.
	// If UserAgent is "", net/http adds its own to requests to APIs, and token requests have "keywright".
	UserAgent string
	// Egress limits the addresses that the host itself connects to.
	Egress Egress
	// Limits bounds the resources that plugins may use.
	Limits Limits
	// Logger receives the log. If it is nil, nothing is logged.
	Logger *slog.Logger
	// Warn, if not nil, is called for each warning about a connector, with its name, in place of a line in the log. The same
	// warning has one call. It may be called by several goroutines.
	Warn func(connector string, p Problem)

	// State keeps tokens in a store that several nodes share and that outlives them. If it is nil, tokens are kept in memory,
	// and connectors whose auth type has a state of its own, such as a refresh token that rotates, cannot be made.
	State *State
	// Previous is the host that this one replaces because the configuration has changed, closed or not. This one then goes on with its
	// tokens, metadata of issuers, refusals of token endpoints, token requests in flight and last client certificates, and with the same
	// limit on how often a 401 may bring a new token. If it is nil, or has another State, the host begins with none.
	//
	// Only connectors with the same name, auth type, plugin, grants, configuration, secrets, variables and user share tokens. Both hosts
	// must have the same Clock, Egress and Base: whether this one may connect to the endpoint that issued a token is not checked.
	// CachePerPartition of the first of such hosts counts, and TokensBytes of the last.
	Previous *Host
	// Base sends token requests, and the requests of a Transport whose base is nil. If it is nil, the host uses a
	// transport that enforces Egress. Any other Base must check addresses itself. Base gets requests with their credentials: one that
	// records requests, such as the transports of tracing libraries, records the API key of a query and the secret of a path, because
	// these are part of the URL. Use Tracer, Observe and [WithTrace] instead.
	Base http.RoundTripper
	// ContentCodings has content codings of answers that the host undoes beside gzip and deflate, by their names in lower case, such as
	// br and zstd: in answers of token endpoints, in metadata, and in what GuardedTransport passes on. A function returns a reader of
	// what is encoded, and reads nothing before. The host bounds what the reader makes; the function bounds its memory.
	ContentCodings map[string]func(io.Reader) (io.ReadCloser, error)
	// PKCS12 reads the file of [TLS].PKCS12: the private key, its certificate as the Leaf, and behind that those of its issuers. Its
	// errors may have nothing of the file. If it is nil, connectors with such a file are refused.
	PKCS12 func(file []byte, passphrase string) (*tls.Certificate, error)
	// Clock returns the time for templates, tokens and the cache. If it is nil, time.Now is used.
	Clock func() time.Time
	// Random is the source of randomness for sealed values and uuid(). It must be fit for generating keys. If it is
	// nil, crypto/rand is used.
	Random io.Reader
	// CodeCache is a directory for the compiled code of plugins, so that the next host starts faster. It is created if
	// it does not exist. The code in it runs outside of the sandbox, so New refuses a directory that other users may
	// write to or replace. If it is empty, no code is kept.
	CodeCache string
	// NoReuse makes the plugin run for each request. Otherwise the host uses a mutation again while all inputs of its
	// call are unchanged, unless the plugin read the request, the time or anything random, signed, or logged. It repeats a call without the
	// plugin if that got nothing but references to what is new in each request.
	NoReuse bool
	// If not nil, Observe is called once for each attempt to authenticate a request, before the request is sent or
	// fails. The retry after a 401 is an attempt of its own. If the caller stops waiting while its attempt requests a
	// token, Observe is called when that token request has ended. A request that is refused earlier, such as one for
	// another origin, is not an attempt. Observe is also called for each call that replaces a token ahead of its end, with
	// the values of the context of the request that began it, and for each call of a plugin for a consent.
	Observe func(context.Context, Attempt)
	// If not nil, Tracer makes spans of requests, of their parts, and of what the host sends.
	Tracer Tracer
}

// tokenCache holds in memory what plugins store, which is mostly tokens. Hosts that follow each other share one, see [Config].Previous.
type tokenCache struct {
	tokens *tokens.Store
	// turns are those of requests whose numbers rise.
	turns *lease.Serials
	// salt is part of the hash of each partition, so that the partitions of one process, or of one store of state, mean nothing elsewhere.
	salt [32]byte
	// keySecret is the secret from which the keys of fields with Generate are derived.
	keySecret [32]byte
	// documents are the metadata of issuers.
	documents *discovery.Cache
	// certificates has those that requests needed last, by the digest of a connector's name and TLS.
	certificates *lru.Cache[[sha256.Size]byte, *atomic.Pointer[ClientCertificate]]
	// state is behind the entries, if it is not nil.
	state *State
}

func newTokenCache(c *Config) (*tokenCache, error) {
	t := &tokenCache{documents: discovery.New(c.Clock, c.Random), state: c.State}
	t.certificates, _ = lru.New[[sha256.Size]byte, *atomic.Pointer[ClientCertificate]](1 << 16) // the only error is for sizes below one
	var node *lease.Node
	if c.State != nil {
		node = c.State.node
		t.salt, t.keySecret = node.Partition("token cache"), node.Partition("generated keys")
	} else {
		for _, secret := range [...][]byte{t.salt[:], t.keySecret[:]} {
			if _, err := io.ReadFull(c.Random, secret); err != nil {
				return nil, fmt.Errorf("no randomness: %w", err)
			}
		}
	}
	t.tokens = tokens.New(int64(c.Limits.TokensBytes), c.Limits.CachePerPartition, c.Clock, node)
	t.turns = lease.NewSerials(node)
	return t, nil
}

// Limits bounds the resources that plugins may use. The tag of each field has its default, which 0 stands for, and its
// range if it has one. [New] returns an error for a negative value, and for one outside of its range.
type Limits struct {
	// ModuleBytes limits the size of a plugin's module.
	ModuleBytes int `default:"8 MiB" range:"1 to 2047 MiB"`
	// MemoryBytes limits the memory of a guest in a call. It is rounded down to a multiple of 64 KiB.
	MemoryBytes int `default:"16 MiB" range:"64 KiB to 4 GiB"`
	// BlockBytes limits the total size of the memory blocks that the host keeps for a guest in a call.
	BlockBytes int `default:"4 MiB"`
	// Blocks limits the number of these memory blocks in a call.
	Blocks int `default:"4,096"`
	// Fuel limits the work of a guest in a call, in units of about 0.27 ns.
	Fuel int64 `default:"5,000,000" range:"1 to 1,000,000,000,000,000,000"`
	// CallTime limits the time of a call, with its token requests.
	CallTime time.Duration `default:"15 s"`
	// HostCalls limits the calls of Keywright's host functions in a call.
	HostCalls int `default:"1,000"`
	// TokenRequests limits the token requests of a call.
	TokenRequests int `default:"4"`
	// KeyRequests limits how often a call uses keys of the store of keys.
	KeyRequests int `default:"8"`
	// TokenBytes limits the size of a token endpoint's answer.
	TokenBytes int `default:"64 KiB"`
	// LogLines limits the lines that a guest logs in a call.
	LogLines int `default:"100"`
	// OutputBytes limits the size of a mutation, as the guest writes it.
	OutputBytes int `default:"64 KiB"`
	// Mutations limits the number of headers and query parameters of a mutation.
	Mutations int `default:"64"`
	// BodyBytes limits the size of a request body that the host keeps so that a plugin can have its digest.
	BodyBytes int64 `default:"8 MiB"`
	// TokensBytes limits the size of all entries of the token cache together. Where there is no room, the connector whose entries
	// have most bytes loses the one that was unused longest.
	TokensBytes int `default:"64 MiB"`
	// MutationsBytes limits in the same way the mutations that the host keeps for later requests, and ScannersBytes the tables by
	// which it searches answers for their credentials. A request for which there is no table takes some 100 µs longer.
	MutationsBytes int `default:"64 MiB"`
	ScannersBytes  int `default:"64 MiB"`
	// CachePerPartition limits the entries of the token cache that belong to one connector with one configuration, and
	// to one user if its templates name the user.
	CachePerPartition int `default:"16"`
	// CacheBytes limits the size of one value in the token cache.
	CacheBytes int `default:"64 KiB"`
	// Keys limits the number of parsed signing keys that the host keeps, and separately that of generated ones.
	Keys int `default:"1,024"`
	// ConcurrentGuests limits the guests that run at the same time. Further calls wait.
	ConcurrentGuests int `default:"4 for each processor, at least 16"`
	// ConcurrentExchanges limits the calls that request tokens at the same time, and the issuers whose metadata is read. Further
	// ones wait: those come first whose connector and token endpoint have the fewest, each of these has half of them at most, a tenant
	// with a host of its own a quarter, and the last quarter goes to those without one. In addition, a quarter as many calls may replace tokens ahead of their end.
	ConcurrentExchanges int `default:"64"`
	// ConcurrentKeys limits in the same way the calls of connectors with a key of the store of keys that request tokens or use that key.
	ConcurrentKeys int `default:"64"`
}

// PluginLimits bounds the resources that one plugin may use, below the [Limits] of its host. A field that is 0 leaves the host's
// own limit as it is. Each field means what the field of Limits with the same name means. The tag of each field has its name in
// errors and in a file of connectors.
type PluginLimits struct {
	// Fuel limits the work of a call, in units of about 0.27 ns.
	Fuel int64 `file:"fuel"`
	// CallTime limits the time of a call with its token requests, such as 2s.
	CallTime time.Duration `file:"call_time"`
	// MemoryBytes limits the memory of a call, in bytes.
	MemoryBytes int `file:"memory_bytes"`
	// TokenRequests limits the token requests of a call.
	TokenRequests int `file:"token_requests"`
}

// LimitError is the error of a [Plugin] with Limits: one of them cannot be, or a call was over it. Find it with [errors.As].
type LimitError struct {
	// Plugin is the name of the plugin.
	Plugin string
	// Member is the limit, such as fuel. In a file of connectors it is the member of that name in limits.
	Member string
	// Err is the cause.
	Err error
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("plugin %q: limits.%s: %v", Printable(e.Plugin), e.Member, e.Err)
}

func (e *LimitError) Unwrap() error { return e.Err }

// WithDefaults returns l with the default in place of each zero.
func (l Limits) WithDefaults() Limits {
	v := reflect.ValueOf(&l).Elem()
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			v.Field(i).SetInt(parseLimit(v.Type().Field(i).Tag.Get("default")))
		}
	}
	return l
}

// check returns an error if a limit is negative or outside of its range. It is called after WithDefaults.
func (l Limits) check() error {
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i).Int()
		if value < 0 {
			return fmt.Errorf("limits: %s is %d: give a positive number, or 0 for the default", field.Name, value)
		}
		bounds, bounded := field.Tag.Lookup("range")
		if minimum, maximum, _ := strings.Cut(bounds, " to "); bounded && (value < parseLimit(minimum) || value > parseLimit(maximum)) {
			return fmt.Errorf("limits: %s is %d: give %s, or 0 for the default", field.Name, value, bounds)
		}
	}
	return nil
}

// parseLimit parses a number in a tag of Limits. It returns a time in nanoseconds.
func parseLimit(text string) int64 {
	if each, minimum, ok := strings.Cut(text, " for each processor, at least "); ok {
		return max(parseLimit(minimum), parseLimit(each)*int64(runtime.GOMAXPROCS(0)))
	}
	number, unit, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(strings.ReplaceAll(number, ",", ""), 10, 64)
	factor := map[string]int64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "s": int64(time.Second)}[unit]
	if err != nil || factor == 0 {
		panic(fmt.Sprintf("host: a tag of Limits has %q", text))
	}
	return n * factor
}

// limitsFor returns the limits for another package, a struct with some of the fields of Limits.
func limitsFor[T sandbox.Limits | hostfn.Limits](l Limits) (limits T) {
	all, fields := reflect.ValueOf(l), reflect.ValueOf(&limits).Elem()
	for i := range fields.NumField() {
		fields.Field(i).Set(all.FieldByName(fields.Type().Field(i).Name))
	}
	return limits
}
