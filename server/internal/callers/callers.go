// Package callers authenticates the callers of the content interface by an API key or a bearer token.
package callers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/content/httpapi"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// Header is the name of the request header with the API key.
const Header = "X-API-Key"

// minKey is the minimum length of a key in bytes. Shorter keys could be guessed by trying.
const minKey = 16

// Config configures [Callers]. It must have at least one key, or JWT.
type Config struct {
	Keys []Key
	// Secrets holds the values of the keys.
	Secrets host.Secrets

	// JWT says which bearer tokens are valid, for example those of RFC 9068. If it is nil, they are refused.
	JWT *identity.JWT
	// A token has the permission moderate if its claim Claim, unless that is "", is or contains Value, see [identity.HasClaim].
	Claim, Value string
	// Options are those for JWT. Clock is also that of keys.
	identity.Options
}

// Key is an API key.
type Key struct {
	// Secret is the name of the secret with the key. It is also the name of the caller.
	Secret string
	// Moderate reports whether the caller has the permission moderate.
	Moderate bool
}

// Callers implements [httpapi.Callers]. Use [New] to create one and [Callers.Close] to end it.
type Callers struct {
	keys    []Key
	secrets host.Secrets
	// tokens is nil if bearer tokens are refused.
	tokens       *identity.Identifier
	claim, value string
}

// New returns Callers for c. It returns an error if there is neither a key nor c.JWT, if a key is missing or too
// short or equals another, or if tokens cannot be verified.
func New(ctx context.Context, c Config) (*Callers, error) {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if len(c.Keys) == 0 && c.JWT == nil {
		return nil, errors.New("there is neither a key nor tokens: nobody could call")
	}
	all := &Callers{keys: slices.Clone(c.Keys), claim: c.Claim, value: c.Value}
	var err error
	if len(c.Keys) > 0 {
		if all.secrets, err = secretstore.Cached(c.Secrets, time.Second, c.Clock); err != nil { // a new key is valid after this time
			return nil, err
		}
		if err := all.check(ctx); err != nil {
			return nil, err
		}
	}
	if c.JWT != nil {
		all.tokens, err = identity.New(ctx, identity.Config{Mode: identity.ModeJWT, JWT: c.JWT}, c.Options)
		if err != nil {
			return nil, fmt.Errorf("bearer tokens: %w", err)
		}
	}
	return all, nil
}

// check reads each key and returns an error that lists all bad ones.
func (c *Callers) check(ctx context.Context) error {
	var wrong []error
	names := map[string]string{}
	for _, k := range c.keys {
		value, err := c.secrets.Secret(ctx, k.Secret)
		switch previous := names[value]; {
		case err != nil:
			wrong = append(wrong, fmt.Errorf("API key %q: %w", k.Secret, err))
		case len(value) < minKey:
			wrong = append(wrong, fmt.Errorf("API key %q has less than %d bytes: make a random one", k.Secret, minKey))
		case previous != "":
			wrong = append(wrong, fmt.Errorf("the API keys %q and %q are the same: whose a request is could not be told", previous, k.Secret))
		default:
			names[value] = k.Secret
		}
	}
	return errors.Join(wrong...)
}

// Caller implements [httpapi.Callers]. It refuses both a key and a token: a proxy may have authenticated the request by the other one.
func (c *Callers) Caller(r *http.Request) (httpapi.Caller, error) {
	values := r.Header[http.CanonicalHeaderKey(Header)]
	switch bearer := len(r.Header["Authorization"]) > 0; {
	case len(values) == 1 && !bearer && len(c.keys) > 0:
		return c.byKey(r.Context(), values[0])
	case len(values) == 0 && c.tokens != nil:
		return c.byToken(r)
	}
	return httpapi.Caller{}, c.refuse("")
}

// byKey returns the caller with a key. It compares all keys, so that timing does not reveal which one matches. If a key cannot be read,
// callers with another key are authenticated as usual. All others get ErrUnavailable, since they may have that key.
func (c *Callers) byKey(ctx context.Context, key string) (httpapi.Caller, error) {
	found := httpapi.Caller{}
	var unread error
	digest := sha256.Sum256([]byte(key))
	for _, k := range c.keys {
		value, err := c.secrets.Secret(ctx, k.Secret)
		if errors.Is(err, host.ErrSecretNotFound) || err == nil && len(value) < minKey {
			continue // the key was withdrawn
		}
		if err != nil {
			unread = errors.Join(unread, fmt.Errorf("%w: API key %q: %w", httpapi.ErrUnavailable, k.Secret, err))
			continue
		}
		valueDigest := sha256.Sum256([]byte(value))
		if subtle.ConstantTimeCompare(digest[:], valueDigest[:]) == 1 && found.Name == "" {
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

// byToken returns the caller with a bearer token. All of these callers have the same Name, because names are logged and
// claims may contain names of people. The claim sub is their ID.
func (c *Callers) byToken(r *http.Request) (httpapi.Caller, error) {
	claims, err := c.tokens.Claims(r)
	var identityErr *identity.Error
	switch {
	case errors.Is(err, identity.ErrUnavailable):
		return httpapi.Caller{}, fmt.Errorf("%w: %w", httpapi.ErrUnavailable, err)
	case errors.As(err, &identityErr):
		return httpapi.Caller{}, c.refuse(identityErr.Challenge)
	case err != nil:
		return httpapi.Caller{}, err
	}
	subject, _ := claims["sub"].(string)
	return httpapi.Caller{Name: "token", ID: subject, Moderate: c.claim != "" && identity.HasClaim(claims, c.claim, c.value)}, nil
}

// refuse returns the error with the challenges for all configured credentials (RFC 9110 section 11.6.1). bearer is the
// challenge for tokens; "" means the default. There is no registered scheme for keys in headers.
func (c *Callers) refuse(bearer string) error {
	var challenges []string
	if c.tokens != nil {
		challenges = append(challenges, cmp.Or(bearer, `Bearer realm="keywright"`))
	}
	if len(c.keys) > 0 {
		challenges = append(challenges, `APIKey realm="keywright", header="`+Header+`"`)
	}
	return &httpapi.UnauthenticatedError{Challenges: challenges}
}

// Ready returns an error while tokens cannot be verified.
func (c *Callers) Ready(ctx context.Context) error {
	if c.tokens == nil {
		return nil
	}
	return c.tokens.Ready(ctx)
}

// Close stops fetching the key set of tokens.
func (c *Callers) Close() error {
	if c.tokens == nil {
		return nil
	}
	return c.tokens.Close()
}
