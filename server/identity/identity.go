// Package identity finds the user of a request to the gateway: the user of a session token, the user that a proxy in front of
// the gateway names in headers, or none.
//
// It does not trust what a browser can set. A token is trusted for its signature, a header for the address of the peer of the connection. A
// request that names its user in two ways is refused, because another program on the way may have read the other one.
//
//	users, err := identity.New(ctx, identity.Config{
//		Mode: identity.ModeJWT,
//		JWT: &identity.JWT{
//			Cookie: "session", Issuer: "https://login.example.com", Audiences: []string{"gateway"},
//		},
//	}, identity.Options{Transport: h.Base()})
//	defer users.Close()
//	g.Use(gateway.Setup{Connectors: connectors, Users: users})
package identity

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/keywright/keywright/host"
)

// Modes of [Config].
const (
	ModeNone   = "none"   // requests have no user; tokens and headers are ignored
	ModeJWT    = "jwt"    // the user is that of a verified session token
	ModeHeader = "header" // a proxy names the user in headers
)

// Config configures how the user of a request is found.
type Config struct {
	// Mode says where the user of a request comes from.
	//
	// It is [ModeNone], [ModeJWT] or [ModeHeader]. The empty string means ModeNone. In connectors.yaml it is the member type.
	Mode string `file:"type,required"`
	// JWT says where session tokens are, and what they must be. It is for the type jwt alone.
	JWT *JWT
	// Header names the headers with the user, and the proxies that set them. It is for the type header alone.
	Header *Header
}

// JWT configures where a request has its session token and how the token is verified. The token is a signed JWT (RFC 7519,
// RFC 7515) with an issuer, an audience and an expiry.
type JWT struct {
	// Bearer takes the token from the header Authorization: Bearer. In a file, it is true unless Cookie is there. With both, a
	// request may use either, but not both.
	Bearer bool
	// Cookie is the name of the cookie with the token.
	Cookie string

	// JWKSFile is the path of a file with the keys that sign session tokens, a JWK Set (RFC 7517).
	//
	// A change of the file takes effect within a second. If newer keys cannot be read, the last good ones are used for up to a day.
	JWKSFile string `file:",path"`
	// JWKSURL is the URL of the keys that sign session tokens, a JWK Set. Without it and JWKSFile, the metadata of the Issuer
	// names the keys (OpenID Connect Discovery, or RFC 8414).
	//
	// Set at most one of the two. The keys are fetched again after five minutes, and at once when a token names an unknown
	// key, but for unknown keys at most once in ten seconds. Within these ten seconds, a token with another unknown key
	// fails with [ErrUnavailable], because its key may be a new one.
	JWKSURL string `file:"jwks_url,url"`

	// Issuer is the value that the claim iss must have. If it is an https URL with metadata, the keys are found by it.
	//
	// The metadata must name the same issuer, byte by byte. It is read each time before the keys are.
	Issuer string
	// Audiences are the audiences of which a token must have one, in its claim aud. Without them, a token for another service
	// would be accepted.
	Audiences []string

	// Algorithms are the accepted signature algorithms. Without them, all that are asymmetric. HS256, HS384 and HS512 need
	// JWKSFile, with keys of type oct.
	Algorithms []string

	// Claims names the claims that become the fields of the user.
	Claims Claims

	// TokenHosts are the hosts of token endpoints that may get the session token, which connectors name as user.token, such
	// as login.example.com.
	//
	// If it is empty, the Token of users is empty too. Set UserTokenHosts of [host.Config] to the same list: a host enforces it.
	TokenHosts []string
}

// Claims names the claims that become the fields of the user. A name is that of a top-level member of the token, not a path.
// The values of the claims must be strings.
type Claims struct {
	// ID is the claim that is user.id, sub by default. A token without it is refused.
	ID string `default:"sub"`
	// Email is the claim that is user.email. The claim email, the default, is ignored if email_verified is false.
	Email string `default:"email"`
	// Username is the claim that is user.username, preferred_username by default.
	Username string `default:"preferred_username"`
	// FirstName is the claim that is user.first_name, given_name by default.
	FirstName string `default:"given_name"`
	// LastName is the claim that is user.last_name, family_name by default.
	LastName string `default:"family_name"`
	// TenantID is the claim that is tenant_id. Without it, users have no tenant.
	TenantID string
}

// Header configures the headers that name the user, and the proxies that are trusted to set them.
type Header struct {
	// Proxies are the addresses of the proxies whose headers count, or prefixes such as 10.1.2.0/24. Each must replace these
	// headers, whatever the browser sent.
	Proxies []string
	// Required refuses requests without a user. In a file, it is true by default. If it is false, requests from other peers
	// or without the headers are anonymous, and fail only if a connector uses a field of the user.
	Required bool `default:"true"`

	// ID is the header with the ID of the user. It or Email must be set.
	ID string
	// Email is the header with the email address of the user.
	Email string
	// Username is the header with the name under which the user logs in.
	Username string
	// FirstName is the header with the first name of the user.
	FirstName string
	// LastName is the header with the last name of the user.
	LastName string
	// TenantID is the header with the tenant of the user.
	TenantID string
}

