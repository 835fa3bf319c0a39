package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/discovery"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/run"
	"github.com/keywright/keywright/host/internal/send"
	"github.com/keywright/keywright/host/internal/strictjson"
)

// ConnectorConfig configures a connector: a named external API and how requests to it are authenticated.
type ConnectorConfig struct {
	// Name is part of errors and log lines. No connector with another name can use its tokens.
	Name string
	// Origins are the scheme, host and port of the API, such as https://api.example.com. Requests to any other origin
	// fail.
	Origins []string
	// Auth is the auth type and its configuration.
	Auth Auth
	// TLS has the client certificate and the authorities of the connector. If it is nil, those of [Egress].TLS apply. It needs
	// the host's own transport: with [Config].Base it is an error.
	TLS *TLS
	// Egress limits where this connector connects to, in place of [Config].Egress. It needs the host's own transport: with
	// [Config].Base it is an error. A transport that is given to [Connector.Transport] is not limited.
	Egress *Egress
	// Timeout limits a token exchange, including its wait for a place, which takes half of it at most, and so the wait of each call
	// for that token.
	// 0 means CallTime of the host's [Limits]. A lower CallTime of the plugin's limits applies in any case.
	Timeout time.Duration
	// RefreshAhead is the time before the end of a cached token at which the host begins to replace it: with the first request
	// that uses the token from then on, on one node, while requests go on with the token that they have. If the token lives for
	// less than twice this time, that begins when half of its life has passed. 0 means that a token is replaced by the first
	// request after its end, which waits for it.
	RefreshAhead time.Duration
	// NeverResend keeps the host from sending a token that may be used once again, after a request without an answer that says what
	// became of it. Such a grant is [ConditionLost] then. Without it, the grant is [ConditionUncertain], and a later request sends the token again.
	NeverResend bool
	// CrossOriginRedirects lets a client follow a redirect of the API to another origin, such as a signed URL of a store of objects. Such
	// a request has no credential, no client certificate and no header of the caller but those about content, caches, ranges and
	// User-Agent. It is a GET or HEAD without a body, to https, after 10 redirects at most. Its redirects back to the connector's
	// origins have no credential either, and a redirect whose URL holds the credential is an error. The gateway follows no redirects.
	CrossOriginRedirects bool
	// BodyBytes limits the size of a request body that the host keeps, see [Connector.Transport]. 0 means BodyBytes of
	// the host's Limits.
	BodyBytes int64
}

// Auth is the authentication object of a connector: an auth type and its configuration.
type Auth struct {
	// Type is the auth type of the API, or an alias of it.
	Type string `json:"type"`
	// Config has the fields of the auth type, by name. Its values are string, bool, numbers (json.Number keeps their
	// text), nil, []any and map[string]any. It may have up to 50,000 values, 4 MiB of texts and names, and 512 KiB of
	// texts with expressions.
	Config map[string]any `json:"config,omitempty"`
}

// UnmarshalJSON decodes an object strictly: an unknown or duplicate member is an error. Numbers become json.Number,
// which keeps their text. A document of more than 32 MiB is an error.
func (a *Auth) UnmarshalJSON(document []byte) error {
	if len(document) > maxAuthJSON {
		return fmt.Errorf("auth has more than %d bytes", maxAuthJSON)
	}
	type plain Auth
	if err := strictjson.Unmarshal(document, (*plain)(a)); err != nil {
		return fmt.Errorf("auth %w", err)
	}
	return nil
}

// maxAuthJSON is the maximum length of an Auth in JSON, in bytes. The texts of the largest configuration fit in it, with each
// character escaped.
const maxAuthJSON = 32 << 20

var _ json.Unmarshaler = (*Auth)(nil)

// A Connector authenticates requests to one API. Make one with [Host.NewConnector]; any other Connector fails each request.
type Connector struct {
	host   *Host
	config ConnectorConfig
	plugin *plugin
	plan   *connect.Plan
	// node has the grants of the users, or of the operator. It is nil if the auth type has no states.
	node   *lease.Node
	log    *connectorLog
	events event.Stream
	// transport and runner are nil if Host.NewConnector has not made the connector.
	transport *send.Transport
	runner    *run.Runner
}

