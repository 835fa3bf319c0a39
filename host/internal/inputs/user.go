package inputs

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/keywright/keywright/host/internal/template"
)

// User is the user for whom a request is made, see host.User.
type User struct {
	ID, Email, Username, FirstName, LastName, TenantID string
	Token                                              string    `json:"-"`
	TokenExpires                                       time.Time `json:"-"`
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

// Subject has the fields of the user that a connector's templates name.
type Subject struct {
	User     template.User
	TenantID string
	// TokenExpires is the time at which User.Token expires.
	TokenExpires time.Time
	// Grant is the name of the user's grant if the auth type has consent.
	Grant string
}

// Key returns a Subject that is equal for users with the same fields. It has the hash of the token in place of the token,
// because thousands of keys may be kept.
func (s Subject) Key() Subject {
	if s.TokenExpires = (time.Time{}); s.User.Token != "" {
		sum := sha256.Sum256([]byte(s.User.Token))
		s.User.Token = string(sum[:])
	}
	return s
}
