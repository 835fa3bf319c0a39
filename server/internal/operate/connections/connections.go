// Package connections knows whose accounts are connected, for operators, for the administrators of tenants, and for the users themselves.
package connections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/statedb"
)

// A Connection is an account that a user has connected to a connector. It is personal data.
type Connection struct {
	// ID is the name of its record. It is "" in the record.
	ID        string         `json:"id,omitempty"`
	Connector string         `json:"connector"`
	Tenant    string         `json:"tenant,omitempty"`
	User      string         `json:"user"`
	Email     string         `json:"email,omitempty"`
	Condition host.Condition `json:"condition"`
	// Account is its name at the API, and Scopes are those that were asked for.
	Account string   `json:"account,omitempty"`
	Scopes  []string `json:"scopes,omitempty"`
	// Since is the time of the consent, or zero if it was before such records. Used is that of the last use, to the hour, and Changed that
	// of the last change of Condition.
	Since   time.Time `json:"since,omitzero"`
	Used    time.Time `json:"used,omitzero"`
	Changed time.Time `json:"changed,omitzero"`
	// Node is the one that has written the record last.
	Node string `json:"node,omitempty"`
}

// Conditions are those by which connections are counted. The mark of a condition is its place, from 1.
var Conditions = []host.Condition{host.ConditionConnected, host.ConditionUncertain, host.ConditionLost, host.ConditionRefused}

func markOf(c host.Condition) int16 { return int16(slices.Index(Conditions, c) + 1) }

// The places of the tags of a connection.
const (
	tagTenant = iota
	tagUser
	tagConnector
	tagEmail
)

var table = records.Table[Connection]{
	Kind: statedb.KindConnection,
	Key:  func(c Connection) []string { return []string{c.Connector, c.Tenant, c.User} },
	Tags: func(c Connection) (tags [statedb.Tags][]string) {
		tags[tagTenant], tags[tagUser], tags[tagConnector] = []string{c.Tenant}, []string{c.User}, []string{c.Connector}
		if c.Email != "" {
			tags[tagEmail] = []string{c.Email}
		}
		return tags
	},
	Mark: func(c Connection) int16 { return markOf(c.Condition) },
}

// Config configures [New].
type Config struct {
	Clock func() time.Time
	Node  string
	Store *records.Store
	// Connector returns the connector in use with a permalink, or nil. It may return one whose name that is.
	Connector func(permalink string) *gateway.Connector
	Logger    *slog.Logger
}

// Connections are the connections of a store. They implement [gateway.Connections].
type Connections struct {
	config Config

	mu sync.Mutex
	// recent has what was last written of a connection, by a hash of its key.
	recent *lru.Cache[uint64, note]
	// pending has what is to be written.
	pending map[key]change
}

type key struct{ connector, tenant, user string }

// note has the condition of a connection that was last written, and the hour of its use.
type note struct {
	condition host.Condition
	hour      int64
}

type change struct {
	condition host.Condition
	time      time.Time
}

// New returns the connections of a store.
func New(c Config) *Connections {
	const maxRecent = 100_000
	recent, _ := lru.New[uint64, note](maxRecent) // the only error is for sizes below one
	return &Connections{config: c, recent: recent, pending: map[key]change{}}
}

// ConditionOf returns the condition of the grant of a user, as a request has met it. It is "" if the request says nothing about it.
func ConditionOf(e *gateway.Event) host.Condition {
	if e.User == "" || e.Served == nil || !e.Served.Upstream().NeedsConsent() {
		return ""
	}
	if grant, ok := errors.AsType[*host.GrantError](e.Err); ok {
		return grant.Condition
	}
	switch {
	case e.NotConnected(), e.Use == gateway.UseDisconnect && e.Problem == "" && e.Status < 400:
		return host.ConditionNotConnected
	case !e.Sent.IsZero():
		return host.ConditionConnected
	}
	return ""
}

// Request notes what a request has met. It never waits for the store, and most requests change nothing.
func (c *Connections) Request(e *gateway.Event) {
	const maxPending = 10_000 // connections. What is dropped is written after the next use
	condition := ConditionOf(e)
	if condition == "" {
		return
	}
	hash, now := hashOf(e.Connector, e.Tenant, e.User), note{condition, e.Began.Unix() / 3600}
	if last, ok := c.recent.Get(hash); ok && last == now {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) < maxPending {
		c.recent.Add(hash, now)
		c.pending[key{e.Connector, e.Tenant, e.User}] = change{condition, e.Began}
	}
}

func hashOf(connector, tenant, user string) uint64 {
	var buffer [256]byte
	b := append(buffer[:0], connector...)
	b = append(append(b, 0), tenant...)
	return xxhash.Sum64(append(append(b, 0), user...))
}

// Run writes what requests have met, until ctx ends.
func (c *Connections) Run(ctx context.Context) {
	const interval = 10 * time.Second
	every := time.NewTicker(interval)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			c.Flush(ctx)
		case <-ctx.Done():
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			c.Flush(limited)
			return
		}
	}
}

// Flush writes what requests have met. What the store does not take is written after the next use.
func (c *Connections) Flush(ctx context.Context) {
	c.mu.Lock()
	pending := c.pending
	c.pending = map[key]change{}
	c.mu.Unlock()
	for k, change := range pending {
		if err := c.apply(ctx, k, change); err != nil {
			c.recent.Purge()
			c.config.Logger.LogAttrs(ctx, slog.LevelWarn, "what users have connected cannot be written: it is written after the next use", slog.Any("error", err))
			return
		}
	}
}

