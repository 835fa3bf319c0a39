package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/run"
	"github.com/keywright/keywright/host/internal/send"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/expr"
)

// ConnectorConfig configures a connector: a named external API and how requests to it are authenticated.
type ConnectorConfig struct {
	// Name is part of errors and log lines. No connector with another name can use its tokens.
	Name string
	// Origins are the scheme, host and port of the API, such as https://api.example.com. Requests to any other origin
	// fail. A star in place of a label, as in https://*.example.com, is a host that depends on the tenant of the context's [User]: the
	// program chooses one of Hosts for each request, and redirects to another get no credential.
	Origins []string
	// Hosts bounds all hosts of the connector that are not literal: in Origins, in URLs of Auth, and those that an answer names. It has
	// names such as eu.example.com, and *.example.com, where the star stands for one label. A host without a port has that of https, or
	// http.
	Hosts []string
	// HostsShareSecrets allows secrets that are the same for all tenants beside a host that the tenant chooses, or below a domain where
	// everybody can get a name, such as myshopify.com (by the list of publicsuffix.org).
	HostsShareSecrets bool
	// Auth has the authentications of each request: one, as in []host.Auth{{Type: "none"}}, or for an API that wants several on one
	// request, such as a token and a signature, up to four. They run in order. Each gets the request as those before it have left it, but
	// what they have put in is sealed, so that it can be signed and nothing else. Two may not set the same header, cookie or parameter. One
	// at most may change the path, and one may have states or consent.
	Auth Auths
	// TLS has the client certificate and the authorities of the connector. If it is nil, those of [Egress].TLS apply. It needs
	// the host's own transport: with [Config].Base it is an error.
	TLS *TLS
	// Egress limits where this connector connects to, in place of [Config].Egress. It needs the host's own transport: with
	// [Config].Base it is an error. A transport that is given to [Connector.Transport] is not limited.
	Egress *Egress
	// Timeout limits a token exchange, including its wait for a place, which takes half of it at most, and so the wait of each call for
	// that token. 0 means CallTime of the host's [Limits]. A lower CallTime of the plugin's limits applies in any case.
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
	// BodyBytes limits the size of a request body that the host keeps, see [Connector.Transport]. 0 means BodyBytes of the host's Limits.
	BodyBytes int64
}

// Auths are the authentications of a connector.
type Auths []Auth

// Type returns the auth types, with a plus sign between them.
func (a Auths) Type() string {
	types := make([]string, len(a))
	for i := range a {
		types[i] = a[i].Type
	}
	return strings.Join(types, "+")
}

