// Package callers tells who calls the content interface: by an API key or a bearer token.
package callers

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/content/httpapi"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// Header is where an API key stands.
const Header = "X-API-Key"

// remember is how long a key that was read is good for: one that is rotated counts after it at the latest.
const remember = time.Second

// minKey is how many bytes a key has at least: anybody may try shorter ones.
const minKey = 16

// Config says who may call. There must be a key, or tokens.
type Config struct {
	Keys    []Key
	Secrets host.Secrets // where the keys are

	Token *Token // nil: bearer tokens do not count

	// Transport fetches the keys of tokens, AllowHTTP lets their URL be plain http.
	Transport http.RoundTripper
	AllowHTTP bool
	Clock     func() time.Time // nil is time.Now
	Logger    *slog.Logger     // nil: logs are dropped
}

// Key is an API key.
type Key struct {
	Secret   string // its name; the caller's, too
	Moderate bool   // whether the caller has the permission moderate
}

// Token says what bearer tokens have to be, JWTs of RFC 9068 for instance, and which of them have the permission moderate.
type Token struct {
	JWKSFile, JWKSURL string // one of them; see [identity.JWT]
	Issuer            string
	Audiences         []string
	// A token has the permission moderate when its Claim is Value, or an array that has it. scope and scp are lists with
	// spaces (RFC 8693 section 4.2), so there it may also be one of the words. When Claim is empty, no token has the
	// permission.
	Claim, Value string
}

// Callers implements [httpapi.Callers]. Make one with [New], and close it.
type Callers struct {
	keys    []Key
	secrets host.Secrets
	tokens  *identity.Identifier // nil without tokens
	claim   string
	value   string
}

// New makes Callers. It fails for a key that is not there or too short, and for tokens that cannot be verified.
func New(ctx context.Context, c Config) (*Callers, error) {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if len(c.Keys) == 0 && c.Token == nil {
		return nil, errors.New("there is neither a key nor tokens: nobody could call")
	}
	all := &Callers{keys: slices.Clone(c.Keys)}
	var err error
	if len(c.Keys) > 0 {
		if all.secrets, err = secretstore.Cached(c.Secrets, remember, c.Clock); err != nil {
			return nil, err
		}
		if err := all.check(ctx); err != nil {
			return nil, err
		}
	}
	if t := c.Token; t != nil {
		all.claim, all.value = t.Claim, t.Value
		all.tokens, err = identity.New(ctx, identity.Config{Mode: identity.ModeJWT, JWT: &identity.JWT{
			Bearer: true, JWKSFile: t.JWKSFile, JWKSURL: t.JWKSURL, Issuer: t.Issuer, Audiences: t.Audiences,
		}}, identity.Options{Transport: c.Transport, AllowHTTP: c.AllowHTTP, Clock: c.Clock, Logger: c.Logger})
		if err != nil {
			return nil, fmt.Errorf("bearer tokens: %w", err)
		}
	}
	return all, nil
}

// check reads each key once, and says all that is wrong.
func (c *Callers) check(ctx context.Context) error {
	var wrong []error
	names := map[string]string{}
	for _, k := range c.keys {
		value, err := c.secrets.Secret(ctx, k.Secret)
		switch other := names[value]; {
		case err != nil:
			wrong = append(wrong, fmt.Errorf("API key %q: %w", k.Secret, err))
		case len(value) < minKey:
			wrong = append(wrong, fmt.Errorf("API key %q has less than %d bytes: make a random one", k.Secret, minKey))
		case other != "":
			wrong = append(wrong, fmt.Errorf("the API keys %q and %q are the same: whose a request is could not be told", other, k.Secret))
		default:
			names[value] = k.Secret
		}
	}
	return errors.Join(wrong...)
}

// Caller implements [httpapi.Callers]. A request with both a key and a token is nobody's: another program on the way may have
// believed the other one.
func (c *Callers) Caller(r *http.Request) (httpapi.Caller, error) {
	given := r.Header[http.CanonicalHeaderKey(Header)]
	switch bearer := len(r.Header["Authorization"]) > 0; {
	case len(given) == 1 && !bearer && len(c.keys) > 0:
		return c.byKey(r.Context(), given[0])
	case len(given) == 0 && c.tokens != nil:
		return c.byToken(r)
	}
	return httpapi.Caller{}, c.refuse("")
}

// byKey looks at all keys, so that the time does not show which one it is. When one cannot be read, callers with
// another one are let in, and all others get ErrUnavailable, since they may have that one.
func (c *Callers) byKey(ctx context.Context, given string) (httpapi.Caller, error) {
	found := httpapi.Caller{}
	var unread error
	digest := sha256.Sum256([]byte(given))
	for _, k := range c.keys {
		value, err := c.secrets.Secret(ctx, k.Secret)
		if errors.Is(err, host.ErrSecretNotFound) || err == nil && len(value) < minKey {
			continue // it was withdrawn
		}
		if err != nil {
			unread = errors.Join(unread, fmt.Errorf("%w: API key %q: %w", httpapi.ErrUnavailable, k.Secret, err))
			continue
		}
		wanted := sha256.Sum256([]byte(value))
		if subtle.ConstantTimeCompare(digest[:], wanted[:]) == 1 && found.Name == "" {
			found = httpapi.Caller{Name: k.Secret, Moderate: k.Moderate}
		}
	}
	switch {
	case found.Name != "":
		return found, nil
	case unread != nil:
		return found, unread
	}
	return found, c.refuse("")
}

// byToken returns one name for all who have a token: those that they have themselves may be of people, and names are in
// logs. The claim sub tells them apart.
func (c *Callers) byToken(r *http.Request) (httpapi.Caller, error) {
	claims, err := c.tokens.Claims(r)
	var refused *identity.Error
	switch {
	case errors.Is(err, identity.ErrUnavailable):
		return httpapi.Caller{}, fmt.Errorf("%w: %w", httpapi.ErrUnavailable, err)
	case errors.As(err, &refused):
		return httpapi.Caller{}, c.refuse(refused.Challenge)
	case err != nil:
		return httpapi.Caller{}, err
	}
	subject, _ := claims["sub"].(string)
	return httpapi.Caller{Name: "token", ID: subject, Moderate: c.claim != "" && has(c.claim, claims[c.claim], c.value)}, nil
}

// has reports whether a claim is a value, or has it among others. Only claims that are lists of words by definition are
// split: others, such as a name, are text that their owner may have chosen.
func has(name string, claim any, value string) bool {
	switch claim := claim.(type) {
	case string:
		return claim == value || (name == "scope" || name == "scp") && slices.Contains(strings.Fields(claim), value)
	case []any:
		return slices.Contains(claim, any(value))
	}
	return false
}

// refuse says what would do instead (RFC 9110 section 11.6.1; there is no registered scheme for keys in headers).
func (c *Callers) refuse(bearer string) error {
	var challenges []string
	if c.tokens != nil {
		if bearer == "" {
			bearer = `Bearer realm="keywright"`
		}
		challenges = append(challenges, bearer)
	}
	if len(c.keys) > 0 {
		challenges = append(challenges, `APIKey realm="keywright", header="`+Header+`"`)
	}
	return &httpapi.UnauthenticatedError{Challenges: challenges}
}

// Ready reports whether callers can be told at the moment.
func (c *Callers) Ready(ctx context.Context) error {
	if c.tokens == nil {
		return nil
	}
	return c.tokens.Ready(ctx)
}

// Close ends a fetch of keys that is under way.
func (c *Callers) Close() error {
	if c.tokens == nil {
		return nil
	}
	return c.tokens.Close()
}
