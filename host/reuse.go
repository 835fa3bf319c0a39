package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/template"
)

// reusable is the result of a call that read nothing of its request or of the moment, but only the connector's
// configuration, secrets, fields of the user and cached entries. As long as these are what they were, the plugin would
// return the same again, and need not run.
type reusable struct {
	secrets []string // the values of those that the templates name
	outcome *outcome
}

// subject is for whom a call is made, as far as the connector's templates name that.
type subject struct {
	user     template.User
	tenantID string
}

// reuseKey says whose a reusable is, of connectors whose templates name something of the user.
type reuseKey struct {
	connector *Connector
	subject   subject
}

// reuse returns what an earlier call has come to, if it is what this one would come to, or nil.
func (c *Connector) reuse(secrets []string, who *subject) *outcome {
	var earlier *reusable
	if c.personal() {
		earlier, _ = c.host.reusable.Get(reuseKey{c, *who})
	} else {
		earlier = c.last.Load()
	}
	if earlier == nil || !slices.Equal(earlier.secrets, secrets) {
		return nil
	}
	for _, used := range earlier.outcome.used {
		if !c.host.cache.entries.Live(used) {
			return nil
		}
	}
	return earlier.outcome
}

// maxKept is how many bytes are kept of a call, and how many of what finds its credential: there may be one for each user.
const maxKept = 32 << 10

// keep keeps what a call has come to, if it may be reused and is not unusually large.
func (c *Connector) keep(secrets []string, who subject, call *hostfn.Call, out *outcome) {
	if c.host.config.NoReuse || !c.plugin.repeats || !call.Repeats() || call.Held() > maxKept || out.err != nil {
		return
	}
	call.Forget() // ScrubError needs its sealed values, and nothing of its request
	kept := &reusable{slices.Clone(secrets), out}
	if c.personal() {
		c.host.reusable.Add(reuseKey{c, who}, kept)
	} else {
		c.last.Store(kept)
	}
}

// personal reports whether the templates name something of the user.
func (c *Connector) personal() bool { return len(c.plan.Names.User) > 0 || c.plan.Names.Tenant }

// subject takes from the context what the templates name.
func (c *Connector) subject(ctx context.Context) (who subject) {
	if !c.personal() {
		return subject{}
	}
	u, _ := UserFrom(ctx)
	if c.plan.Names.Tenant {
		who.tenantID = u.TenantID
	}
	for _, name := range c.plan.Names.User {
		switch name {
		case "id":
			who.user.ID = u.ID
		case "email":
			who.user.Email = u.Email
		case "username":
			who.user.Username = u.Username
		case "first_name":
			who.user.FirstName = u.FirstName
		case "last_name":
			who.user.LastName = u.LastName
		}
	}
	return who
}

// secrets appends the value of each secret that the templates name.
func (c *Connector) secrets(ctx context.Context, values []string) ([]string, error) {
	for _, name := range c.plan.Names.Secrets {
		value, err := c.host.secret(ctx, name)
		if err != nil {
			return nil, c.fail(StageTemplate, fmt.Errorf("auth.config.%s: %w", c.named[name], err))
		}
		values = append(values, value)
	}
	return values, nil
}
