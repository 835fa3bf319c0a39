package host

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/request"
	"github.com/keywright/keywright/internal/contract"
)

// AuthorizationResponse is the request with which a browser comes back from an authorization server.
type AuthorizationResponse struct {
	// RedirectURI is the URL of the request without its query. It must be that of the [ConsentRequest].
	RedirectURI string
	// Response is the query of the request (RFC 6749 sections 4.1.2 and 4.1.2.1).
	Response url.Values
	// Binding is the secret of the browser. It must be that of the [ConsentRequest].
	Binding string
}

// EndedConsent says whose consent has ended.
type EndedConsent struct {
	// Connector is the name of the connector.
	Connector string
	// User is the user who began the consent, or nil for the operator.
	User *User
}

// Callback ends a consent: it exchanges the code for a grant and keeps that for the user who began. If the context has a user,
// that must be the same. connector returns the connector of a name, or nil; it is called with the name of the one whose
// [Connector.BeginConsent] began. Callback returns whose consent it was, also with an error, once it is known.
//
// Each consent is ended once, with or without an error. The error is a [*ConsentError] if the consent does not count. Otherwise it is
// an [Error] of the exchange, or of the store that does not keep the grant, or the error of a store that does not return the consent.
// Nothing is kept if there is an error.
func (h *Host) Callback(ctx context.Context, back AuthorizationResponse, connector func(name string) *Connector) (consent EndedConsent, err error) {
	if h.config.State == nil {
		return consent, errors.New("the host has no State, so that no consent is under way")
	}
	pending, err := h.takeConsent(ctx, back)
	if err != nil {
		return consent, err
	}
	name := pending.Connector
	consent = EndedConsent{name, pending.User}
	if wrong := cmp.Or(pending.foreign(ctx, back), pending.answer(back.Response)); wrong != nil {
		return consent, wrong
	}
	c := connector(name)
	if c == nil || !c.NeedsConsent() || c.node != h.config.State.node || subtle.ConstantTimeCompare(c.configDigest(), pending.Config) != 1 {
		return consent, &ConsentError{Reason: ConsentUnknown, Text: "the connector was changed since the consent began: begin again"}
	}
	if _, there := UserFrom(ctx); !there && pending.User != nil {
		ctx = WithUser(ctx, *pending.User)
	}
	err = c.connectGrant(ctx, &hostfn.Code{
		Code: back.Response.Get(pending.CodeParameter), Verifier: pending.Verifier, RedirectURI: pending.RedirectURI, Nonce: pending.Nonce,
	})
	if errors.Is(err, hostfn.ErrIDToken) {
		return consent, forged(err.Error())
	}
	return consent, err
}

// takeConsent takes the consent that a browser came back from. Nobody else gets it.
func (h *Host) takeConsent(ctx context.Context, back AuthorizationResponse) (*pendingConsent, error) {
	if handles := back.Response["state"]; len(handles) == 1 {
		row, ok, err := h.config.State.node.Take(ctx, consentKey(handles[0]))
		if err != nil {
			return nil, fmt.Errorf("the consent cannot be taken from the store of state: %w", err)
		}
		var pending pendingConsent
		if ok && json.Unmarshal(row, &pending) == nil {
			return &pending, nil
		}
	}
	const text = "there is no such consent: it was ended before, it took more than 10 minutes, or nobody began it: begin again"
	return nil, &ConsentError{Reason: ConsentUnknown, Text: text}
}

// forged returns the error for what the authorization server of the connector does not answer.
func forged(text string) *ConsentError { return &ConsentError{Reason: ConsentForged, Text: text} }

// foreign returns why another one than who began the consent has come back, or nil.
func (p *pendingConsent) foreign(ctx context.Context, back AuthorizationResponse) *ConsentError {
	user, there := UserFrom(ctx)
	switch {
	case subtle.ConstantTimeCompare(bindingHash(back.Binding), p.Binding) != 1:
		return &ConsentError{Reason: ConsentOther, Text: "another browser began this consent: begin and end it in the same one"}
	case there && (p.User == nil || user.ID != p.User.ID || user.TenantID != p.User.TenantID):
		return &ConsentError{Reason: ConsentOther, Text: "another user began this consent: begin again"}
	case back.RedirectURI != p.RedirectURI:
		return forged("the consent came back to another URL than the one that it was begun with: another authorization server may have answered")
	}
	return nil
}

