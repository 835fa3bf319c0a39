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
	// jwtBearer is the value of the field grant for an assertion, RFC 7523.
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
	token, claim := []string{sdk.ToToken}, []string{sdk.ToClaim}
	assertion := sdk.Condition{Field: "grant", Values: []string{jwtBearer}}
	nonce := sdk.Answer{Name: "nonce", From: "header:DPoP-Nonce", Kind: sdk.Sealed, Sinks: claim}
	kept := nonce
	kept.Keep = true
	fields := []sdk.Field{
		{Name: "token_url", Kind: sdk.URL, Required: true, Sinks: []string{sdk.ToToken, sdk.ToClaim}, Doc: "Token endpoint."},
		{Name: "grant", Kind: sdk.String, Enum: []string{"client_credentials", jwtBearer}, Default: "client_credentials", Doc: "RFC 6749 section 4.4, or RFC 7523."},
		{Name: "scope", Kind: sdk.String, Sinks: token, Doc: "Scopes to request, separated by spaces."},
		{Name: "subject", Kind: sdk.String, RequiredIf: []sdk.Condition{assertion}, Sinks: claim, Doc: "With jwt_bearer, the assertion's sub: whom the token is for."},
		{Name: "audience", Kind: sdk.String, RequiredIf: []sdk.Condition{assertion}, Sinks: claim, Doc: "With jwt_bearer, the assertion's aud."},
		oauth.Parameters("parameters"),
		{Name: "proof_key", Kind: sdk.Key, Generate: true, AlgorithmField: "proof_algorithm", Doc: "Key of the proofs in PEM. If it is absent, the host makes one."},
		{
			Name: "proof_algorithm", Kind: sdk.String, Default: "ES256", Doc: "Signature algorithm of the proofs.",
			Enum: []string{"ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"},
		},
	}
	client := oauth.Client("", oauth.Post, oauth.Basic, oauth.PrivateKeyJWT, oauth.TLS, oauth.None)
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "dpop",
		Version: "1.0.0",
		Summary: "An access token that is bound to a key, and a proof of the key for each request (DPoP, RFC 9449).",
		Uses:    []string{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields:  sdk.Fields(fields, client, oauth.Key(assertion, sdk.Condition{Field: "client_auth", Values: []string{oauth.PrivateKeyJWT}})),
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

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	problems := append(oauth.Problems(c, "parameters", "scope", "assertion"), oauth.HeaderProblems(c)...)
	if grant, _ := c.Literal("grant"); grant == "client_credentials" {
		for _, name := range []string{"subject", "audience"} {
			if text, _ := c.Literal(name); text != "" {
				problems = append(problems, sdk.Problem{Field: name, Message: "is for the assertion of jwt_bearer: write it into parameters if the token endpoint wants it"})
			}
		}
	}
	return problems
}

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

// exchange requests a token, once more if the endpoint wants its nonce in the proof.
//
//go:noinline
func exchange(c *sdk.Call) (string, error) {
	url := c.Config("token_url")
	nonce := ""
	for attempt := 0; ; attempt++ {
		request, err := tokenRequest(c, url)
		if err != nil {
			return "", err
		}
		proof := c.SignAssertion(proofOf(c, c.Now(), "POST", url, "", nonce))
		request.Headers = append(request.Headers, sdk.Pair{Name: "DPoP", Value: proof})
		status, answers := c.Exchange(request)
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

// tokenRequest returns a token request without a proof. Each has assertions of its own, because servers accept one only once.
//
//go:noinline
func tokenRequest(c *sdk.Call, url string) (sdk.Exchange, error) {
	form := []sdk.Pair{{Name: "grant_type", Value: "client_credentials"}}
	if c.Config("grant") == jwtBearer {
		form = []sdk.Pair{
			{Name: "grant_type", Value: oauth.JWTBearer},
			{Name: "assertion", Value: oauth.Sign(c, c.Config("client_id"), c.Config("subject"), c.Config("audience"))},
		}
	}
	form, headers := oauth.Authenticate(c, "", url, form)
	form = oauth.Optional(form, "scope", c.Config("scope"))
	further, err := sdk.Parameters(c.Config("parameters"))
	return sdk.Exchange{URL: url, Form: append(form, further...), Headers: headers}, err
}
