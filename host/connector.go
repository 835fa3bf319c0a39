package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/template"
)

// ConnectorConfig says what a connector is: a named external API with its auth configuration.
type ConnectorConfig struct {
	// Name is in errors and logs. Tokens belong to it: no connector of another name gets them.
	Name string
	// Origins are the only ones that get the credential: scheme, host and port of the API, such as
	// https://api.example.com.
	Origins []string
	// Auth says how requests are authenticated.
	Auth Auth
	// Timeout bounds a token exchange, with what waits for it. 0 is CallTime of the host's [Limits].
	Timeout time.Duration
	// BodyBytes is how many bytes a request's body may have that the host keeps, see [Connector.Transport]. 0 is BodyBytes
	// of the host's Limits.
	BodyBytes int64
}

// Connector authenticates requests. [Host.Connect] makes one; what is not made by it fails each request.
type Connector struct {
	config ConnectorConfig

	host    *Host
	plugin  *plugin
	plan    *hostfn.Plan
	origins map[origin]bool
	prefix  [32]byte          // of cache partitions: all that does not change from request to request
	named   map[string]string // the field that names a secret first, for errors
	warned  warnings
	known   atomic.Pointer[written]  // what is known to be one of the origins
	last    atomic.Pointer[reusable] // of a connector whose templates name nothing of the user
}

// Auth is the authentication object of a connector: a type, and its configuration.
type Auth struct {
	Type string `json:"type"`
	// Config has string, bool, numbers (json.Number keeps their text), nil, []any and map[string]any: at most 50,000 values,
	// 4 MiB of texts and names, and 512 KiB of texts with expressions in them.
	Config map[string]any `json:"config,omitempty"`
}

// UnmarshalJSON decodes strictly: a member that is unknown or there twice is an error, and numbers keep their text.
func (a *Auth) UnmarshalJSON(document []byte) error {
	type plain Auth
	if err := strictjson.Unmarshal(document, (*plain)(a)); err != nil {
		return fmt.Errorf("auth %w", err)
	}
	return nil
}

var _ json.Unmarshaler = (*Auth)(nil)

// Connect checks a configuration and makes a connector of it. Its error is a [ConfigError] that lists everything that is
// wrong, or [ErrClosed].
func (h *Host) Connect(ctx context.Context, c ConnectorConfig) (*Connector, error) {
	if err := h.enter(); err != nil {
		return nil, err
	}
	defer h.calls.Done()
	connected := &Connector{config: c, host: h, named: map[string]string{}}
	if err := h.check(ctx, connected); err != nil {
		return nil, err
	}
	if c.Auth.Type != connected.plugin.info.Type {
		connected.plan.Warn(ctx, fmt.Sprintf("auth type %q is a deprecated alias, use %q", c.Auth.Type, connected.plugin.info.Type))
	}
	connected.config.Auth.Type = connected.plugin.info.Type
	return connected, nil
}

// Config returns what [Host.Connect] was given, with the name of the auth type in place of an alias. Its maps and lists
// are the connector's own, and must not be changed.
func (c *Connector) Config() ConnectorConfig { return c.config }

// Secrets lists the names of the secrets that the connector's templates name, sorted.
func (c *Connector) Secrets() []string {
	if c.plan == nil {
		return nil
	}
	return slices.Clone(c.plan.Names.Secrets)
}

// newPlan makes what all calls of the connector share.
func (c *Connector) newPlan() *hostfn.Plan {
	h := c.host
	limits := h.config.Limits.call()
	limits.TokenTime = c.exchangeTime()
	return &hostfn.Plan{
		Fields:      map[string]*hostfn.Field{},
		SecretSinks: map[string]seal.Sinks{},
		Uses:        c.plugin.uses,
		Grants:      c.plugin.grants,
		Anonymous:   c.plugin.info.Anonymous,
		Partition:   c.partition,
		CheckURL:    h.checkTokenURL,
		Cache:       h.cache.entries,
		Signer:      h.signer,
		Client:      h.tokens,
		Clock:       h.config.Clock,
		Random:      h.config.Random,
		Log:         h.logLine(c.config.Name, c.plugin.info.Type),
		Warn:        c.warn,
		GuestWarns:  c.guestWarns,
		Refused:     c.refused,
		Revealed:    h.revealed,
		Limits:      limits,
	}
}

