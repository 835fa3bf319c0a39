package oauth

import (
	"errors"
	"strconv"
	"time"

	"github.com/keywright/keywright/sdk"
)

// RefreshToken is the name of the state, and of the answer, that is a refresh token.
const RefreshToken = "refresh_token"

// Answers returns the answers of a token endpoint, RFC 6749 section 5.1. The refresh token becomes the state [RefreshToken].
func Answers() []sdk.Answer {
	return []sdk.Answer{
		{Name: "access_token", From: "json:/access_token", Kind: sdk.Sealed, Sinks: []string{sdk.ToHeader}, Required: true},
		{Name: "token_type", From: "json:/token_type", Kind: sdk.Enum, Enum: []string{"bearer"}},
		{Name: "expires_in", From: "json:/expires_in", Kind: sdk.AnyInteger},
		{Name: RefreshToken, From: "json:/refresh_token", Kind: sdk.Sealed, Sinks: []string{sdk.ToToken}, State: RefreshToken},
	}
}

// Refresh requests a token with the refresh token of the state, RFC 6749 section 6, caches the token until a minute before it
// expires, and returns the mutation that sends it. The description must have [Answers].
func Refresh(c *sdk.Call) (sdk.Mutation, error) {
	refresh, ok := c.State(RefreshToken)
	if !ok {
		return sdk.Mutation{}, errors.New("the grant has no refresh token")
	}
	request, err := TokenRequest(c, sdk.Pair{Name: "grant_type", Value: "refresh_token"}, sdk.Pair{Name: "refresh_token", Value: refresh})
	if err != nil {
		return sdk.Mutation{}, err
	}
	token, err := Redeem(c, request)
	if err != nil {
		return sdk.Mutation{}, err
	}
	return Bearer(c, token)
}

// Redeem sends a token request with a state, or with a code, and returns the token. The refresh token of the answer becomes the
// state [RefreshToken]. The description must have [Answers].
func Redeem(c *sdk.Call, request sdk.TokenRequest) (sdk.Token, error) {
	status, answers := c.Exchange(sdk.Exchange{URL: request.URL, Form: request.Form, Headers: request.Headers})
	if status >= 300 {
		return sdk.Token{}, errors.New("the token endpoint answered " + strconv.Itoa(status))
	}
	return sdk.Token{
		AccessToken: answers["access_token"], TokenType: answers["token_type"],
		ExpiresIn: time.Duration(answers.Time("expires_in")) * time.Second,
	}, nil
}
