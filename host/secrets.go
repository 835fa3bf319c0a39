package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/inputs"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/files"
)

// Secrets is a store of secrets. The host asks it on each use, so that a rotated secret takes effect at once. An
// implementation may cache a value for a few seconds.
//
// Templates name a secret with get_secret('NAME'), and then its name in the store is NAME. The secret of a tenant,
// get_secret('NAME', 'tenant'), is tenants/ID/NAME in the store, where ID is the TenantID of the [User]. That of a user,
// get_secret('NAME', 'user'), is users/ID/NAME with the ID of the User. A NAME has 1 to 128 ASCII letters, digits, '.', '_' and
// '-', and begins with a letter or digit. An ID is like a NAME, but without capitals and dots; the host refuses a request with
// any other. So each part of the name is safe in a path, and no two IDs differ by case alone.
type Secrets interface {
	// Secret returns the value of a secret. The error wraps [ErrSecretNotFound] if there is no secret of that name. Any
	// other error means that the store cannot answer now. An implementation compares names byte for byte.
	Secret(ctx context.Context, name string) (string, error)
}

// SecretName returns the name in a store of a secret that templates name, for a user: the tenants/ID/NAME of tenants/*/NAME. Names
// with a star come from [Connector.Secrets] and [Template.Secrets]. Any other name stays as it is. The error is the one of
// requests of that user: there is no tenant or no ID, or it cannot be part of a name.
func SecretName(name string, u User) (string, error) {
	return expr.StoredSecret(name, u.TenantID, u.ID)
}

const maxSecret = 1 << 20 // bytes of a secret in a file

// MapSecrets stores secrets in memory, by name.
type MapSecrets map[string]string

// Secret returns the secret of a name, or [ErrSecretNotFound].
func (m MapSecrets) Secret(_ context.Context, name string) (string, error) {
	if value, ok := m[name]; ok {
		return value, nil
	}
	return "", ErrSecretNotFound // who asks has the name
}

// EnvSecrets returns a store that reads secrets from environment variables: that of a secret is KEYWRIGHT_SECRET_ and the name in
// capitals, with - and . replaced by _. It has no secrets of tenants and users.
func EnvSecrets() Secrets { return envSecrets{} }

type envSecrets struct{}

func (envSecrets) Secret(_ context.Context, name string) (string, error) {
	if strings.Contains(name, "/") {
		return "", fmt.Errorf("%w: the environment has none of tenants and users", ErrSecretNotFound)
	}
	if !expr.ValidName(name) {
		return "", fmt.Errorf("%w: %q is not a secret's name", ErrSecretNotFound, name)
	}
	if value, ok := os.LookupEnv(expr.EnvName(name)); ok {
		return value, nil
	}
	return "", fmt.Errorf("%w: set %s", ErrSecretNotFound, expr.EnvName(name))
}

// DirSecrets returns a store that reads each secret from the file of the same name in a directory, on each use. The secrets of
// tenants and users are in directories below it, such as tenants/acme/crm. It removes one newline at the end. A file may have
// up to 1 MiB. Links that lead out of the directory are not followed.
func DirSecrets(dir string) Secrets { return dirSecrets(dir) }

type dirSecrets string

func (d dirSecrets) Secret(_ context.Context, name string) (string, error) {
	if !expr.ValidSecret(name) {
		return "", fmt.Errorf("%w: %q is not a secret's name", ErrSecretNotFound, name)
	}
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return "", fmt.Errorf("the secrets directory cannot be opened: %w", err)
	}
	defer root.Close()
	value, err := readRegular(root, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w: there is no file %q in the secrets directory", ErrSecretNotFound, name)
	case err != nil:
		return "", fmt.Errorf("secret %q cannot be read: %w", name, err)
	case len(value) > maxSecret:
		return "", fmt.Errorf("secret %q has more than %d bytes", name, maxSecret)
	}
	text, hasNewline := strings.CutSuffix(string(value), "\n")
	if hasNewline {
		text = strings.TrimSuffix(text, "\r")
	}
	return text, nil
}

// readRegular reads a regular file. Opening a pipe would block until something writes to it.
func readRegular(root *os.Root, name string) ([]byte, error) {
	if info, err := root.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return files.ReadAll(file, maxSecret)
}

// FirstOf returns a store that asks several stores in order and returns the secret of the first that has it. An error
// other than [ErrSecretNotFound] ends the search.
func FirstOf(stores ...Secrets) Secrets { return firstOf(stores) }

type firstOf []Secrets

