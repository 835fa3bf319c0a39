package host

import (
	"sync/atomic"

	"github.com/keywright/keywright/host/internal/echo"
	"github.com/keywright/keywright/host/internal/hostfn"
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
	apart    bool                   // the call runs on, or has run, on a goroutine of its own, which tells Observe
	body     bool                   // the call is to be run again once the body is kept; nothing else is set
	echoes   atomic.Pointer[echoes] // once they were needed, and if they are not large
}

// echoes holds the finder of a request's credentials.
type echoes struct {
	others []string // that the context had
	finder *echo.Finder
}

// maxKept is how many bytes are kept of a call, and how many of what finds its credential: there may be one for each user.
const maxKept = 32 << 10

// subject is for whom a call is made, as far as the connector's templates name that.
type subject struct {
	user     template.User
	tenantID string
}

// reusable is the result of a call that read nothing of its request or of the moment, but only the connector's
// configuration, secrets, fields of the user and cached entries. As long as these are what they were, the plugin would
// return the same again, and need not run.
type reusable struct {
	secrets []string // the values of those that the templates name
	outcome *outcome
}

// reuseKey says whose a reusable is, of connectors whose templates name something of the user.
type reuseKey struct {
	connector *Connector
	subject   subject
}
