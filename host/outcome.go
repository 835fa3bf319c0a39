package host

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/inputs"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
)

// outcome is the result of a call.
type outcome struct {
	connector *Connector
	mutation  *hostfn.Mutation
	// used lists the cache entries that the call read.
	used []*tokencache.Handle
	// putIn lists the cache entries whose sealed values are in the mutation.
	putIn []*tokencache.Handle
	// expires is the time at which the first of the values in the mutation ends that are cached, or the one that the call has
	// fetched. It is zero if there is none, or if the plugin asks no token endpoint.
	expires time.Time
	// call is the call itself. Its ScrubError removes the credential from the errors of base transports.
	call *hostfn.Call
	err  error
	// detached is set if the call runs or ran on a goroutine of its own. That goroutine calls Observe.
	detached bool
	// restart is not nil if the call must run again: with the body kept, or afresh. No other field is set then.
	restart *hostfn.Restart
	// filled is the missing entry if another node has stored it. restart is set then, too.
	filled *tokens.Entry
	// lastScanner is the scanner that was used last, if it is kept.
	lastScanner atomic.Pointer[requestScanner]
	// reusable is set while the outcome is kept for later requests. The mutex of reuse is for it.
	reusable bool
}

// ends returns the value of expires.
func (o *outcome) ends() (first time.Time) {
	if fetched := o.call.Stored; fetched != nil {
		first = fetched.Ends()
	}
	for _, entry := range o.putIn {
		if ends := entry.Ends(); first.IsZero() || ends.Before(first) {
			first = ends
		}
	}
	return first
}

// Scanner implements send.Scanners.
func (o *outcome) Scanner(further []string) *leakscan.Scanner {
	if e := o.lastScanner.Load(); e != nil && slices.Equal(e.credentials, further) {
		if !e.used.Load() {
			e.used.Store(true)
		}
		return e.scanner
	}
	scanner := leakscan.New(append(o.call.Credentials(o.mutation), further...))
	if scanner != nil && scanner.Size() <= maxScanner {
		o.connector.host.reuse.keepScanner(o.connector, &requestScanner{credentials: further, scanner: scanner, outcome: o})
	}
	return scanner
}

// requestScanner is a scanner for the credentials of a request.
type requestScanner struct {
	// credentials are the credentials from [WithCredentials].
	credentials []string
	scanner     *leakscan.Scanner
	outcome     *outcome
	// used is set by each request, and cleared when the scanner is the next to lose its place.
	used atomic.Bool
}

// cachedMutation is the result of a call that depended only on configuration, secrets, fields of the user and cache
// entries, and not on its request, the clock or randomness. While these are unchanged, the plugin would return the same
// mutation, so it need not run.
type cachedMutation struct {
	// values are those of the secrets and endpoints that the connector's templates name, see inputs.Reader.Read.
	values    []string
	outcome   *outcome
	connector *Connector
	// used is set by each request, and cleared when the mutation is the next to lose its place.
	used atomic.Bool
}

// mutationKey identifies a cachedMutation of a connector whose templates name something of the user.
type mutationKey struct {
	// plan identifies the connector, since no two connectors share a plan.
	plan *hostfn.Plan
	// subject is the result of Subject.Key.
	subject inputs.Subject
}
