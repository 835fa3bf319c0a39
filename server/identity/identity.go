// Package identity tells who the user of a request to the gateway is: nobody, whom a session token names, or whom a
// proxy in front of the gateway names.
//
// What a browser may set is never believed. A token counts by its signature, a header by the address of the peer that
// the connection comes from, and where a request says something in two ways it is refused: another program on the way
// may have believed the other one.
//
//	users, err := identity.New(ctx, identity.Config{
//		Mode: identity.ModeJWT,
//		JWT: &identity.JWT{
//			Cookie: "session", JWKSURL: "https://login.example.com/jwks.json", Issuer: "https://login.example.com",
//			Audiences: []string{"gateway"},
//		},
//	}, identity.Options{Transport: h.Base()})
//	defer users.Close()
//	g.Use(gateway.Setup{Connectors: connectors, Users: users})
package identity

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/keywright/keywright/host"
)

// Modes of [Config].
const (
	ModeNone   = "none"   // requests have no user; nothing of them is looked at
	ModeJWT    = "jwt"    // a session token, verified
	ModeHeader = "header" // headers that a proxy sets
)

// Config says how the user of a request is found.
type Config struct {
	// Mode is [ModeNone], [ModeJWT] or [ModeHeader]: the member type of files. "" is ModeNone.
	Mode string `file:"type,required"`
	// JWT is for ModeJWT, and nil otherwise.
	JWT *JWT
	// Header is for ModeHeader, and nil otherwise.
	Header *Header
}

// JWT is where a session token stands and what it has to be: a JWT (RFC 7519), signed (RFC 7515), with an issuer, an
// audience and an expiry.
type JWT struct {
	// Bearer takes the token from Authorization: Bearer, Cookie from the cookie of this name. With both, a request may use
	// either, but not both.
	Bearer bool
	Cookie string

	// JWKSFile or JWKSURL is where the keys are (RFC 7517). A change of the file is seen within a second; what the URL
	// gives is asked for again after five minutes, and at once when a token names a key that is not there, at most once in
	// ten seconds: until then, a token that names another key cannot be told from one of a new key, and fails with
	// [ErrUnavailable]. The last good keys are used for a day when there are no newer ones to be had.
	JWKSFile string `file:",path"`
	JWKSURL  string `file:"jwks_url"`

	Issuer    string   // what the claim iss has to be
	Audiences []string // one of these has to be in the claim aud

	// Algorithms are those that tokens may be signed with; empty is [Asymmetric]. HS256, HS384 and HS512 have to be named,
	// and need a JWKSFile with keys of the type oct.
	Algorithms []string

	Claims Claims
}

// Claims has the names of the claims that become the user. They are members of the token, not paths into it, and their
// values have to be text.
type Claims struct {
	ID        string // "" is sub; a token without it is refused
	Email     string // "" is email; the claim email counts only when email_verified is not false
	Username  string // "" is preferred_username
	FirstName string // "" is given_name
	LastName  string // "" is family_name
	TenantID  string // "" is no claim
}

// Header has the names of the headers that become the user, and who is believed. A name that is "" is no header; ID or
// Email has to be given.
type Header struct {
	// Proxies are the addresses of peers that are believed: prefixes such as 10.1.2.0/24, or single addresses. The
	// headers of others are ignored. Each of these proxies has to replace the headers, whatever the browser sent.
	Proxies []string
	// Required refuses requests without a user. Otherwise those that come from elsewhere, or without the headers, are
	// anonymous, and fail only where a connector asks for something of the user.
	Required bool

	ID, Email, Username, FirstName, LastName, TenantID string
}

// Options holds the clock, network and log of an [Identifier].
type Options struct {
	// Transport fetches JWKSURL: the host's guarded one. It is not asked to follow redirects.
	Transport http.RoundTripper
	// AllowHTTP lets JWKSURL be plain http: for development.
	AllowHTTP bool
	Clock     func() time.Time // nil is time.Now
	Logger    *slog.Logger     // nil: logs are dropped
}

// Identifier finds users. It is safe for concurrent use. Make one with [New], and close it.
type Identifier struct {
	session *session
	header  *header
}

// New makes an Identifier. It fails for a configuration that [Config.Check] complains of, and for a JWKSFile that cannot
// be used; a JWKSURL may be down, see [Identifier.Ready].
func New(ctx context.Context, c Config, o Options) (*Identifier, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var wrong []error
	for _, p := range c.Check(o.AllowHTTP) {
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
		if c.JWT.JWKSURL != "" && o.Transport == nil {
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

// Ready gets the keys when there are none yet, or tells why they cannot be had, with [ErrUnavailable].
func (i *Identifier) Ready(ctx context.Context) error {
	if i.session == nil {
		return nil
	}
	_, err := i.session.keys.current(ctx)
	return err
}

// User returns the user of a request, or an [*Error] that says why it has to be refused. The zero User is nobody. The
// request is not changed.
func (i *Identifier) User(r *http.Request) (host.User, error) {
	switch {
	case i.session != nil:
		return i.session.user(r)
	case i.header != nil:
		return i.header.user(r)
	}
	return host.User{}, nil
}

// Claims returns the claims of the session token of a request in ModeJWT, or why it has to be refused, with an
// [*Error]. In other modes there are none.
func (i *Identifier) Claims(r *http.Request) (map[string]any, error) {
	if i.session == nil {
		return nil, nil
	}
	return i.session.verified(r)
}

// Close ends a fetch of keys that is under way, and starts no other.
func (i *Identifier) Close() error {
	if i.session != nil {
		i.session.keys.close()
	}
	return nil
}

// maxValue is the most bytes of a field of the user.
const maxValue = 1024

// fit says what is wrong with a value for a field of the user, or "". Values end up in headers, URLs and logs.
func fit(value string) string {
	if len(value) > maxValue {
		return "is too long"
	}
	if !utf8.ValidString(value) {
		return "is not valid UTF-8"
	}
	for _, r := range value {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) {
			return "has control characters"
		}
	}
	return ""
}