// Options configures the clock, network and log of an [Identifier].
type Options struct {
	// Transport fetches the keys, and the metadata of the issuer. It should be that of [host.Host.Base]. Redirects are not followed.
	Transport http.RoundTripper
	// HTTP reports whether a JWKSURL and an issuer may be of plain http, as [host.Egress.AllowsHTTP] does. Nil means that none may.
	HTTP func(*url.URL) bool
	// Clock returns the current time. If nil, it is time.Now.
	Clock func() time.Time
	// Logger logs changes of the keys and failures to read them. If nil, nothing is logged.
	Logger *slog.Logger
}

// An Identifier finds the users of requests. It is safe for concurrent use. Create it with [New], and close it after use.
type Identifier struct {
	session *session
	header  *header
}

// New returns an Identifier. It returns an error if [Config.Check] finds problems, if there is neither a JWKSFile nor a
// Transport, or if a JWKSFile cannot be read. It does not fetch keys, see [Identifier.Ready].
func New(ctx context.Context, c Config, o Options) (*Identifier, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	var wrong []error
	for _, p := range c.Check(o.HTTP) {
		wrong = append(wrong, errors.New(p.Path+" "+p.Message))
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	i := &Identifier{}
	switch c.Mode {
	case ModeHeader:
		i.header = newHeader(c.Header)
	case ModeJWT:
		if c.JWT.JWKSFile == "" && o.Transport == nil {
			return nil, errors.New("Options.Transport is missing: it fetches the keys")
		}
		i.session = newSession(ctx, c.JWT, o)
		if c.JWT.JWKSFile != "" {
			if err := i.Ready(ctx); err != nil {
				return nil, errors.Join(err, i.Close())
			}
		}
	}
	return i, nil
}

// Ready reads the keys if there are none yet. If they cannot be read, it returns an error that is [ErrUnavailable].
func (i *Identifier) Ready(ctx context.Context) error {
	if i.session == nil {
		return nil
	}
	_, err := i.session.keys.current(ctx)
	return err
}

// User returns the user of a request, or an [*Error] if the request must be refused. The zero User means that the request is
// anonymous. User does not change the request.
func (i *Identifier) User(r *http.Request) (host.User, error) {
	switch {
	case i.session != nil:
		u, err := i.session.user(r)
		return u, i.session.challenge(err)
	case i.header != nil:
		return i.header.user(r)
	}
	return host.User{}, nil
}

// Claims returns the claims of a request's verified token in [ModeJWT], nil in other modes, or an [*Error] if it must be refused.
func (i *Identifier) Claims(r *http.Request) (map[string]any, error) {
	if i.session == nil {
		return nil, nil
	}
	claims, err := i.session.verify(r)
	return claims, i.session.challenge(err)
}

// Keys are the keys that verify session tokens, for operators. None of it is secret.
type Keys struct {
	// Read is the time at which the keys were last read, or zero if they never were.
	Read time.Time
	// Err is the error of the last attempt to read them, or nil.
	Err error
	// List has the keys in the order of the document.
	List []Key
	// Ignored has the reason for each key of the document that is not used.
	Ignored []string
}

// A Key is a key that verifies session tokens.
type Key struct {
	// ID is the member kid, which may be empty, and Algorithm the member alg, which may be empty.
	ID, Algorithm string
	// Kind is the kind of the key with its size or curve, such as RSA 2048.
	Kind string
	// First is the time at which the key was first read.
	First time.Time
}

// Keys returns the keys in [ModeJWT], and none in other modes. It does not read them again.
func (i *Identifier) Keys() Keys {
	if i.session == nil {
		return Keys{}
	}
	return i.session.keys.list()
}

// Close cancels a running fetch of keys and waits for its end. No further fetch is started.
func (i *Identifier) Close() error {
	if i.session != nil {
		i.session.keys.close()
	}
	return nil
}

// Errors of [Identifier.User] and [Identifier.Claims]. Each is wrapped in an [*Error]; test for it with errors.Is.
var (
	// ErrUnauthenticated is returned if the request has no session, or an invalid one. Respond with status 401.
	ErrUnauthenticated = errors.New("there is no valid session")
	// ErrAmbiguous is returned if the request names its user in two ways: programs may read either. Respond with status 400.
	ErrAmbiguous = errors.New("the request says in more than one way who its user is")
	// ErrUnavailable is returned if the keys that verify sessions cannot be read now. Respond with status 503.
	ErrUnavailable = errors.New("sessions cannot be verified now")
)

// An Error explains why the user of a request could not be found. Its text is for the operator's log, not for the caller. It
// never contains the token or the value of a claim or header.
type Error struct {
	// Challenge is the value for WWW-Authenticate in the response (RFC 6750 section 3), or "" for none.
	Challenge string

	kind   error
	reason string
	// missing is true if the request has no token.
	missing bool
	// cause is an underlying error, such as that of the request's context. It may be nil.
	cause error
}

func (e *Error) Error() string { return e.kind.Error() + ": " + e.reason }

// Unwrap returns [ErrUnauthenticated], [ErrAmbiguous] or [ErrUnavailable], and the underlying error if there is one.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

func unauthenticated(reason string) *Error { return &Error{kind: ErrUnauthenticated, reason: reason} }
func ambiguous(reason string) *Error       { return &Error{kind: ErrAmbiguous, reason: reason} }
func unavailable(reason string, cause error) *Error {
	return &Error{kind: ErrUnavailable, reason: reason, cause: cause}
}