// Auth is an authentication object of a connector: an auth type and its configuration.
type Auth struct {
	// Type is the auth type of the API, or an alias of it.
	Type string `json:"type"`
	// Config has the fields of the auth type, by name. Its values are string, bool, numbers (json.Number keeps their text), nil, []any and
	// map[string]any. It may have up to 50,000 values, 4 MiB of texts and names, and 512 KiB of texts with expressions.
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

// maxAuthJSON is the maximum length of an Auth in JSON, in bytes. The largest configuration fits in it with each character escaped.
const maxAuthJSON = 32 << 20

// A Connector authenticates requests to one API. Make one with [Host.NewConnector]; any other Connector fails each request.
//
// Each authentication of a list is a Connector of its own. The one with states or consent, or else the first, has the others in elements,
// and is the one that Host.NewConnector returns.
type Connector struct {
	host   *Host
	config ConnectorConfig
	auth   Auth
	// path is that of the authentication in a list, such as auth[1]. It is "" if there is one.
	path string
	// main is the connector that Host.NewConnector has returned. Its elements have all in order.
	main     *Connector
	elements []*Connector
	plugin   *plugin
	plan     *connect.Plan
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
func (c *Connector) Secrets() []string { return namesIn(c.elements).Secrets }

// Variables returns the names of the variables that the connector's templates name, sorted. One of a tenant is named as in
// tenants/*/region.
func (c *Connector) Variables() []string { return namesIn(c.elements).Variables }

// namesIn returns the names in the templates of all elements.
func namesIn(elements []*Connector) template.Names {
	all := make([]template.Names, len(elements))
	for i, e := range elements {
		all[i] = e.plan.Names
	}
	return expr.Merged(all...)
}

// FieldSecrets returns the names of the secrets in each field of the connector's auth, as [Connector.Secrets] has them, sorted. The
// name user.token stands for the token of the user's session, and identity('NAME', 'AUDIENCE') for that of an identity. The secrets of its
// TLS are under tls.certificate, tls.key and tls.ca. Fields without secrets are left out. In a list of authentications, a field has the
// place in front, as in auth[1].private_key.
func (c *Connector) FieldSecrets() map[string][]string {
	all := map[string][]string{}
	for _, e := range c.elements {
		e.plan.FieldSecrets(all)
	}
	return all
}

// CheckKeys asks [Config].Keys about each key that the configuration names with get_key. It returns the [Error] that a request would get
// because a key is not there or does not fit its algorithm, or because the store does not answer. It signs nothing. The user of the
// context is that of templates, see [WithUser].
func (c *Connector) CheckKeys(ctx context.Context) error {
	for _, e := range c.elements {
		if err := e.checkKeys(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Connector) checkKeys(ctx context.Context) error {
	if !c.plan.AsksKeys {
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

// CheckSharedKeys returns a [ConfigError] if a key that signs JWS is also one that signs something else, by its name, in a connector of
// the host. [Host.NewConnector] returns it about the connectors that there are; this is for those that it has made since. Such a
// connector fails its requests in any case, and the other one does not.
func (c *Connector) CheckSharedKeys() error {
	findings := make([]connect.Findings, len(c.elements))
	for i, e := range c.elements {
		findings[i].Problems = e.plan.SharedKeys(nil)
	}
	return newConfigError(c.config.Name, findings)
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
	return certificate, nil
}

// LastClientCertificate returns the client certificate that a request needed last, or nil if none has needed one: also one to a connector
// with the same name and TLS of a host before, see [Config].Previous. The certificate may have ended, and then it was not used.
// LastClientCertificate reads no secret.
func (c *Connector) LastClientCertificate() *ClientCertificate {
	if c.plan == nil || c.plan.TLS == nil {
		return nil
	}
	return c.transport.TLS.Last.Load()
}

func (c *Connector) fail(stage Stage, err error) *Error {
	if errors.Is(err, ErrClosed) {
		stage = StageClosed
	}
	failed := &Error{Connector: c.config.Name, AuthType: c.auth.Type, Path: c.path, Stage: stage, Err: err}
	if field, ok := errors.AsType[*view.FieldError](err); ok {
		failed.Field = field.Field
	}
	return failed
}

func (c *Connector) failure(f *hostfn.Failure) error { return c.fail(Stage(f.Stage), f.Err) }

// Transport returns a RoundTripper that authenticates each request and sends it through base, or through [Connector.Base] if base is
// nil. Any other base must check addresses itself. If the connector has TLS for the API, such a base must send through Base, with the
// context of the request that it gets; otherwise no certificate is presented.
//
// The caller's request is never changed: the credential goes into a clone. Response.Request is the caller's request, so
// that redirects, Referer and errors use a URL without credentials. A request for an origin that is not the connector's
// fails, also if a client sends it to follow a redirect, unless [ConnectorConfig].CrossOriginRedirects allows that.
//
// If the API answers a request with a cached token with 401, the token is dropped, and the request is sent once more if
// its body can be replayed: if there is no body, if the request has GetBody, or if the body is kept. Other cache
// entries that the plugin read remain, unless it also read the request.
//
// A body streams, unless the plugin reads the request, and with it the body's digest, to sign it. Then the host reads a body from GetBody.
// If GetBody is nil, the host reads the body itself and keeps it until the request has ended: up to 64 KiB in memory, and a longer one in a
// file in [os.TempDir] that only this process can open. A kept body is sent with a Content-Length, unless the request has trailers. If the
// body is longer than BodyBytes of the [ConnectorConfig], nothing is sent and the error wraps [http.MaxBytesError]. If its length differs
// from ContentLength, nothing is sent either.
func (c *Connector) Transport(base http.RoundTripper) http.RoundTripper {
	return c.roundTripper(base, false)
}

// GuardedTransport is like [Connector.Transport], for callers who must not see the credential, such as browsers behind a gateway: if the
// API echoes it, it does not reach the caller. The credential consists of the texts in the request that contain a sealed value:
//
//   - a whole header or query parameter, and the part of a header after an authentication scheme such as Bearer;
//   - of Basic, the user and password together, and the password;
//   - a secret of the connector in any of these, also encoded. So put values that are not secret into variables.
//
// [WithCredentials] adds others. If one of these texts as a whole is percent-encoded, Base64 or hex, in up to three layers, the decoded
// text counts too, and so does the password of a decoded user:password. Texts shorter than 8 bytes are not searched for.
//
// Each text is found as it is, in UTF-16 (ASCII only), in hex, and in Base64: in both alphabets, as part of a longer Base64 text, and in
// lines of 32 characters or more, with any line breaks and up to some fifty bytes of white space before each. In all of these but
// UTF-16, any character may be escaped in one of these ways, with numbers of up to eight digits:
//
//   - as in URLs, with + for a space, up to four times over, where each time encodes the percent sign alone: %2F, %252f;
//   - as in JSON and JavaScript, with up to seven backslashes: \u002f, \u{2f}, \x2f, octal \57, \n and the like, and a backslash before any
//     punctuation mark;
//   - as a numeric reference of HTML, or a named one for & < > " ', up to four times over and also without the semicolon: &#47;, &#x2f;,
//     &amp;.
//
// It is not found with escapes of one kind inside those of another, if the API has changed its case, compressed, encrypted or split it
// (as a Range request can make it do), in lines without Base64, in another character set, or in another encoding: Base64 of Base64, escapes
// of CSS, MIME's quoted-printable, other named references, or a backslash before a letter that needs none.
//
// The time of the search grows with the length of the answer alone. An answer that would take longer, because it repeats many times
// nearly all of a credential, counts as one that contains it, and the error of its body says so.
//
// The guard changes an answer as follows:
//
//   - A body that contains the credential ends with an [Error] of [StageResponse] that wraps [ErrCredentialInResponse], before the
//     first byte of it. What is before has been passed on as it came; only bytes that may begin it are held back. A caller that wants to
//     answer with a status of its own must read a first piece of the body before it sends the status.
//   - A header or trailer that contains it is dropped, and a warning is logged once. In names, it is found in any case of letters,
//     because net/http changes that.
//   - A redirect whose Location contains it is an error.
//   - An informational answer (1xx) reaches an [httptrace.ClientTrace] without the headers that contain it.
//   - A Content-Encoding is undone, although the request asks for identity: gzip, deflate and [Config].ContentCodings. Then
//     Content-Encoding, Content-Length and Accept-Ranges are gone, and an ETag is weak. A body that becomes more than 200 times as long
//     ends with an error.
//
// An answer that cannot be searched is an error: one with another coding, one with a coding and the status 206, a 101, and answers to
// CONNECT. A request without a credential, such as one of the type none, is sent and answered as by Transport.
func (c *Connector) GuardedTransport(base http.RoundTripper) http.RoundTripper {
	return c.roundTripper(base, true)
}

func (c *Connector) roundTripper(base http.RoundTripper, guarded bool) http.RoundTripper {
	if c.transport == nil {
		return unconnected{c}
	}
	return c.transport.RoundTripper(base, guarded)
}

var errNotConnected = errors.New("the connector was not made by Host.NewConnector")

// unconnected is the RoundTripper of a connector that was not made by Host.NewConnector. It sends nothing.
type unconnected struct{ connector *Connector }

func (u unconnected) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, u.connector.fail(StageOrigin, errNotConnected)
}

// Authenticate returns a clone of the request with its credential, for callers that send it with a client of their own.
// The URL and headers of the clone contain the credential: do not log it, and do not send it with a client that follows
// redirects. If the connector has TLS for the API, send it through [Connector.Base].
//
// The clone shares the body of the request, unless the host keeps it, see [Connector.Transport]. In that case, the request's own body has
// been read and closed, even if there is an error, and the caller must close the clone's body if it does not send it. A plugin's turn ends
// before Authenticate returns, so numbers that must rise may arrive in another order.
func (c *Connector) Authenticate(r *http.Request) (*http.Request, error) {
	if c.transport == nil {
		return nil, c.fail(StageOrigin, errNotConnected)
	}
	return c.transport.AddCredential(r)
}

// Base returns the transport that [Connector.Transport] uses if its base is nil. It adds no credential. If the connector has TLS for the
// API, it presents the client certificate, and sends only requests that this connector has authenticated: those that a base receives, and
// those of [Connector.Authenticate].
func (c *Connector) Base() http.RoundTripper {
	if c.transport == nil {
		return unconnected{c}
	}
	return c.transport.Base()
}

// WithCredentials returns a context whose requests carry further credentials, from templates that the embedder renders.
// [Connector.GuardedTransport] searches answers for them as for those of the connector. Texts without a secret are ignored.
func WithCredentials(ctx context.Context, texts ...Text) context.Context {
	var all []string
	for _, text := range texts {
		if text.Secret {
			all = append(append(all, text.secrets...), leakscan.Parts(text.Value)...)
		}
	}
	return send.WithCredentials(ctx, all)
}
