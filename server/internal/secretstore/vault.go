package secretstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/semaphore"

	"github.com/keywright/keywright/host"
)

// VaultConfig configures where secrets and keys are in HashiCorp Vault or OpenBao, and how to log in. Exactly one of Token,
// TokenFile, AppRole and Kubernetes must be set, and at most one of Path and Prefix.
type VaultConfig struct {
	// Address is the URL of the server, such as https://vault.example.com:8200, with a path before /v1 if a proxy needs one.
	Address string `file:",required,url"`
	// HTTP reports whether an Address may be of plain http, which shows secrets and the token to the network. Nil means that none may.
	HTTP func(*url.URL) bool `file:"-"`
	// Namespace is the namespace of Vault Enterprise or OpenBao.
	Namespace string
	// CAFile is the path of certificates in PEM with which the server's certificate is verified. It is read once. Without it,
	// those of the system.
	CAFile string `file:",path"`

	// Mount is the mount path of the key-value engine, version 2.
	Mount string `default:"secret"`
	// Prefix precedes the name of a secret: NAME is a field of the path PREFIX/NAME.
	//
	// The value is in the field Field. With the prefix apps/crm, the secret crm-key is written by
	// "vault kv put secret/apps/crm/crm-key value=…", and that of the tenant acme by
	// "vault kv put secret/apps/crm/tenants/acme/crm-key value=…".
	Prefix string
	// Field is the field of that path with the value. It cannot be used with Path.
	Field string `default:"value"`
	// Path is the path with all secrets: a secret NAME is its field NAME. It takes the place of Prefix and Field.
	//
	// With the path apps/crm, the secret crm-key is written by "vault kv patch secret/apps/crm crm-key=…". The secrets of a
	// tenant or a user are the fields of a path below it, such as apps/crm/tenants/acme.
	Path string

	// Transit has keys that stay in Vault, for get_key. One store of a file may have it.
	Transit *VaultTransit

	// Token is a token. It is renewed while it is in use. Once it has expired, secrets cannot be read.
	Token string `file:"-"`
	// TokenFile is the path of a file with a token, such as a sink of Vault Agent. Its mode must be 0640 or less. A changed
	// file is read again.
	TokenFile string `file:",path"`
	// AppRole is a login with the auth method approle.
	AppRole *VaultAppRole `file:"approle"`
	// Kubernetes is a login with the auth method kubernetes, as the service account of the process.
	Kubernetes *VaultKubernetes

	// Timeout is the time of one lookup, with a login if it needs one.
	Timeout time.Duration `default:"10s"`
	// Transport sends requests to the server. If nil, the store uses its own, which requires TLS 1.2 or later for https and
	// ignores the proxies of the environment. It cannot be used with CAFile.
	Transport http.RoundTripper `file:"-"`
	// Clock returns the current time. If nil, it is time.Now.
	Clock func() time.Time `file:"-"`
}

// VaultAppRole configures a login with the auth method approle.
type VaultAppRole struct {
	// Mount is the mount path of the auth method.
	Mount string `default:"approle"`
	// RoleID is the ID of the role.
	RoleID string `file:",required"`
	// SecretIDFile is the path of a file with the secret ID. Its mode must be 0640 or less. It is read at each login, so the
	// secret ID must allow more than one use.
	SecretIDFile string `file:",required,path"`
}

// VaultKubernetes configures a login with the auth method kubernetes, as the service account of the process.
type VaultKubernetes struct {
	// Mount is the mount path of the auth method.
	Mount string `default:"kubernetes"`
	// Role is the name of the role.
	Role string `file:",required"`
	// TokenFile is the path of a file with the token of the service account. It is read at each login. Without it, the path
	// at which Kubernetes mounts it.
	TokenFile string `file:",path"`
}

// Vault returns a store that reads secrets from the key-value engine, version 2, of HashiCorp Vault or OpenBao. It sends
// nothing before the first lookup. Each lookup asks the server; see [Cached]. If the configuration is invalid, the error is a
// [*ConfigError].
//
// The store logs in when it first needs a token. It renews a token on use when two thirds of its lifetime are over. A token
// that cannot be renewed, has expired or was answered with 403 is replaced by a new login. A 403 causes at most one login in
// 10 s, because it may also mean that the policy does not allow the path. A refused login is tried again after 10 s at the
// earliest, because servers lock out clients that fail too often. After a login that did not reach the server, the next one
// is tried at once.
//
// Vault does not support older versions of secrets, values that are not text, or client certificates.
func Vault(c VaultConfig) (VaultStore, error) { return newVault(c) }

// A VaultStore reads secrets. It signs with keys of the transit engine if [VaultConfig].Transit is set; otherwise the methods of
// [host.Keys] return an error.
type VaultStore interface {
	host.Secrets
	host.Keys
}

type vault struct {
	client *http.Client
	// base is the URL of the API. It ends with /v1/.
	base      string
	namespace string
	paths     paths
	transit   *transit
	login     login
	timeout   time.Duration
	clock     func() time.Time

	opening flights[*session]
	// loginLock is held while the session is replaced. It guards refused.
	loginLock *semaphore.Weighted
	session   atomic.Pointer[session]
	refusal   refusal
}

