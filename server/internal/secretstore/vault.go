package secretstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/semaphore"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
)

// Vault returns a store that reads secrets from the key-value engine, version 2, of HashiCorp Vault or OpenBao. It sends
// nothing before the first lookup. Each lookup asks the server; see [Cached]. The error is a [*ConfigError].
//
// The store logs in when it first needs a token. It renews a token on use when two thirds of its lifetime are over. A token
// that cannot be renewed, has expired or was answered with 403 is replaced by a new login. A 403 causes at most one login in
// 10 s, because it may also mean that the policy does not allow the path. A refused login is tried again after 10 s at the
// earliest, because servers lock out clients that fail too often; one that did not reach the server, at once.
//
// Vault does not support older versions of secrets, values that are not text, or client certificates.
func Vault(c VaultConfig) (*VaultStore, error) {
	k := &checker{}
	v := &VaultStore{
		base: k.address(c.Address, c.HTTP), namespace: k.path("namespace", c.Namespace),
		paths: k.paths(&c), transit: k.transit(&c), login: k.login(&c), timeout: cmp.Or(c.Timeout, 10*time.Second), clock: c.Clock, transport: c.Transport, loginLock: semaphore.NewWeighted(1),
	}
	if v.transport == nil {
		v.transport = k.transport(c.CAFile)
	}
	if len(k.Problems) > 0 {
		return nil, &ConfigError{k.Problems}
	}
	return v, nil
}

// A VaultStore is a [host.Secrets], and a [host.Keys], whose methods return an error without [VaultConfig].Transit.
type VaultStore struct {
	transport http.RoundTripper
	// base is the URL of the API. It ends with /v1/.
	base      string
	namespace string
	paths     paths
	transit   *transit
	login     login
	timeout   time.Duration
	clock     func() time.Time

	opening flights[*session]
	// loginLock is held while the session is replaced. It guards refusal.
	loginLock *semaphore.Weighted
	session   atomic.Pointer[session]
	// refusal is the error of the last login, at refusalTime, if the server refused that.
	refusal     error
	refusalTime time.Time
}

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
func (v *VaultStore) Secret(ctx context.Context, name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	ctx, cancel := timed(ctx, "vault", v.timeout)
	defer cancel()
	path, field := v.paths.locate(name)
	reply, err := v.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return "", err
	}
	switch {
	case reply.status == http.StatusOK:
		return v.value(reply, field)
	case reply.status == http.StatusNotFound && reply.ofEngine():
		return "", fmt.Errorf("%w: vault has nothing at %s", host.ErrSecretNotFound, path)
	case reply.status == http.StatusNotFound:
		return "", errNoEngine(path)
	case reply.status == http.StatusForbidden:
		return "", fmt.Errorf("vault refuses to read %s (403): the policy must allow read there, and the token must be valid", path)
	}
	return "", fmt.Errorf("vault cannot read %s: %w", path, reply.unexpected())
}

// timed returns a context that ends with the time of one lookup. Its cause says what did not answer.
func timed(ctx context.Context, what string, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s did not answer within %s: %w", what, limit, context.DeadlineExceeded))
}

