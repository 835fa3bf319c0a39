package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/request"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/contract"
)

// NeedsConsent reports whether the connector's auth type needs the consent of a person: it sends nothing for a user until that user
// has been to the URL of [Connector.BeginConsent] and back.
func (c *Connector) NeedsConsent() bool { return c.plugin != nil && c.plugin.info.Consent }

// ConsentRequest describes the browser that goes to the authorization server.
type ConsentRequest struct {
	// RedirectURI is an absolute URL without a query and a fragment, as registered at the authorization server. Let each connector
	// have its own: then an authorization server cannot have an answer of another one taken for its own (RFC 9700 section 4.4).
	RedirectURI string
	// Binding is a secret of at least 16 bytes that only this browser has, such as a random cookie. Its hash is kept.
	Binding string
}

const (
	consentTime     = 10 * time.Minute // from the beginning of a consent until it must have come back
	shortestBinding = 16               // bytes
)

// pendingConsent is a consent that is under way, as the store has it.
type pendingConsent struct {
	Connector string
	// Config is a digest of the connector's configuration.
	Config []byte
	// User is the user who began, or nil for the operator. Its JSON has no token.
	User        *User `json:",omitempty"`
	RedirectURI string
	Binding     []byte
	Verifier    string
	Nonce       string
	Issuer      string `json:",omitempty"`
	// Origin is that of the authorization URL.
	Origin      string `json:",omitempty"`
	IssRequired bool   `json:",omitempty"`
	// CodeParameter is the name of the parameter that has the code.
	CodeParameter string
}

// BeginConsent begins the consent of the context's user, or of the operator if the context has no user. It returns the URL of the
// authorization server to which the user's browser must go (RFC 6749 section 4.1.1). The server sends the browser back to the redirect URI,
// and what it sends along is for [Host.Callback]. The consent ends after 10 minutes. The IDs of the user and of the tenant must be UTF-8.
func (c *Connector) BeginConsent(ctx context.Context, r ConsentRequest) (authorizationURL string, err error) {
	if u, err := url.Parse(r.RedirectURI); err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", c.fail(StageConfig, errors.New("the redirect URI of a consent must be an absolute URL without a query and a fragment"))
	}
	if len(r.Binding) < shortestBinding {
		return "", c.fail(StageConfig, fmt.Errorf("the binding of a consent must have at least %d bytes: make a random one for each browser", shortestBinding))
	}
	if err := c.enterConsent(ctx); err != nil {
		return "", err
	}
	defer c.runner.Gate.Leave()
	random, base64url := make([]byte, 96), base64.RawURLEncoding.EncodeToString
	if _, err := io.ReadFull(c.plan.Random, random); err != nil {
		return "", c.fail(StagePlugin, err)
	}
	own := hostfn.Consent{RedirectURI: r.RedirectURI, State: base64url(random[:32]), Verifier: base64url(random[32:64]), Nonce: base64url(random[64:])}
	authorization, pending, err := c.authorization(ctx, own)
	if err != nil {
		return "", err
	}
	pending.Connector, pending.Config, pending.Binding = c.config.Name, c.configDigest(), bindingHash(r.Binding)
	if u, ok := UserFrom(ctx); ok {
		pending.User = &u
	}
	row, err := json.Marshal(pending)
	if err != nil {
		return "", c.fail(StagePlugin, err)
	}
	if err := c.node.Hold(ctx, consentKey(own.State), row, consentTime); err != nil {
		return "", c.stateFailure("the consent cannot be kept", err)
	}
	return authorization.URL, nil
}

// authorization returns the authorization request of the plugin with what is the host's own, and what must be kept of it. If a server
// refuses a request that is pushed, and shows by its Date that its clock is not the host's, another is signed and sent.
func (c *Connector) authorization(ctx context.Context, own hostfn.Consent) (a hostfn.Authorization, pending pendingConsent, err error) {
	var server string
	var promised bool
	clock := c.plan.ServerOffset(c.runner.Reader.Subject(ctx).TenantID)
	for attempt := range 2 {
		offset := clock.Seconds()
		err = c.runConsent(ctx, contract.ExportConsent, nil, nil, func(call *hostfn.Call, output []byte) (failure *hostfn.Failure) {
			if server, promised, failure = c.runner.Reader.AuthorizationServer(ctx, call.Inputs()); failure == nil {
				a, failure = call.Authorization(output, own)
			}
			return failure
		})
		if err == nil || attempt > 0 || clock.Seconds() == offset {
			break
		}
	}
	if err != nil {
		return a, pending, err
	}
	origin, err := request.OriginOf(a.Endpoint)
	if err != nil {
		return a, pending, c.fail(StageConfig, fmt.Errorf("the authorization URL %w", err))
	}
	if a.NoPKCE {
		own.Verifier = ""
	}
	return a, pendingConsent{
		RedirectURI: own.RedirectURI, Verifier: own.Verifier, Nonce: own.Nonce, Issuer: cmp.Or(a.Issuer, server),
		IssRequired: a.IssRequired || promised, Origin: origin.String(), CodeParameter: a.CodeParameter,
	}, nil
}