// A paths holds where secrets are.
type paths struct {
	// data is the escaped path with the mount: the whole path if shared is true, and the part before the name if not.
	data string
	// shared is true if one path has all secrets as its fields, except those of tenants and users.
	shared bool
	field  string
}

// locate returns where a secret is. Each tenant and each user has a path of its own, also if shared is true.
func (p paths) locate(name string) (path, field string) {
	if !p.shared {
		return p.data + "/" + name, p.field
	}
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return p.data + "/" + name[:i], name[i+1:]
	}
	return p.data, name
}

// Secret implements [host.Secrets].
func (v *vault) Secret(ctx context.Context, name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	ctx, cancel := v.timed(ctx)
	defer cancel()
	path, field := v.paths.locate(name)
	reply, err := v.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return "", err
	}
	switch reply.status {
	case http.StatusOK:
		return v.value(reply.body, path, field)
	case http.StatusNotFound:
		return "", notFound(reply.body, path)
	case http.StatusForbidden:
		return "", fmt.Errorf("vault refuses to read %s (403): the policy must allow read there, and the token must be valid", path)
	}
	return "", fmt.Errorf("vault cannot read %s: %w", path, reply.unexpected())
}

// timed returns a context that ends with the time of one lookup.
func (v *vault) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, v.timeout, fmt.Errorf("vault did not answer within %s: %w", v.timeout, context.DeadlineExceeded))
}

// ask sends a request with a token. If the token is refused, it tries once more with a new one.
func (v *vault) ask(ctx context.Context, method, path string, body any) (*reply, error) {
	s, err := v.usable(ctx)
	if err != nil {
		return nil, err
	}
	r, err := v.send(ctx, method, path, s.token, body)
	if err != nil || r.status != http.StatusForbidden {
		return r, err
	}
	replacement, err := v.replaceRefused(ctx, s)
	if err != nil {
		return nil, err
	}
	if replacement.token == s.token {
		return r, nil
	}
	return v.send(ctx, method, path, replacement.token, body)
}

func (v *vault) value(body []byte, path, field string) (string, error) {
	var document struct {
		Data *struct {
			Data map[string]jsontext.Value `json:"data"`
		} `json:"data"`
	}
	if err := decode(body, &document); err != nil {
		return "", fmt.Errorf("vault at %s: %w", path, err)
	}
	if document.Data == nil || document.Data.Data == nil {
		return "", fmt.Errorf("vault has no secret of version 2 at %s: name the mount of a key-value engine of version 2", path)
	}
	raw, ok := document.Data.Data[field]
	if !ok && v.paths.shared {
		return "", fmt.Errorf("%w: vault has no field %q at %s", host.ErrSecretNotFound, field, path)
	}
	if !ok { // not ErrSecretNotFound: the secret is written incorrectly, and another store must not be asked instead
		return "", fmt.Errorf("vault has no field %q at %s: write the value to that field", field, path)
	}
	var value string
	if raw.Kind() != '"' || decode(raw, &value) != nil {
		return "", fmt.Errorf("the field %q at %s of vault is not text", field, path)
	}
	return value, nil
}

// notFound returns the error for a response with status 404. Vault sends it for a secret that does not exist or was deleted, and
// for a path without an engine.
func notFound(body []byte, path string) error {
	if engineAnswered(body) {
		return fmt.Errorf("%w: vault has nothing at %s", host.ErrSecretNotFound, path)
	}
	return errNoEngine(path)
}

// engineAnswered reports whether a response with status 404 comes from an engine, which does not have what was asked for.
func engineAnswered(body []byte) bool {
	var document struct {
		Data   jsontext.Value    `json:"data"`
		Errors *[]jsontext.Value `json:"errors"`
	}
	err := decode(body, &document)
	return err == nil && (document.Data.Kind() == '{' || document.Errors != nil && len(*document.Errors) == 0)
}

func errNoEngine(path string) error {
	return fmt.Errorf("vault has no engine at %s (404): check address, namespace and mount", path)
}

// newVault checks a configuration and returns its store.
func newVault(c VaultConfig) (*vault, error) {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	k := &checker{}
	v := &vault{
		base: k.address(c.Address, c.HTTP), namespace: k.path("namespace", c.Namespace),
		paths: k.paths(&c), transit: k.transit(&c), login: k.login(&c), timeout: c.Timeout, clock: c.Clock, loginLock: semaphore.NewWeighted(1),
	}
	switch {
	case v.timeout == 0:
		v.timeout = 10 * time.Second
	case v.timeout < 0:
		k.Wrong("timeout", "is below 0")
	}
	v.client = &http.Client{
		Transport: c.Transport,
		// To follow a redirect would send the token to another address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	switch {
	case c.Transport == nil:
		v.client.Transport = k.transport(c.CAFile)
	case c.CAFile != "":
		k.Wrong("ca_file", "is for the store's own transport: leave it out, or Transport")
	}
	if len(k.Problems) > 0 {
		return nil, &ConfigError{k.Problems}
	}
	return v, nil
}

var errNoToken = errors.New("there is no token in the answer: a login that needs more than one step cannot be used")
