package oauth

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/keywright/keywright/sdk"
)

// RefreshToken is the name of the state, and of the answer, that is a refresh token.
const RefreshToken = "refresh_token"

// Answers returns the answers of a token endpoint (RFC 6749 section 5), at the places that the fields of [Dialect] say, and more of them.
func Answers(more ...sdk.Answer) []sdk.Answer {
	usual := []sdk.Answer{
		{
			Name: "access_token", FromField: "token_from", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToHeader, sdk.ToDigest},
			Derived: []sdk.Sink{sdk.ToClaim}, Required: true,
		},
		{Name: "token_type", From: "json:/token_type", Kind: sdk.AnswerEnum, Enum: []string{bearerToken, apigeeToken, NoToken}},
		{Name: "bound", From: "json:/token_type", Kind: sdk.AnswerEnum, Enum: []string{boundToken}},
		{Name: "expires_in", FromField: "expires_in_from", Kind: sdk.AnswerInteger},
		{Name: "expires_at", FromField: "expires_at_from", Kind: sdk.AnswerTime},
		{Name: "error", From: "json:/error", Kind: sdk.AnswerEnum, Enum: []string{
			useNonce, "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "invalid_target",
		}},
		{Name: "nonce", From: "header:DPoP-Nonce", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToClaim}},
	}
	all := make([]sdk.Answer, 0, len(usual)+len(more)) // not grown, so that TinyGo can run it while it compiles
	return append(append(all, usual...), more...)
}

// RefreshAnswer returns the answer that becomes the state [RefreshToken], at the place that the field of [RefreshFrom] says.
func RefreshAnswer() sdk.Answer {
	return sdk.Answer{Name: RefreshToken, FromField: "refresh_token_from", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToToken}, State: RefreshToken}
}

// URL returns the answer that is the API's URL, at the place that a field of [Bearer] says.
func URL() sdk.Answer {
	return sdk.Answer{Name: "url", FromField: "url_from", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToURL}, Required: true}
}

// Grant is a way to get a token.
type Grant struct {
	// Request returns the token request. It is called for each attempt, because servers accept an assertion only once.
	Request func() (sdk.TokenRequest, error)
	// Signed reports whether the grant is an assertion with a time.
	Signed bool
	// State reports whether the answer has a state.
	State bool
}

// Redeem requests a token. Behind it, in a line of its own, may be the API's URL. If the endpoint wants its nonce in the DPoP proof, or
// shows by its Date that the time of an assertion or a proof is not its own, Redeem asks once more.
func Redeem(c *sdk.Call, g Grant) (sdk.Token, error) {
	bound := c.Config("sender") == DPoP
	send := func() (sdk.Token, error) {
		if !bound && !g.State && standard(c) {
			return requestToken(c, g)
		}
		answers, err := post(c, g, bound, "")
		if err != nil && bound && answers["error"] == useNonce && answers["nonce"] != "" {
			answers, err = post(c, g, bound, answers["nonce"])
		}
		if err != nil {
			return sdk.Token{}, err
		}
		kind := answers["token_type"]
		if bound {
			kind = answers["bound"]
		}
		text := answers["access_token"] + "\n" + answers["url"]
		return sdk.Token{AccessToken: text, TokenType: kind, ExpiresIn: cmp.Or(c.Lifetime(answers, 0), c.Seconds("token_ttl"))}, nil
	}
	if g.Signed || bound {
		return InTime(c, send)
	}
	return OfClient(c, send)
}

// standard reports whether the request and the answer are those of RFC 6749, which the host knows.
func standard(c *sdk.Call) bool {
	return c.Config("token_request") == formRequest && c.Config("token_from") == usualToken && c.Config("expires_in_from") == usualLifetime &&
		c.Config("expires_at_from") == "" && c.Config("url_from") == ""
}

// request returns the token request with the headers of the configuration.
func (g Grant) request(c *sdk.Call) (sdk.TokenRequest, error) {
	r, err := g.Request()
	if err != nil {
		return r, err
	}
	headers, err := sdk.Pairs(c.Config("token_headers"))
	r.Headers = append(r.Headers, headers...)
	return r, err
}

func requestToken(c *sdk.Call, g Grant) (sdk.Token, error) {
	r, err := g.request(c)
	if err != nil {
		return sdk.Token{}, err
	}
	token, err := c.RequestToken(r)
	token.ExpiresIn = cmp.Or(token.ExpiresIn, c.Seconds("token_ttl"))
	return token, err
}

// post sends a token request in the server's dialect, with a proof of the nonce if tokens are bound to a key.
func post(c *sdk.Call, g Grant, bound bool, nonce string) (sdk.Answers, error) {
	r, err := g.request(c)
	if err != nil {
		return nil, err
	}
	e := sdk.Exchange{URL: r.URL, Headers: r.Headers, Form: r.Form}
	if c.Config("token_request") == jsonRequest {
		e.Form, e.JSON = nil, object(r.Form)
	}
	e.Answers = []string{"access_token", "token_type", "bound", "expires_in", "expires_at", "error", "nonce"}
	if g.State {
		e.Answers = append(e.Answers, RefreshToken)
	}
	if !bound && c.Config("url_from") != "" {
		e.Answers = append(e.Answers, "url")
	}
	if bound {
		e.Headers = append(e.Headers, sdk.Pair{Name: "DPoP", Value: c.SignAssertion(proofOf(c, "POST", target(r.URL), "", nonce))})
	}
	status, answers := c.Exchange(e)
	if status >= 200 && status <= 299 {
		return answers, nil
	}
	message := "the token endpoint answered " + strconv.Itoa(status)
	if code := answers["error"]; code != "" && code != "other" {
		message += " (" + code + ")"
	}
	return answers, errors.New(message)
}

// KnownToken returns a token whose type was checked before.
func KnownToken(c *sdk.Call, token string, lifetime time.Duration) sdk.Token {
	kind := bearerToken
	if c.Config("sender") == DPoP {
		kind = boundToken
	}
	return sdk.Token{AccessToken: token, TokenType: kind, ExpiresIn: lifetime}
}

// CheckType returns an error if a token is of a type that the fields of [Bearer] and [Sender] do not take.
func CheckType(c *sdk.Call, token sdk.Token) error {
	switch kind := token.TokenType; {
	case c.Config("sender") == DPoP:
		if kind != boundToken {
			return errors.New("the token endpoint answered with a token that is not bound to the key: its token_type is not DPoP")
		}
	case kind != "" && kind != bearerToken && kind != apigeeToken && c.Config("token_type") != anyToken:
		return errors.New("the token endpoint gave a token of another type than bearer")
	}
	return nil
}