// enterConsent begins a use of the grant of the context's user. The caller must call c.runner.Gate.Leave.
func (c *Connector) enterConsent(ctx context.Context) error {
	if err := c.canConsent(ctx); err != nil {
		return err
	}
	if err := c.runner.Gate.Enter(); err != nil {
		return c.fail(StagePlugin, err)
	}
	return nil
}

// canConsent returns an error unless the context's user can give consent to the connector.
func (c *Connector) canConsent(ctx context.Context) error {
	if !c.NeedsConsent() {
		return c.fail(StageConfig, errors.New("the auth type has no consent: no user connects to it"))
	}
	switch u, ok := UserFrom(ctx); {
	case ok && u.ID == "":
		return c.fail(StageTemplate, errors.New("the user has no id, so that nobody knows whose consent it is"))
	case !utf8.ValidString(u.ID) || !utf8.ValidString(u.TenantID): // JSON would have the ID of another user
		return c.fail(StageTemplate, errors.New("the id of the user or of the tenant is not UTF-8"))
	}
	return nil
}

func consentKey(handle string) lease.Key {
	return lease.Key{Partition: sha256.Sum256([]byte("consent")), Name: handle}
}

func heldKey(name string) lease.Key {
	return lease.Key{Partition: sha256.Sum256([]byte("held")), Name: name}
}

// Hold keeps a value in the store of state until [Connector.Take] takes it, or ttl is over. The name must be a new one, for all connectors of the
// store.
func (c *Connector) Hold(ctx context.Context, name string, value []byte, ttl time.Duration) error {
	return c.node.Hold(ctx, heldKey(name), value, ttl)
}

// Peek returns what Hold keeps, or nil.
func (c *Connector) Peek(ctx context.Context, name string) ([]byte, error) {
	return c.node.Peek(ctx, heldKey(name))
}

// Take takes what Hold keeps, and reports whether there was something. Of all calls on all nodes, at most one gets it.
func (c *Connector) Take(ctx context.Context, name string) (value []byte, ok bool, err error) {
	return c.node.Take(ctx, heldKey(name))
}

func bindingHash(binding string) []byte {
	sum := sha256.Sum256([]byte("binding" + binding))
	return sum[:]
}

// configDigest returns a digest of the connector's configuration as it is written. An answer for another one is not used.
func (c *Connector) configDigest() []byte {
	config, _ := strictjson.Marshal(c.auth.Config) // setSeed has encoded it before
	var d connect.Digest
	d.Add(c.config.Name, c.auth.Type, string(config))
	sum := d.Sum()
	return sum[:]
}

// runConsent runs an export of the plugin that has to do with consent, with a turn for its states and a code, if it needs them. If next
// is not nil, it gets the output.
func (c *Connector) runConsent(
	ctx context.Context, export string, turn *lease.Turn, code *hostfn.Code, next func(*hostfn.Call, []byte) *hostfn.Failure,
) (err error) {
	stats := c.events.Attempt()
	stats.Consent = true
	defer func() {
		stats.End(err)
		stats.Observe(ctx, err)
	}()
	in, failure := c.runner.Reader.ReadAll(ctx, nil, &stats)
	if failure != nil {
		return c.failure(failure)
	}
	in.Code = code
	ctx = stats.Begin(ctx, event.Span{Name: event.Consent, Export: export})
	ctx, cancel := context.WithTimeout(ctx, c.plan.ExchangeTime)
	defer cancel()
	free, err := c.runner.AcquireSlot(ctx)
	if err != nil {
		return c.fail(StageToken, err)
	}
	defer free()
	call := hostfn.New(ctx, c.plan.Plan, in, hostfn.Detached)
	if err := call.HoldTurn(turn); err != nil {
		return c.fail(StageToken, err)
	}
	_, failure = c.runner.Count(ctx, export, call, &stats, next)
	call.Flush()
	switch {
	case failure != nil:
		return c.failure(failure)
	case call.Restart != nil:
		return c.fail(StagePlugin, fmt.Errorf("%s asked for what only a request has", export))
	}
	return nil
}
