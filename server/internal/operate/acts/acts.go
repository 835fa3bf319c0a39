// Package acts records what operators do, and the administrators of tenants: before it is done, and then how it ended.
package acts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/internal/serve/audit"
	"github.com/keywright/keywright/server/statedb"
)

// An Act is something that somebody did.
type Act struct {
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
	// Who is the name of a token, or the user of a session. Address is that of the peer, and Node the name of the machine.
	Who     string `json:"who"`
	Address string `json:"address,omitempty"`
	Node    string `json:"node,omitempty"`
	// Act is a verb, such as end, and Target names its object.
	Act    string `json:"act"`
	Target string `json:"target,omitempty"`
	// Outcome is done, or why not. It is "" if the process ended before it was known.
	Outcome string `json:"outcome"`
	// Times is the number of equal acts that this one stands for, if it is more than one.
	Times int `json:"times,omitempty"`
}

// Done is the outcome of an act that succeeded.
const Done = "done"

// FromRequest returns an act of the operator of a request.
func FromRequest(r *http.Request, act, target string) Act {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	return Act{Who: login.OperatorOf(r.Context()).Name, Address: address, Act: act, Target: host.Printable(target)}
}

// Config configures a [Log].
type Config struct {
	Node   string
	Clock  func() time.Time
	Logger *slog.Logger
	// Audit returns the audit log, or nil if there is none.
	Audit func() *audit.Log
	Store *records.Store
}

// A Log records acts. It is safe for concurrent use.
type Log struct {
	config Config
	mu     sync.Mutex
	// refusals has the logins that were refused in the last minute, by address.
	refusals map[string]*refusal
}

type refusal struct {
	begin time.Time
	times int
}

// New returns a Log.
func New(c Config) *Log { return &Log{config: c, refusals: map[string]*refusal{}} }

// table has the acts of all nodes. The first tag is who, the second what kind of act, and the third its target.
var table = records.Table[Act]{
	Kind: statedb.KindAct, Lifetime: 90 * 24 * time.Hour, Key: func(a Act) []string { return []string{a.ID} },
	Tags: func(a Act) [statedb.Tags][]string { return [statedb.Tags][]string{{a.Who}, {a.Act}, {a.Target}} },
}

// ErrUnrecorded is the error for an act that was not done, because nobody would know of it.
var ErrUnrecorded = errors.New("nothing was done, because neither the audit log nor the store of state can record it: try again later")

// Do records an act, does it, and records its outcome. If the error is [ErrUnrecorded], do was not called.
func (l *Log) Do(ctx context.Context, a Act, do func() error) error {
	a.ID, a.Time, a.Node = rand.Text(), l.config.Clock(), l.config.Node
	if err := l.write(ctx, a, true); err != nil {
		return fmt.Errorf("%w: %w", ErrUnrecorded, err)
	}
	err := do()
	switch a.Outcome = Done; {
	case errors.Is(err, host.ErrNotRevoked):
		a.Outcome = "done, not revoked"
	case err != nil:
		a.Outcome = "failed"
	}
	_ = l.write(context.WithoutCancel(ctx), a, true) // without it, the act is there without an outcome
	return err
}

// Note records an act that was done, and that nobody has to wait for.
func (l *Log) Note(ctx context.Context, a Act) {
	a.ID, a.Time, a.Node = rand.Text(), l.config.Clock(), l.config.Node
	_ = l.write(context.WithoutCancel(ctx), a, false)
}

// RefuseLogin records a login that was refused. Of one address, it writes one act a minute, with the number of those since the one before.
func (l *Log) RefuseLogin(ctx context.Context, address string) {
	const pause, maxAddresses = time.Minute, 10_000
	now := l.config.Clock()
	l.mu.Lock()
	r := l.refusals[address]
	if r == nil {
		if len(l.refusals) >= maxAddresses {
			clear(l.refusals)
		}
		r = &refusal{}
		l.refusals[address] = r
	}
	r.times++
	times := r.times
	due := now.Sub(r.begin) >= pause
	if due {
		r.begin, r.times = now, 0
	}
	l.mu.Unlock()
	if due {
		l.Note(ctx, Act{Who: "nobody", Address: address, Act: "login", Outcome: "refused", Times: times})
	}
}

// write writes an act to the audit log, or else to the store. The other gets it, too, if it can take it.
func (l *Log) write(ctx context.Context, a Act, must bool) error {
	var failure error
	log := l.config.Audit()
	if log != nil {
		log.Add(&audit.Record{Time: a.Time, Use: "act", RequestID: a.ID, Who: a.Who, Address: a.Address, Act: a.Act, Target: a.Target, Outcome: a.Outcome})
		if must {
			failure = log.Flush()
		}
	}
	if failure == nil {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second) // the store may not answer
		defer cancel()
		if err := table.Put(limited, l.config.Store, a); err != nil && log == nil {
			failure = err
		}
	}
	if failure != nil {
		return failure
	}
	l.config.Logger.LogAttrs(ctx, slog.LevelInfo, "an act of an operator", slog.String("who", a.Who), slog.String("address", a.Address),
		slog.String("act", a.Act), slog.String("target", a.Target), slog.String("outcome", a.Outcome))
	return nil
}

// Filter says which acts to list: those of all of its members that are not "". The first of these that is set is looked up, and a page may
// have fewer acts than it could because of the others.
type Filter struct{ Who, Act, Target string }

// List returns a page of acts, the newest first, and the cursor of the next page, or "" at the end.
func (l *Log) List(ctx context.Context, f Filter, cursor string, limit int) (all []Act, next string, err error) {
	q := records.Query{}
	for place, text := range []string{f.Who, f.Act, f.Target} {
		if text != "" && q.Parts == nil {
			q = records.Query{Place: place, Parts: []string{text}}
		}
	}
	entries, next, err := table.List(ctx, l.config.Store, q, cursor, limit)
	for _, entry := range entries {
		if a := entry.Value; (f.Who == "" || a.Who == f.Who) && (f.Act == "" || a.Act == f.Act) && (f.Target == "" || a.Target == f.Target) {
			all = append(all, a)
		}
	}
	return all, next, err
}

// ErrForbidden is the error for a filter by which an operator could guess what others do.
var ErrForbidden = errors.New("who and target need the right people, for all tenants: others may look for their own acts")

var tenant = regexp.MustCompile(`^tenant [^/]+`)

// ListFor is List for an operator. Without the right to see people, acts of others have no name and no tenant.
func (l *Log) ListFor(ctx context.Context, o *login.Operator, f Filter, cursor string, limit int) ([]Act, string, error) {
	if o.Tenant != "" && f.Who == "" {
		f.Who = o.Name // acts of others may be about other tenants
	}
	if !o.AllowsIn(login.People, "") && (f.Who != "" && f.Who != o.Name || f.Target != "") {
		return nil, "", ErrForbidden
	}
	all, next, err := l.List(ctx, f, cursor, limit)
	for i := range all {
		if a := &all[i]; !o.Allows(login.People) && a.Who != o.Name {
			a.Who, a.Address, a.Target = "…", "", tenant.ReplaceAllString(a.Target, "tenant …")
		}
	}
	return all, next, err
}