func (c *Connector) exchangeTime() time.Duration {
	return cmp.Or(c.config.Timeout, c.host.config.Limits.CallTime)
}

func (h *Host) logLine(connector, authType string) func(context.Context, abi.Level, string) {
	return func(ctx context.Context, level abi.Level, text string) {
		levels := [...]slog.Level{slog.LevelDebug - 4, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
		h.config.Logger.LogAttrs(ctx, levels[min(level, abi.LevelError)], text,
			slog.String("connector", Printable(connector)), slog.String("type", authType))
	}
}

// warnings remembers what was warned of. The same text is logged once, and at most 32 texts of the host are and 32 of the
// plugin: a plugin must not keep the host's warnings from the log.
type warnings struct {
	mu      sync.Mutex
	seen    map[string]bool
	guest   map[string]bool
	refused time.Time // when a refusal was logged last
}

const maxWarnings = 32

func (c *Connector) warn(ctx context.Context, text string) { c.warnOnce(ctx, &c.warned.seen, text) }

func (c *Connector) guestWarns(ctx context.Context, text string) {
	c.warnOnce(ctx, &c.warned.guest, text)
}

func (c *Connector) warnOnce(ctx context.Context, seen *map[string]bool, text string) {
	c.warned.mu.Lock()
	known := (*seen)[text] || len(*seen) >= maxWarnings
	if !known {
		if *seen == nil {
			*seen = map[string]bool{}
		}
		(*seen)[text] = true
	}
	c.warned.mu.Unlock()
	if !known {
		c.host.logLine(c.config.Name, c.plugin.info.Type)(ctx, abi.LevelWarn, text)
	}
}

// refusalsApart is the least time between two refusals that are logged, since each user of a connector may have their
// own. The same inputs are never refused sooner.
const refusalsApart = 800 * time.Millisecond

// refused logs that a token endpoint refused.
func (c *Connector) refused(ctx context.Context, text string) {
	now := c.host.config.Clock()
	w := &c.warned
	w.mu.Lock()
	since := now.Sub(w.refused)
	soon := !w.refused.IsZero() && since >= 0 && since < refusalsApart
	if !soon {
		w.refused = now
	}
	w.mu.Unlock()
	if !soon {
		c.host.logLine(c.config.Name, c.plugin.info.Type)(ctx, abi.LevelWarn, text)
	}
}

// seed computes what of a cache partition does not change: connector, type, plugin with its grants, and configuration.
// Grants count because a cache may outlive a host. What a plugin stored by a grant must not come back once the grant is
// taken away.
func (c *Connector) seed() error {
	config, err := strictjson.Marshal(c.config.Auth.Config)
	if err != nil {
		return err
	}
	d := digest{sha256.New()}
	d.text(string(c.host.cache.salt[:]), c.config.Name, c.plugin.info.Type, string(c.plugin.digest[:]), string(config))
	d.text(slices.Sorted(maps.Keys(c.plugin.grants))...)
	d.Sum(c.prefix[:0])
	return nil
}

// partition is where the cache entries of a call are: those of no other connector, configuration, secret version,
// variable or user, as far as the templates name them.
func (c *Connector) partition(in *hostfn.Inputs) [32]byte {
	d := digest{sha256.New()}
	d.Write(c.prefix[:])
	names := &c.plan.Names
	for i, name := range names.Secrets {
		d.text(name, in.Secrets[i])
	}
	for _, name := range names.Variables {
		value, ok := in.Variables[name]
		d.text(name, value, fmt.Sprint(ok))
	}
	for _, name := range names.User {
		d.text(name, userField(&in.User, name))
	}
	if names.Tenant {
		d.text(in.TenantID)
	}
	var sum [32]byte
	d.Sum(sum[:0])
	return sum
}

func userField(u *template.User, name string) string {
	switch name {
	case "id":
		return u.ID
	case "email":
		return u.Email
	case "username":
		return u.Username
	case "first_name":
		return u.FirstName
	}
	return u.LastName
}

// digest hashes texts with their lengths, so that no two lists of texts look alike.
type digest struct{ hash.Hash }

func (d digest) text(texts ...string) {
	for _, text := range texts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		d.Write(length[:])
		d.Write([]byte(text))
	}
}