// apply changes the record of a connection as a request has met it, unless the user has connected again since.
func (c *Connections) apply(ctx context.Context, k key, to change) error {
	found, ok, err := table.Get(ctx, c.config.Store, k.connector, k.tenant, k.user)
	if err != nil && errors.Is(err, statedb.ErrUnreachable) {
		return err
	}
	if connector := c.config.Connector(k.connector); !ok && connector != nil && to.condition != host.ConditionNotConnected { // it may have ended since then, also at another node
		now, err := connector.Upstream().Connection(host.WithUser(ctx, host.User{ID: k.user, TenantID: k.tenant}))
		if err == nil && now.Condition == host.ConditionNotConnected {
			return nil
		}
	}
	one := found.Value // without one, or if no key opens it, a new one
	if one.Since.After(to.time) {
		return nil
	}
	if to.condition == host.ConditionNotConnected {
		return table.Delete(ctx, c.config.Store, k.connector, k.tenant, k.user)
	}
	one.Connector, one.Tenant, one.User, one.Node = k.connector, k.tenant, k.user, c.config.Node
	if one.Condition != to.condition {
		one.Condition, one.Changed = to.condition, to.time
	}
	if to.condition == host.ConditionConnected {
		one.Used = to.time.Truncate(time.Hour)
	}
	return table.Put(ctx, c.config.Store, one)
}

// Connected implements [gateway.Connections].
func (c *Connections) Connected(ctx context.Context, user host.User, connector string, a gateway.Account) error {
	return table.Put(ctx, c.config.Store, Connection{
		Connector: connector, Tenant: user.TenantID, User: user.ID, Email: user.Email, Condition: host.ConditionConnected, Account: a.Label, Scopes: a.Scopes,
		Since: a.Since, Changed: a.Since, Node: c.config.Node,
	})
}

// Disconnected implements [gateway.Connections].
func (c *Connections) Disconnected(ctx context.Context, user host.User, connector string) error {
	c.recent.Remove(hashOf(connector, user.TenantID, user.ID))
	return table.Delete(ctx, c.config.Store, connector, user.TenantID, user.ID)
}

// Account implements [gateway.Connections].
func (c *Connections) Account(ctx context.Context, user host.User, connector string) (gateway.Account, bool, error) {
	found, ok, err := table.Get(ctx, c.config.Store, connector, user.TenantID, user.ID)
	one := found.Value
	return gateway.Account{Label: one.Account, Scopes: one.Scopes, Since: one.Since, Used: one.Used}, ok, err
}

// Filter says which connections to list: those with all of its members that are not "".
type Filter struct {
	Connector, Tenant, User, Email string
	Condition                      host.Condition
}

func (f Filter) matches(c Connection) bool {
	return (f.Connector == "" || f.Connector == c.Connector) && (f.Tenant == "" || f.Tenant == c.Tenant) && (f.User == "" || f.User == c.User) &&
		(f.Email == "" || f.Email == c.Email) && (f.Condition == "" || f.Condition == c.Condition)
}

// query returns what is looked up in the store: what fewest have.
func (f Filter) query() (q records.Query) {
	for _, tag := range []struct {
		place int
		text  string
	}{{tagUser, f.User}, {tagEmail, f.Email}, {tagTenant, f.Tenant}, {tagConnector, f.Connector}} {
		if tag.text != "" {
			q.Place, q.Parts = tag.place, []string{tag.text}
			break
		}
	}
	q.Mark = markOf(f.Condition)
	return q
}

// List returns up to limit connections, the one that was written last first, and the cursor of the next page, or "" at the end.
func (c *Connections) List(ctx context.Context, f Filter, cursor string, limit int) (all []Connection, next string, err error) {
	const maxPages = 20 // of connections that do not match, in one call
	next = cursor
	for range maxPages {
		var entries []records.Entry[Connection]
		if entries, next, err = table.List(ctx, c.config.Store, f.query(), next, limit-len(all)); err != nil {
			return nil, "", err
		}
		for _, entry := range entries {
			if one := entry.Value; f.matches(one) {
				one.ID = entry.ID
				all = append(all, one)
			}
		}
		if next == "" || len(all) == limit {
			break
		}
	}
	return all, next, nil
}

// Get returns the connection with an ID. ok reports whether there is one.
func (c *Connections) Get(ctx context.Context, id string) (one Connection, ok bool, err error) {
	entry, ok, err := table.GetID(ctx, c.config.Store, id)
	one = entry.Value
	one.ID = entry.ID
	return one, ok, err
}

// End forgets the grant of a connection, and has the authorization server revoke it. If the error wraps [host.ErrNotRevoked], the
// connection has ended, and the server may still accept the grant.
func (c *Connections) End(ctx context.Context, one Connection) error {
	connector := c.config.Connector(one.Connector)
	if connector == nil || connector.Definition().Permalink != one.Connector { // another connector may have the name
		return fmt.Errorf("the connector %s is not in the file in use: put it there to end its connections", one.Connector)
	}
	user := host.User{ID: one.User, TenantID: one.Tenant, Email: one.Email}
	failure := connector.Upstream().Disconnect(host.WithUser(ctx, user))
	if failure != nil && !errors.Is(failure, host.ErrNotRevoked) {
		return failure
	}
	return errors.Join(failure, c.Disconnected(context.WithoutCancel(ctx), user, one.Connector))
}

// Counts returns the numbers of connections by connector and by condition.
func (c *Connections) Counts(ctx context.Context, connectors ...string) (map[string]map[host.Condition]int, error) {
	all := map[string]map[host.Condition]int{}
	err := table.Count(ctx, c.config.Store, tagConnector, connectors, func(connector string, mark int16, n int) {
		if all[connector] == nil {
			all[connector] = map[host.Condition]int{}
		}
		if mark > 0 && int(mark) <= len(Conditions) {
			all[connector][Conditions[mark-1]] = n
		}
	})
	return all, err
}
