package host

import "context"

// User is for whom a request is made: what user.* and tenant_id are in templates. It must come from a verified session,
// never from what a browser may set.
type User struct {
	ID        string
	Email     string
	Username  string
	FirstName string
	LastName  string
	TenantID  string
}

type userKey struct{}

// WithUser returns the requests that are made with the context their user.
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserFrom returns the user of a context.
func UserFrom(ctx context.Context) (User, bool) {
	u, ok := ctx.Value(userKey{}).(User)
	return u, ok
}
