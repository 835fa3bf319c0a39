package host

import "context"

// User is the user for whom a request is made. Templates read it as user.* and tenant_id. It must come from a verified
// session, never from values that a browser can set.
type User struct {
	ID        string
	Email     string
	Username  string
	FirstName string
	LastName  string
	TenantID  string
}

type userKey struct{}

// WithUser returns a context whose requests are made for the user.
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserFrom returns the user of a context, and whether it has one.
func UserFrom(ctx context.Context) (User, bool) {
	u, ok := ctx.Value(userKey{}).(User)
	return u, ok
}
