package secretstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
)

// VaultConfig says where secrets are in HashiCorp Vault or OpenBao, and how to log in. Of Token, TokenFile, AppRole and
// Kubernetes there is one, and of Path and Prefix at most one.
type VaultConfig struct {
	Address   string `file:",required"` // https://vault.example.com:8200, with a path before /v1 if a proxy needs one
	AllowHTTP bool   `file:"-"`         // lets the address be plain http, which shows secrets and token to the network
	Namespace string // of Vault Enterprise or OpenBao; none unless given
	CAFile    string `file:",path"` // PEM of who signs the server's certificate; the system's unless given. Read once

	Mount string // of the key-value engine, version 2; "secret" unless given
	// Prefix is before the name in the path of a secret, which has its value in the field Field: with the prefix apps/crm,
	// crm-key is the field "value" of what "vault kv put secret/apps/crm/crm-key value=…" writes.
	Prefix string
	Field  string // "value" unless given
	// Path has all secrets as its fields instead: with the path apps/crm, crm-key is what "vault kv patch secret/apps/crm
	// crm-key=…" writes.
	Path string

	Token      string        `file:"-"`     // a token; it is renewed while it is in use, and once it has ended nothing can be done
	TokenFile  string        `file:",path"` // a file with a token, such as a sink of Vault Agent; of mode 0640 or less; one that has changed is read again
	AppRole    *VaultAppRole `file:"approle"`
	Kubernetes *VaultKubernetes

	Timeout   time.Duration     // of one lookup with all that it needs; 10 s unless given
	Transport http.RoundTripper `file:"-"` // nil: one of its own, which verifies TLS 1.2 or later and ignores the environment's proxies
	Clock     func() time.Time  `file:"-"` // nil: time.Now
}

// VaultAppRole is a login with the auth method approle. The secret id must allow more than one use: each login needs it.
type VaultAppRole struct {
	Mount        string // of the auth method; "approle" unless given
	RoleID       string `file:",required"`
	SecretIDFile string `file:",required,path"` // of mode 0640 or less; read at each login
}

// VaultKubernetes is a login with the auth method kubernetes, as the service account that the process runs as.
type VaultKubernetes struct {
	Mount     string // of the auth method; "kubernetes" unless given
	Role      string `file:",required"`
	TokenFile string `file:",path"` // of the service account, read at each login; where Kubernetes puts it unless given
}

// Vault takes secrets from the key-value engine, version 2, of HashiCorp Vault or OpenBao. Nothing is sent before the
// first secret is asked for, and each is asked for every time: see [Cached]. The error is a [ConfigError].
//
// It logs in when it first needs to. A token is renewed on use once two thirds of its time are over; one that cannot be
// renewed, that has ended, or that gets a 403, is replaced by a new login (at most one in 10 s for 403s, which may as well
// mean that the policy does not allow a path). A login that was refused is tried again after 10 s at the earliest, since a
// server locks out who fails too often; one that found no server is tried again at once.
//
// Not to be had: more than the current version of a secret, values that are not text, and certificates of the client.
func Vault(c VaultConfig) (host.Secrets, error) { return newVault(c) }

type vault struct {
	client    *http.Client
	base      string // ends with /v1/
	namespace string
	paths     paths
	login     login
	timeout   time.Duration
	clock     func() time.Time

	opening flights[*session]
	turn    chan struct{} // held by what may replace the session

	mu      sync.Mutex
	session *session
	refused refusal
}

// paths say where a secret is.
type paths struct {
	data   string // escaped, with the mount: what is before a name, or all of it
	shared bool   // one path has all secrets as its fields
	field  string
}

func (p paths) of(name string) (path, field string) {
	if p.shared {
		return p.data, name
	}
	return p.data + "/" + name, p.field
}

// Secret implements [host.Secrets].
func (v *vault) Secret(ctx context.Context, name string) (string, error) {
	if !expr.ValidName(name) {
		return "", notAName(name)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, v.timeout, fmt.Errorf("vault did not answer within %s: %w", v.timeout, context.DeadlineExceeded))
	defer cancel()
	path, field := v.paths.of(name)
	reply, err := v.read(ctx, path)
	if err != nil {
		return "", err
	}
	switch reply.status {
	case http.StatusOK:
		return v.value(reply.body, path, field)
	case http.StatusNotFound:
		return "", missing(reply.body, path)
	case http.StatusForbidden:
		return "", fmt.Errorf("vault refuses to read %s (403): the policy must allow read there, and the token must be valid", path)
	}
	return "", fmt.Errorf("vault cannot read %s: %w", path, reply.unexpected())
}

// read asks once more with a new token when the first is refused.
func (v *vault) read(ctx context.Context, path string) (*reply, error) {
	s, err := v.usable(ctx)
	if err != nil {
		return nil, err
	}
	r, err := v.send(ctx, http.MethodGet, path, s.token, nil)
	if err != nil || r.status != http.StatusForbidden {
		return r, err
	}
	other, err := v.instead(ctx, s)
	if err != nil {
		return nil, err
	}
	if other.token == s.token {
		return r, nil
	}
	return v.send(ctx, http.MethodGet, path, other.token, nil)
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
	if !ok { // that something else is there is a mistake, and must not make another store's value count
		return "", fmt.Errorf("vault has no field %q at %s: write the value to that field", field, path)
	}
	var value string
	if raw.Kind() != '"' || decode(raw, &value) != nil {
		return "", fmt.Errorf("the field %q at %s of vault is not text", field, path)
	}
	return value, nil
}

// missing returns the error for an answer of 404: Vault sends it for a secret that is not there or was deleted, and for a
// path that no engine serves.
func missing(body []byte, path string) error {
	var document struct {
		Data   jsontext.Value    `json:"data"`
		Errors *[]jsontext.Value `json:"errors"`
	}
	err := decode(body, &document)
	if err == nil && (document.Data.Kind() == '{' || document.Errors != nil && len(*document.Errors) == 0) {
		return fmt.Errorf("%w: vault has nothing at %s", host.ErrSecretNotFound, path)
	}
	return fmt.Errorf("vault has no engine at %s (404): check address, namespace and mount", path)
}

// newVault checks a configuration and gives its store.
func newVault(c VaultConfig) (*vault, error) {
	k := &checker{}
	v := &vault{
		base: k.address(c.Address, c.AllowHTTP), namespace: k.path("namespace", c.Namespace),
		paths: k.paths(&c), login: k.login(&c), timeout: c.Timeout, clock: c.Clock, turn: make(chan struct{}, 1),
	}
	if v.clock == nil {
		v.clock = time.Now
	}
	switch {
	case v.timeout == 0:
		v.timeout = 10 * time.Second
	case v.timeout < 0:
		k.Wrong("timeout", "is below 0")
	}
	v.client = &http.Client{
		Transport: c.Transport,
		// A redirect would send the token elsewhere.
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
