// Plugin dpop adds an access token that is bound to a key, and a proof of that key for each request: DPoP, RFC 9449.
package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

const (
	// jwtBearer is the value of the field grant_type for an assertion, RFC 7523.
	jwtBearer = "jwt_bearer"
	// useNonce is the error code of a server that wants its nonce in the proof, RFC 9449 sections 8 and 9.
	useNonce = "use_dpop_nonce"
	// invalidProof is the error code of a server that refuses the proof, perhaps for its time, and not the token.
	invalidProof = "invalid_dpop_proof"
	// nonceLife is the time in seconds for which the last nonce of the API is used.
	nonceLife = 3600
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	claim := []string{sdk.ToClaim}
	bearer := sdk.Condition{Field: "grant_type", Values: []string{jwtBearer}}
	nonce := sdk.Answer{Name: "nonce", From: "header:DPoP-Nonce", Kind: sdk.Sealed, Sinks: claim}
	kept := nonce
	kept.Keep = true
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "dpop",
		Version: "1.0.0",
		Summary: "An access token that is bound to a key, and a proof of the key for each request (DPoP, RFC 9449).",
		Uses:    []string{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields: sdk.Fields(
			fields(bearer),
			oauth.Request(),
			oauth.Client("", oauth.Post, oauth.Basic, oauth.PrivateKeyJWT, oauth.TLS, oauth.None),
			oauth.Key(bearer, oauth.Signs("")),
		),
		Answers: []sdk.Answer{
			{
				Name: "access_token", From: "json:/access_token", Kind: sdk.Sealed,
				Sinks: []string{sdk.ToHeader, sdk.ToDigest}, Derived: claim, Required: true,
			},
			{Name: "token_type", From: "json:/token_type", Kind: sdk.Enum, Enum: []string{"DPoP"}},
			{Name: "expires_in", From: "json:/expires_in", Kind: sdk.AnyInteger},
			{Name: "error", From: "json:/error", Kind: sdk.Enum, Enum: []string{useNonce}},
			nonce,
		},
		Challenge: &sdk.Challenge{Statuses: []int{401}, Keep: nonceLife, Answers: []sdk.Answer{
			kept,
			{Name: "error", From: "auth:DPoP/error", Kind: sdk.Enum, Enum: []string{useNonce, invalidProof, "invalid_token"}},
		}},
	}
}

// fields returns the fields of the grant and of the proofs. bearer is the condition for an assertion.
func fields(bearer sdk.Condition) []sdk.Field {
	claim, assertion := []string{sdk.ToClaim}, []sdk.Condition{bearer}
	return []sdk.Field{
		{Name: "grant_type", Kind: sdk.String, Enum: []string{"client_credentials", jwtBearer}, Default: "client_credentials", Doc: "RFC 6749 section 4.4, or RFC 7523."},
		{Name: "assertion_subject", Kind: sdk.String, RequiredIf: assertion, OnlyIf: assertion, Sinks: claim, Doc: "The sub of the assertion of jwt_bearer: whom the token is for."},
		{Name: "assertion_audience", Kind: sdk.String, RequiredIf: assertion, OnlyIf: assertion, Sinks: claim, Doc: "The aud of the assertion of jwt_bearer."},
		{Name: "proof_key", Kind: sdk.Key, Generate: true, AlgorithmField: "proof_algorithm", Doc: "Key of the proofs in PEM. If it is absent, the host makes one."},
		{
			Name: "proof_algorithm", Kind: sdk.String, Default: "ES256", Doc: "Signature algorithm of the proofs.",
			Enum: []string{"ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"},
		},
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem { return oauth.Problems(c, "assertion") }

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	challenge := c.Challenge()
	code := challenge.Answers["error"]
	if challenge.Status != 0 && code != useNonce && code != invalidProof && !c.Drop("access_token") {
		return sdk.Mutation{Pass: true}, nil // another token would not help
	}
	token, cached := c.Cached("access_token")
	if !cached {
		var err error
		if token, err = exchange(c); err != nil {
			return sdk.Mutation{}, err
		}
	}
	proof, err := proofOfRequest(c, token, challenge.Answers["nonce"])
	if err != nil {
		return sdk.Mutation{}, err
	}
	return sdk.Mutation{Headers: []sdk.Pair{{Name: "Authorization", Value: "DPoP " + token}, {Name: "DPoP", Value: proof}}}, nil
}

// exchange requests a token, once more if the endpoint wants its nonce in the proof. Each request has assertions of its own,
// because servers accept one only once.
func exchange(c *sdk.Call) (string, error) {
	nonce := ""
	for attempt := 0; ; attempt++ {
		request, err := oauth.TokenRequest(c, grant(c)...)
		if err != nil {
			return "", err
		}
		proof := c.SignAssertion(proofOf(c, c.Now(), "POST", request.URL, "", nonce))
		request.Headers = append(request.Headers, sdk.Pair{Name: "DPoP", Value: proof})
		status, answers := c.Exchange(sdk.Exchange{URL: request.URL, Form: request.Form, Headers: request.Headers})
		nonce = answers["nonce"]
		switch {
		case status >= 200 && status <= 299 && answers["token_type"] != "DPoP":
			return "", errors.New("the token endpoint answered with a token that is not bound to the key: its token_type is not DPoP")
		case status >= 200 && status <= 299:
			oauth.Cache(c, answers["access_token"], time.Duration(answers.Time("expires_in"))*time.Second)
			return answers["access_token"], nil
		case attempt > 0 || answers["error"] != useNonce || nonce == "":
			return "", errors.New("the token endpoint answered " + strconv.Itoa(status))
		}
	}
}

// grant returns the parameters of the grant.
func grant(c *sdk.Call) []sdk.Pair {
	if c.Config("grant_type") != jwtBearer {
		return []sdk.Pair{{Name: "grant_type", Value: "client_credentials"}}
	}
	assertion := oauth.Sign(c, c.Config("client_id"), c.Config("assertion_subject"), c.Config("assertion_audience"))
	return []sdk.Pair{{Name: "grant_type", Value: oauth.JWTBearer}, {Name: "assertion", Value: assertion}}
}
