package oauth

import (
	"errors"

	"github.com/keywright/keywright/sdk"
)

// RefreshToken is the name of the state, and of the answer, that is a refresh token.
const RefreshToken = "refresh_token"

// Answers returns the answers of a token endpoint (RFC 6749 section 5.1), at the places that the fields of [Dialect] say. The
// refresh token becomes the state [RefreshToken].
func Answers() []sdk.Answer {
	return []sdk.Answer{
		{Name: "access_token", FromField: "token_from", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToHeader}, Required: true},
		{Name: "token_type", From: "json:/token_type", Kind: sdk.AnswerEnum, Enum: []string{bearerToken, apigeeToken}},
		{Name: "expires_in", FromField: "expires_in_from", Kind: sdk.AnswerInteger},
		{Name: "expires_at", FromField: "expires_at_from", Kind: sdk.AnswerTime},
		{Name: RefreshToken, FromField: "refresh_token_from", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToToken}, State: RefreshToken},
	}
}

// Refresh requests a token with the refresh token of the state, RFC 6749 section 6, caches the token until a minute before it
// expires, and returns the mutation that sends it. The description must have [Answers] and [Dialect].
func Refresh(c *sdk.Call) (sdk.Mutation, error) {
	refresh, ok := c.State(RefreshToken)
	if !ok {
		return sdk.Mutation{}, errors.New("the grant has no refresh token")
	}
	token, err := OfClient(c, func() (sdk.Token, error) {
		request, err := TokenRequest(c, sdk.Pair{Name: "grant_type", Value: "refresh_token"}, sdk.Pair{Name: "refresh_token", Value: refresh})
		if err != nil {
			return sdk.Token{}, err
		}
		return Redeem(c, request)
	})
	if err != nil {
		return sdk.Mutation{}, err
	}
	return SendNew(c, token)
}

// SendNew caches a token until a minute before it expires, and returns the mutation that [Send] returns.
func SendNew(c *sdk.Call, token sdk.Token) (sdk.Mutation, error) {
	if _, err := Bearer(c, token); err != nil {
		return sdk.Mutation{}, err
	}
	return Send(c, token.AccessToken), nil
}

// Redeem sends a token request with a state, or with a code, and returns the token. The refresh token of the answer becomes the
// state [RefreshToken]. The description must have [Answers] and [Dialect].
func Redeem(c *sdk.Call, r sdk.TokenRequest) (sdk.Token, error) {
	exchange, err := request(c, r)
	if err != nil {
		return sdk.Token{}, err
	}
	answers, err := c.ExchangeOK("the token endpoint", exchange)
	if err != nil {
		return sdk.Token{}, err
	}
	return token(c, answers), nil
}