// answer returns what is wrong with an authorization response, or nil. It looks at iss first, because nothing of an answer of
// another server counts (RFC 9207 section 2.4).
func (p *pendingConsent) answer(response url.Values) *ConsentError {
	for _, name := range []string{p.CodeParameter, "error", "iss"} {
		if len(response[name]) > 1 {
			return forged("the authorization server's answer has a parameter twice")
		}
	}
	failure := response.Get("error")
	switch {
	case response.Has("iss") && !p.from(response.Get("iss")):
		return forged("another authorization server than that of the connector has answered (iss, RFC 9207): compare its issuer in the configuration")
	case p.IssRequired && !response.Has("iss"):
		return forged("the answer does not say which authorization server it is from (iss, RFC 9207), and that of the connector does")
	case failure == "access_denied":
		return &ConsentError{ConsentDenied, failure, "the consent was refused (access_denied)"}
	case response.Has("error"):
		if !slices.Contains(authorizationErrors, failure) {
			failure = ""
		}
		text := "the authorization server answered with the error " + cmp.Or(failure, "(one that is not registered)")
		return &ConsentError{ConsentFailed, failure, text}
	case response.Get(p.CodeParameter) == "" || len(response.Get(p.CodeParameter)) > maxCode:
		return forged("the authorization server's answer has neither a code nor an error")
	}
	return nil
}

// from reports whether iss is the authorization server of the consent. Issuers are compared byte by byte (RFC 9207 section 2.4). Where
// the issuer is not known, iss must have the origin of the authorization URL.
func (p *pendingConsent) from(iss string) bool {
	if p.Issuer != "" || p.Origin == "" { // a consent that an earlier version began has no Origin
		return p.Issuer == "" || iss == p.Issuer
	}
	u, err := url.Parse(iss)
	if err != nil {
		return false
	}
	origin, err := request.OriginOf(u)
	return err == nil && origin.String() == p.Origin
}

const maxCode = 4096 // bytes

// authorizationErrors has the registered error codes of authorization endpoints: RFC 6749 section 4.1.2.1, RFC 8707 and OpenID
// Connect Core section 3.1.2.6.
var authorizationErrors = []string{
	"invalid_request", "unauthorized_client", "access_denied", "unsupported_response_type", "invalid_scope", "server_error",
	"temporarily_unavailable", "invalid_target", "interaction_required", "login_required", "account_selection_required",
	"consent_required", "invalid_request_uri", "invalid_request_object", "request_not_supported", "request_uri_not_supported",
	"registration_not_supported",
}

// connectGrant exchanges a code and keeps the grant. A browser that goes away does not stop it.
func (c *Connector) connectGrant(ctx context.Context, code *hostfn.Code) error {
	ctx = context.WithoutCancel(ctx)
	if err := c.enterConsent(ctx); err != nil {
		return err
	}
	defer c.runner.Gate.Leave()
	turn := lease.NewTurn(nil)
	if err := c.runConsent(ctx, contract.ExportConnect, turn, code, nil); err != nil {
		return err
	}
	token := turn.Token()
	if token == nil {
		return c.fail(StageToken, errors.New("the authorization server issued nothing that can be kept: neither a refresh token nor an access token"))
	}
	key, _, _ := c.grantKey(ctx)
	ctx, cancel := c.grantTime(ctx)
	defer cancel()
	err := c.node.Renew(ctx, key, token)
	c.host.grants.forget(key)
	if err != nil {
		return c.stateFailure("the grant cannot be kept", err)
	}
	return nil
}

// ConsentReason is the reason why a consent does not count.
type ConsentReason string

// The reasons.
const (
	// ConsentUnknown means that there is no such consent: it was ended before, it is too old, or nobody has begun it.
	ConsentUnknown ConsentReason = "unknown"
	// ConsentOther means that another user or another browser has begun the consent.
	ConsentOther ConsentReason = "other"
	// ConsentDenied means that the user, or the authorization server, has refused (access_denied).
	ConsentDenied ConsentReason = "denied"
	// ConsentFailed means that the authorization server has answered with another error.
	ConsentFailed ConsentReason = "failed"
	// ConsentForged means that the answer is not what the authorization server of the connector answers: its iss (RFC 9207) or the nonce of
	// its ID token is wrong or missing, it came back to another URL, it has a parameter twice, or it has neither a code nor an error.
	ConsentForged ConsentReason = "forged"
)

// ConsentError is the error for a consent that does not count. Nothing was kept.
type ConsentError struct {
	Reason ConsentReason
	// Code is the error code of the authorization server if it is a registered one, and otherwise "".
	Code string
	// Text says what is wrong and what to do. It holds nothing that came from the browser.
	Text string
}

func (e *ConsentError) Error() string { return e.Text }
