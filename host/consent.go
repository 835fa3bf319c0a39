package host

import (
	"context"
	"errors"
	"net/url"
	"time"
)

// Consents reports whether the connector's auth type needs the consent of a person: it sends nothing for a user until that user
// has been to [Connector.Consent] and back.
func (c *Connector) Consents() bool { return false }

// Consent begins the consent of the context's user, or of the operator if the context has no user. It returns the URL of the
// authorization server to which the user's browser must go (RFC 6749 section 4.1.1). The server sends the browser back to
// redirectURI, and what it sends along is for [Host.Callback].
//
// binding is a secret that only this browser has, such as a random cookie. Its hash is kept. The consent ends after 10 minutes.
//
// redirectURI is an absolute URL without a fragment, as registered at the authorization server. Let each connector have its own:
// then an authorization server cannot have an answer of another one taken for its own (RFC 9700 section 4.4).
func (c *Connector) Consent(ctx context.Context, redirectURI, binding string) (authorizationURL string, err error) {
	return "", errors.New("not implemented")
}

// Callback is the request with which a browser comes back from an authorization server.
type Callback struct {
	// RedirectURI is the URL of the request without its query. It must be that of [Connector.Consent].
	RedirectURI string
	// Response is the query of the request (RFC 6749 sections 4.1.2 and 4.1.2.1).
	Response url.Values
	// Binding is the secret of the browser. It must be that of [Connector.Consent].
	Binding string
}

// Callback ends a consent: it exchanges the code for a grant and keeps that for the user who began. If the context has a user,
// that must be the same. connector returns the connector of a name, or nil; it is called with the name of the one whose
// [Connector.Consent] began. Callback returns that name too, also with an error, once it is known.
//
// Each consent is ended once, whatever comes of it. The error is a [*ConsentError] if the consent does not count. Otherwise it is
// an [Error] of the exchange, or that of the store.
func (h *Host) Callback(ctx context.Context, back Callback, connector func(name string) *Connector) (name string, err error) {
	return "", errors.New("not implemented")
}

// ConsentReason is the reason why a consent does not count.
type ConsentReason string

// The reasons.
const (
	// ConsentUnknown means that there is no such consent: it was ended before, it is too old, or nobody has begun it.
	ConsentUnknown ConsentReason = "unknown"
	// ConsentOther means that another user or another browser has begun the consent, or that it came back to another URL.
	ConsentOther ConsentReason = "other"
	// ConsentDenied means that the user, or the authorization server, has refused (access_denied).
	ConsentDenied ConsentReason = "denied"
	// ConsentFailed means that the authorization server has answered with another error.
	ConsentFailed ConsentReason = "failed"
	// ConsentForged means that the answer is not what the authorization server of the connector answers: its iss (RFC 9207) or
	// the nonce of its ID token is wrong or missing, or there is neither a code nor an error.
	ConsentForged ConsentReason = "forged"
)

// ConsentError is the error for a consent that does not count. Nothing was kept.
type ConsentError struct {
	// Connector is the name of the connector, or "" if it is not known.
	Connector string
	Reason    ConsentReason
	// Code is the error code of the authorization server if it is a registered one, and otherwise "".
	Code string
	// Text says what is wrong and what to do. It holds nothing that came from the browser.
	Text string
}

func (e *ConsentError) Error() string { return e.Text }

// Connection is what a user has at a connector.
type Connection struct {
	Condition Condition
	// Age is the time for which the condition has lasted. It is 0 if Condition is [NotConnected] and nobody was connected before.
	Age time.Duration
}

// Condition is the condition of a connection.
type Condition string

// The conditions.
const (
	// NotConnected means that nobody has given consent yet, or that it was taken back.
	NotConnected Condition = "not connected"
	// Connected means that requests can be authenticated, as far as the host knows.
	Connected Condition = "connected"
	// Lost means that the grant may have been redeemed without an answer. It is not used again: a new consent renews it.
	Lost Condition = "lost"
	// Refused means that the authorization server refuses the grant. A new consent renews it.
	Refused Condition = "refused"
)

// Connection returns the condition of the connection of the context's user, or of the operator if the context has no user.
func (c *Connector) Connection(ctx context.Context) (Connection, error) {
	return Connection{}, errors.New("not implemented")
}

// Disconnect forgets the grant of the context's user, or of the operator if the context has no user, and has the authorization
// server revoke it if the connector says how (RFC 7009). It may wait for a token request under way, for up to the time of a
// lease. The grant is forgotten even if the server could not be asked. Then the error wraps [ErrNotRevoked].
func (c *Connector) Disconnect(ctx context.Context) error {
	return errors.New("not implemented")
}

// ErrNotRevoked means that [Connector.Disconnect] has forgotten a grant, and that the authorization server may still accept it.
var ErrNotRevoked = errors.New("the grant is forgotten here, but the authorization server has not revoked it")