func (f firstOf) Secret(ctx context.Context, name string) (string, error) {
	var missing []error
	for _, store := range f {
		value, err := store.Secret(ctx, name)
		if err == nil {
			return value, nil
		}
		if !errors.Is(err, ErrSecretNotFound) {
			return "", err // otherwise a store that is down would make an older value of another one valid
		}
		missing = append(missing, err)
	}
	if len(missing) == 1 {
		return "", missing[0]
	}
	var hints []string
	for _, err := range missing {
		if hint, more := strings.CutPrefix(err.Error(), ErrSecretNotFound.Error()+": "); more {
			hints = append(hints, hint)
		}
	}
	if hints == nil {
		return "", ErrSecretNotFound
	}
	return "", fmt.Errorf("%w: %s", ErrSecretNotFound, strings.Join(hints, ", or "))
}

// Keys is a store of keys that signs with them itself, such as the transit engine of Vault. So the keys never enter the
// process. A field of a configuration names such a key with get_key('name'), or a version of it with get_key('name', 2).
//
// The host calls the methods while no guest runs in their place, within the time of the call. It keeps no signature. An error wraps
// [ErrKeyNotFound] or [ErrKeyRefused] if a person has to fix it. Any other error means that the store cannot answer now.
type Keys interface {
	// Describe returns the description of a key. An implementation may remember it for a short time.
	Describe(ctx context.Context, key Key) (KeyInfo, error)
	// Sign returns the signature of data in the form of RFC 7518 section 3, and the version of the key that made it. Algorithms are those
	// of RFC 7518 section 3.1 and EdDSA (RFC 8037), HS1 (HMAC with SHA-1), and RS1 (RFC 8812 section 2). For all but HMACs, the host has
	// checked that the algorithm fits what Describe returned, and verifies the signature with the public half. data has 256 KiB at most.
	Sign(ctx context.Context, key Key, algorithm string, data []byte) (signature []byte, version int, err error)
}

// Key names a key of [Keys] by its Name and its Version, where 0 is the newest one: go doc github.com/keywright/keywright/host/view.Key
// shows its fields.
type Key = view.Key

// KeyInfo describes a key of [Keys] by its Type, its Version and its Public half: go doc github.com/keywright/keywright/host/view.KeyInfo
// shows its fields.
type KeyInfo = view.KeyInfo

// Identities has tokens that say who the process is, such as that of the service account of a pod. Others issue them, for minutes or
// hours, so that no secret has to be kept. A field of a configuration names one with identity('NAME', 'AUDIENCE'), where the
// audience is the party that the token is for (RFC 7519 section 4.1.3). Such a field is sealed, has the sink token, and has nothing else.
//
// The host sends a token only to the hosts that Hosts lists for its audience. What a token endpoint issues for it is kept for its claims
// iss and sub, and not for its bytes, so that a new token of the same subject costs nothing. That of another subject gets tokens anew.
type Identities interface {
	// Hosts returns the hosts of token endpoints that may get the tokens of an identity for an audience, in the form of
	// [Config].UserTokenHosts. Without any, no connector may name that identity for it.
	Hosts(name, audience string) []string
	// Identity returns a token. The host asks before each request, and once more with Exchange before a call that may send the token, so
	// an implementation should remember it. It checks the token: whom it is for, and when it begins and ends. An error wraps
	// [ErrIdentityRefused] if a person has to fix it; any other may pass. It does not quote the token.
	Identity(ctx context.Context, r IdentityRequest) (token string, err error)
}

// IdentityRequest names a token of [Identities].
type IdentityRequest struct {
	Name, Audience string
	// Exchange is set if the token is about to be sent. If a token may be sent once only, nobody else gets this one.
	Exchange bool
}

// ErrIdentityRefused means that there is a token, and that it is not what it should be: for another audience, of another subject, at its
// end, or no token at all.
var ErrIdentityRefused = errors.New("the token is refused")

// identity returns the token of an identity, which the host has: no connector names another one. An error that may pass is marked.
func (h *Host) identity(ctx context.Context, identity template.Identity, exchange bool) (string, error) {
	token, err := h.config.Identities.Identity(ctx, IdentityRequest{Name: identity.Name, Audience: identity.Audience, Exchange: exchange})
	if err != nil && !errors.Is(err, ErrIdentityRefused) {
		err = hostfn.Passing(err)
	}
	return token, err
}

func (h *Host) identityHosts(name, audience string) []string {
	if h.config.Identities == nil {
		return nil
	}
	return h.config.Identities.Hosts(name, audience)
}

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
