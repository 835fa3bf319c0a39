package sdk

import (
	"errors"

	"github.com/keywright/keywright/internal/contract"
)

// Consenter is implemented by a [Plugin] whose users give consent, as with the authorization code grant of OAuth (RFC 6749
// section 4.1). Its [Description] has Consent, and a state that the grant is kept in.
//
// The host does what such plugins have in common: it makes state, nonce and the code verifier (PKCE), waits for the user to come
// back, checks that it is the same user and the same browser, and keeps the grant.
type Consenter interface {
	Plugin
	// Consent returns the page to which a user's browser goes. It may hold no sealed value. It also runs when a connector is loaded,
	// so that a configuration that would show a secret to the browser is refused.
	Consent(c *Call) (Consent, error)
	// Connect exchanges the code with which the user came back. The host keeps the answers with a state as the grant of the
	// user, once Connect has returned no error.
	Connect(c *Call, code Code) error
	// Disconnect revokes the grant, which [Call.State] returns. The host forgets it in any case.
	Disconnect(c *Call) error
}

// Consent is an authorization request, RFC 6749 section 4.1.1.
type Consent struct {
	// URL is the rendered value of a configuration field of kind [URL], exactly as [Call.Config] returned it.
	URL string
	// Query parameters are appended to those of the URL. The host adds response_type, redirect_uri, state, code_challenge,
	// code_challenge_method and nonce, and refuses a response_mode.
	Query []Pair
	// Issuer is the identifier of the authorization server. If it is not empty, an iss with which the user comes back must be
	// equal to it (RFC 9207).
	Issuer string
	// IssRequired reports whether the host refuses an answer without iss.
	IssRequired bool
	// CodeParameter is the name of the parameter with which the browser brings the code. If it is empty, it is code.
	CodeParameter string
	// NoPKCE reports whether the host leaves PKCE out, for a server that refuses it. [Code].Verifier is empty then.
	NoPKCE bool
	// Push, if not nil, has the host send the request to the authorization server, which answers with a reference to it (RFC 9126).
	// The browser gets that and the client_id of Query, and no other parameter. The description must have [UsesToken].
	Push *Push
}

// Push says how an authorization request is pushed. Sealed values may stand in it, with the sink [ToToken].
type Push struct {
	// URL is the pushed authorization request endpoint: the rendered value of a configuration field of kind [URL].
	URL string
	// Form and Headers authenticate the client. The parameters of Form replace those of the same name in [Consent].Query.
	Form, Headers []Pair
}

// Code is an authorization response, RFC 6749 section 4.1.2. The host has checked it.
type Code struct {
	// Code and Verifier are sealed values with the sink [ToToken]. Verifier is the code_verifier of RFC 7636.
	Code, Verifier string
	// RedirectURI is the redirect_uri of the authorization request. The token request repeats it.
	RedirectURI string
}

var errNoConsent = errors.New("the plugin does not implement sdk.Consenter")

func consentCall(p Plugin, env contract.Env) (string, error) {
	consenter, ok := p.(Consenter)
	if !ok {
		return "", errNoConsent
	}
	consent, err := consenter.Consent(&Call{env})
	if err != nil {
		return "", err
	}
	var o Members
	o.String("url", consent.URL)
	o.pairs("query", consent.Query)
	o.text("issuer", consent.Issuer)
	o.flag("iss_required", consent.IssRequired)
	o.text("code_parameter", consent.CodeParameter)
	o.flag("no_pkce", consent.NoPKCE)
	if p := consent.Push; p != nil {
		var push Members
		push.String("url", p.URL)
		push.pairs("form", p.Form)
		push.pairs("headers", p.Headers)
		o.Raw("push", push.JSON())
	}
	return o.JSON(), nil
}

func connectCall(p Plugin, env contract.Env) error {
	consenter, ok := p.(Consenter)
	if !ok {
		return errNoConsent
	}
	var code Code
	err := EachMember(string(env.Input()), func(name, value string) error {
		switch name {
		case "code":
			code.Code = text(value)
		case "code_verifier":
			code.Verifier = text(value)
		case "redirect_uri":
			code.RedirectURI = text(value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return consenter.Connect(&Call{env}, code)
}

func disconnectCall(p Plugin, env contract.Env) error {
	consenter, ok := p.(Consenter)
	if !ok {
		return errNoConsent
	}
	return consenter.Disconnect(&Call{env})
}
