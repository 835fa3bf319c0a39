package run

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
)

// Outcome is the result of a call.
type Outcome struct {
	runner   *Runner
	Mutation *hostfn.Mutation
	// used lists the cache entries that the call read.
	used []*tokencache.Handle
	// Entries lists the cache entries whose sealed values are in the mutation.
	Entries []*tokencache.Handle
	// expires is the time at which the first of the values in the mutation ends that are cached, or the one that the call has
	// fetched. It is zero if there is none, or if the plugin asks no token endpoint.
	expires time.Time
	// Call is the call itself. Its ScrubError removes the credential from the errors of base transports.
	Call *hostfn.Call
	Err  error
	// detached is set if the call runs or ran on a goroutine of its own. That goroutine calls Observe.
	detached bool
	// restart is not nil if the call must run again: with the body kept, or afresh. No other field is set then.
	restart *hostfn.Restart
	// filled is the missing entry if another node has stored it. restart is set then, too.
	filled *tokens.Entry
	// lastScanner is the scanner that was used last, if it is kept.
	lastScanner atomic.Pointer[requestScanner]
	// reusable is set while the outcome is kept for later requests. Reuse.mu guards it.
	reusable bool
}

// ends returns the value of expires.
func (o *Outcome) ends() (first time.Time) {
	if fetched := o.Call.Stored; fetched != nil {
		first = fetched.Ends()
	}
	for _, entry := range o.Entries {
		if ends := entry.Ends(); first.IsZero() || ends.Before(first) {
			first = ends
		}
	}
	return first
}

// Scanner returns a scanner for the credentials of the mutation and for further ones. It returns nil if all of them are too short.
func (o *Outcome) Scanner(further []string) *leakscan.Scanner {
	if e := o.lastScanner.Load(); e != nil && slices.Equal(e.credentials, further) {
		if !e.used.Load() {
			e.used.Store(true)
		}
		return e.scanner
	}
	scanner := leakscan.New(append(o.Call.Credentials(o.Mutation), further...))
	if scanner != nil && scanner.Size() <= maxScanner {
		o.runner.Reuse.keepScanner(&requestScanner{credentials: further, scanner: scanner, outcome: o})
	}
	return scanner
}