// ask sends a request with a token. If the token is refused, it tries once more with a new one.
func (v *VaultStore) ask(ctx context.Context, method, path string, body any) (*reply, error) {
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

func (v *VaultStore) value(r *reply, field string) (string, error) {
	var document struct {
		Data *struct {
			Data map[string]jsontext.Value `json:"data"`
		} `json:"data"`
	}
	if err := r.decode(&document); err != nil {
		return "", err
	}
	if document.Data == nil || document.Data.Data == nil {
		return "", fmt.Errorf("vault has no secret of version 2 at %s: name the mount of a key-value engine of version 2", r.path)
	}
	raw, ok := document.Data.Data[field]
	if !ok && v.paths.shared {
		return "", fmt.Errorf("%w: vault has no field %q at %s", host.ErrSecretNotFound, field, r.path)
	}
	if !ok { // not ErrSecretNotFound: the secret is written incorrectly, and another store must not be asked instead
		return "", fmt.Errorf("vault has no field %q at %s: write the value to that field", field, r.path)
	}
	var value string
	if raw.Kind() != '"' || json.Unmarshal(raw, &value) != nil {
		return "", fmt.Errorf("the field %q at %s of vault is not text", field, r.path)
	}
	return value, nil
}

// ofEngine reports whether a response with status 404 comes from an engine. Vault sends it for a path without an engine, too.
func (r *reply) ofEngine() bool {
	var document struct {
		Data   jsontext.Value    `json:"data"`
		Errors *[]jsontext.Value `json:"errors"`
	}
	err := r.decode(&document)
	return err == nil && (document.Data.Kind() == '{' || document.Errors != nil && len(*document.Errors) == 0)
}

func errNoEngine(path string) error {
	return fmt.Errorf("vault has no engine at %s (404): check address, namespace and mount", path)
}

// maxAnswer limits a response, in bytes. Vault's storage holds at most 1 MiB for all fields of a path.
const maxAnswer = 2 << 20

// A reply is a response of Vault. Its body is never part of an error, because it may contain secrets or repeat the request.
type reply struct {
	path   string
	status int
	body   []byte
}

// decode decodes the body. It refuses duplicate names. Its error does not quote the body.
func (r *reply) decode(into any) error {
	if json.Unmarshal(r.body, into) != nil {
		return r.wrong("the answer is not as its API has it: does the address lead to Vault or OpenBao?")
	}
	return nil
}

func (r *reply) wrong(text string) error { return fmt.Errorf("vault at %s: %s", r.path, text) }

// send sends a request to an escaped path below /v1/, with body as JSON unless it is nil.
func (v *VaultStore) send(ctx context.Context, method, path, token string, body any) (*reply, error) {
	var content io.Reader
	if body != nil {
		document, err := json.Marshal(body)
		if err != nil {
			return nil, errors.New("what is to be sent to vault is not UTF-8")
		}
		content = bytes.NewReader(document)
	}
	r, err := http.NewRequestWithContext(ctx, method, v.base+path, content)
	if err != nil {
		return nil, errors.New("vault cannot be asked: its address does not make a request")
	}
	r.Header.Set("X-Vault-Request", "true") // agents and proxies may require it
	if v.namespace != "" {
		r.Header.Set("X-Vault-Namespace", v.namespace)
	}
	if token != "" {
		r.Header.Set("X-Vault-Token", token)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := answers.Final(v.transport.RoundTrip(r)) // which follows no redirect, and so sends the token nowhere else
	if err != nil {
		return nil, v.unreachable(ctx, err)
	}
	defer response.Body.Close()
	answer, err := answers.Read(response, nil, maxAnswer)
	if err != nil {
		return nil, v.unreachable(ctx, err)
	}
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("vault answered with more than %d bytes", maxAnswer)
	}
	return &reply{path, response.StatusCode, answer}, nil
}

// unexpected returns an error that explains a status for which the caller has no better message.
func (r *reply) unexpected() error {
	meaning := ""
	switch status := r.status; {
	case status >= 300 && status < 400:
		meaning = ", a redirect, which is not followed: give the address of the active server, or one that forwards"
	case status == http.StatusBadRequest, status == http.StatusForbidden:
		meaning = ": check role, credential and policy"
	case status == http.StatusNotFound:
		meaning = ": check address, namespace and mount"
	case status == http.StatusTooManyRequests:
		meaning = ": it is a standby, or has had too many requests"
	case status == http.StatusServiceUnavailable:
		meaning = ": it is sealed, or down for maintenance"
	}
	return fmt.Errorf("it answered %d%s", r.status, meaning)
}

// unreachable returns the error for a request without a response.
func (v *VaultStore) unreachable(ctx context.Context, err error) error {
	hint, reason := "", answers.Failure(err)
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		hint = ", give ca_file"
	}
	if ctx.Err() != nil {
		reason = context.Cause(ctx)
	}
	return fmt.Errorf("vault cannot be reached: %w%s", reason, hint)
}
