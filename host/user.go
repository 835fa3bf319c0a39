package host

import (
	"context"
	"fmt"
	"time"

	"github.com/keywright/keywright/host/internal/inputs"
)

// User is the user for whom a request is made. Templates read it as user.* and tenant_id. It must come from a verified
// session, never from values that a browser can set.
type User struct {
	ID        string
	Email     string
	Username  string
	FirstName string
	LastName  string
	TenantID  string

	// Token is the credential that the user has sent, such as the JWT of the session. Templates read it as user.token. It goes
	// to token endpoints only, and of these only to Config.UserTokenHosts. It is empty if the user has no token.
	Token string `json:"-"`
	// TokenExpires is the time at which Token expires. Nothing that was got with Token is cached for longer. If TokenExpires
	// is the zero time, nothing is cached at all.
	TokenExpires time.Time `json:"-"`
}

// Format prints the user with <token> in place of the token, whatever the verb.
func (u User) Format(f fmt.State, verb rune) {
	if u.Token != "" {
		u.Token = "<token>"
	}
	type plain User // which has no Format
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), plain(u))
}

// WithUser returns a context whose requests are made for the user.
func WithUser(ctx context.Context, u User) context.Context {
	return inputs.WithUser(ctx, inputs.User(u))
}

// UserFrom returns the user of a context, and whether it has one.
func UserFrom(ctx context.Context) (User, bool) {
	u, ok := inputs.UserFrom(ctx)
	return User(u), ok
}
