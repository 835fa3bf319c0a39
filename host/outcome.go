package host

import (
	"sync/atomic"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// outcome is the result of a call.
type outcome struct {
	mutation *hostfn.Mutation
	used     []*tokencache.Handle // what the call read
	putIn    []*tokencache.Handle // the entries whose sealed values went into the mutation
	call     *hostfn.Call         // its ScrubError is for errors of those who have seen the credential
	err      error
	// detached is set when the call runs on, or has run, on a goroutine of its own, which calls Observe.
	detached bool
	// needsBody is set when the call is to be run again once the body is kept. Nothing else is set then.
	needsBody bool
	// lastScanner is set once a scanner was needed, if that is not large.
	lastScanner atomic.Pointer[requestScanner]
}

// requestScanner holds the scanner of a request's credentials.
type requestScanner struct {
	others  []string // that the context had
	scanner *leakscan.Scanner
}

// maxRetained bounds the bytes of a call that is kept, and likewise those of its scanner: there may be one for each user.
const maxRetained = 32 << 10

// subject has the fields of the user that the connector's templates name.
type subject struct {
	user     template.User
	tenantID string
}

// cachedMutation is the result of a call that depended only on the connector's configuration, secrets, fields of the user and
// cached entries, not on its request, the clock or randomness. As long as these are what they were, the plugin would return
// the same again, and need not run.
type cachedMutation struct {
	secrets []string // the values of those that the templates name
	outcome *outcome
}

// mutationKey identifies a cachedMutation of a connector whose templates name something of the user.
type mutationKey struct {
	plan    *hostfn.Plan // which is the connector's own
	subject subject
}