// Config returns the configuration that [Host.NewConnector] received, with the names of the auth type and of its fields in place of aliases.
// The caller must not change its maps and slices.
func (c *Connector) Config() ConnectorConfig { return c.config }

// Secrets returns the names of the secrets that the connector's templates name, sorted. In the name of a secret of a tenant or
// a user, a star stands for the ID, as in tenants/*/crm; see [SecretName].
func (c *Connector) Secrets() []string {
	if c.plan == nil {
		return nil
	}
	return slices.Clone(c.plan.Names.Secrets)
}

// FieldSecrets returns the names of the secrets in each field of the connector's auth, as [Connector.Secrets] has them, sorted. The
// name user.token stands for the token of the user's session. The secrets of its TLS are under tls.certificate, tls.key and tls.ca.
// Fields without secrets are left out.
func (c *Connector) FieldSecrets() map[string][]string {
	if c.plan == nil {
		return map[string][]string{}
	}
	return c.plan.FieldSecrets()
}

// CheckKeys asks [Config].Keys about each key that the configuration names with get_key. It returns the [Error] that a request would get
// because a key is not there or does not fit its algorithm, or because the store does not answer. It signs nothing. The user of the
// context is that of templates, see [WithUser].
func (c *Connector) CheckKeys(ctx context.Context) error {
	if c.plan == nil || !c.plan.AsksKeys {
		return nil
	}
	if err := c.runner.Gate.Enter(); err != nil {
		return c.fail(StagePlugin, err)
	}
	defer c.runner.Gate.Leave()
	in, failure := c.runner.Reader.ReadAll(ctx, nil, &event.Attempt{})
	if failure != nil {
		return c.failure(failure)
	}
	call := hostfn.New(ctx, c.plan.Plan, in, hostfn.Detached)
	for _, described := range c.plugin.info.Fields {
		f := c.plan.Fields[described.Name]
		if f.Text == nil || f.Text.Key() == nil {
			continue
		}
		if failure := call.CheckKey(f); failure != nil {
			return c.failure(failure)
		}
	}
	return nil
}

// ClientCertificate reads the secrets and returns the client certificate that a request with the user of the context uses, or
// nil for a connector without one. The error is the one that requests get, but a certificate that has ended is no error: see
// [ClientCertificate.Ended].
func (c *Connector) ClientCertificate(ctx context.Context) (*ClientCertificate, error) {
	if c.plan == nil || c.plan.TLS == nil {
		return nil, nil
	}
	secrets, failure := c.runner.Reader.ReadSecrets(ctx, nil)
	if failure != nil {
		return nil, c.failure(failure)
	}
	certificate, failure := c.transport.TLS.Read(ctx, c.runner.Reader.Inputs(secrets, c.runner.Reader.Subject(ctx), nil))
	if failure != nil {
		return nil, c.failure(failure)
	}
	return (*ClientCertificate)(certificate), nil
}

// LastClientCertificate returns the client certificate that a request needed last, or nil if none has needed one. The
// certificate may have ended, and then it was not used. LastClientCertificate reads no secret.
func (c *Connector) LastClientCertificate() *ClientCertificate {
	if c.plan == nil || c.plan.TLS == nil {
		return nil
	}
	return (*ClientCertificate)(c.transport.TLS.Last())
}

func (c *Connector) fail(stage Stage, err error) error {
	if errors.Is(err, ErrClosed) {
		stage = StageClosed
	}
	failed := &Error{Connector: c.config.Name, AuthType: c.config.Auth.Type, Stage: stage, Err: err}
	if errors.As(err, new(*discovery.Error)) || errors.As(err, new(*hostfn.TokenError)) {
		failed.Err = publicError{err}
	}
	var field *hostfn.FieldError
	if errors.As(err, &field) {
		failed.Field = field.Field
	}
	return failed
}

func (c *Connector) failure(f *hostfn.Failure) error {
	return c.fail(Stage(f.Stage), f.Err)
}
