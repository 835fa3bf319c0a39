// Plugin dpop adds an access token that is bound to a key, and a proof of that key for each request: DPoP, RFC 9449.
package main

import (
	"errors"
	"strconv"
	"strings"
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
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	claim, bound := []sdk.Sink{sdk.ToClaim}, []sdk.Sink{sdk.ToHeader, sdk.ToDigest}
	bearer := sdk.Condition{Field: "grant_type", Values: []string{jwtBearer}}
	nonce := sdk.Answer{Name: "nonce", From: "header:DPoP-Nonce", Kind: sdk.AnswerSealed, Sinks: claim}
	keptNonce := nonce
	keptNonce.Keep = true
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "dpop",
		Version: "1.0.0",
		Summary: "An access token that is bound to a key, and a proof of the key for each request (DPoP, RFC 9449).",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields: sdk.Fields(
			fields(bearer),
			oauth.Request(),
			oauth.Client("", oauth.Post, oauth.Basic, oauth.PrivateKeyJWT, oauth.TLS, oauth.None),
			oauth.Key(bearer, oauth.Signs("")),
		),
		Answers: []sdk.Answer{
			{Name: "access_token", From: "json:/access_token", Kind: sdk.AnswerSealed, Sinks: bound, Derived: claim, Required: true},
			{Name: "token_type", From: "json:/token_type", Kind: sdk.AnswerEnum, Enum: []string{"DPoP"}},
			{Name: "expires_in", From: "json:/expires_in", Kind: sdk.AnswerInteger},
			{Name: "error", From: "json:/error", Kind: sdk.AnswerEnum, Enum: []string{useNonce}},
			nonce,
		},
		Challenge: &sdk.Challenge{Statuses: []int{401}, Keep: time.Hour, Answers: []sdk.Answer{
			keptNonce,
			{Name: "error", From: "auth:DPoP/error", Kind: sdk.AnswerEnum, Enum: []string{useNonce, invalidProof, "invalid_token"}},
		}},
	}
}

// fields returns the fields of the grant and of the proofs. bearer is the condition for an assertion.
func fields(bearer sdk.Condition) []sdk.Field {
	claim, assertion := []sdk.Sink{sdk.ToClaim}, []sdk.Condition{bearer}
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
	token, err := oauth.InTime(c, func() (string, error) { return c.CachedToken("access_token", exchange) })
	if err != nil {
		return sdk.Mutation{}, err
	}
	now := c.Now() + c.ClockOffset() // the API refuses a proof of another time, RFC 9449 section 11.1
	method, url, _ := strings.Cut(c.Compose("{method} {scheme}://{host}{path}"), " ")
	proof := c.SignJWT(proofOf(c, now, method, url, c.Base64URL(c.Digest(sdk.DigestSHA256, token)), challenge.Answers["nonce"]))
	return sdk.Mutation{Headers: []sdk.Pair{{Name: "Authorization", Value: "DPoP " + token}, {Name: "DPoP", Value: proof}}}, nil
}

// exchange requests a token, once more if the endpoint wants its nonce in the proof. Each request has assertions of its own,
// because servers accept one only once.
func exchange(c *sdk.Call) (string, time.Duration, error) {
	nonce := ""
	for attempt := 0; ; attempt++ {
		request, err := oauth.TokenRequest(c, grant(c)...)
		if err != nil {
			return "", 0, err
		}
		proof := c.SignAssertion(proofOf(c, c.Now()+c.ClockOffset(), "POST", target(request.URL), "", nonce))
		request.Headers = append(request.Headers, sdk.Pair{Name: "DPoP", Value: proof})
		status, answers := c.Exchange(sdk.Exchange{URL: request.URL, Form: request.Form, Headers: request.Headers})
		nonce = answers["nonce"]
		switch {
		case status >= 200 && status <= 299 && answers["token_type"] != "DPoP":
			return "", 0, errors.New("the token endpoint answered with a token that is not bound to the key: its token_type is not DPoP")
		case status >= 200 && status <= 299:
			return answers["access_token"], c.Lifetime(answers, 0), nil
		case attempt > 0 || answers["error"] != useNonce || nonce == "":
			return "", 0, errors.New("the token endpoint answered " + strconv.Itoa(status))
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

// proofOf returns a proof for a request, RFC 9449 section 4.2. now is its time in Unix seconds. ath is the hash of the token, or "".
func proofOf(c *sdk.Call, now int64, method, url, ath, nonce string) sdk.JWT {
	var header, claims sdk.Members
	header.String("typ", "dpop+jwt")
	header.Raw("jwk", c.PublicKey("proof_key", sdk.JWK))
	claims.String("jti", c.Random(16))
	claims.String("htm", method)
	claims.String("htu", url)
	claims.Integer("iat", now)
	for _, p := range sdk.Present([]sdk.Pair{{Name: "ath", Value: ath}, {Name: "nonce", Value: nonce}}) {
		claims.String(p.Name, p.Value)
	}
	return sdk.JWT{Key: "proof_key", Header: header.JSON(), Claims: claims.JSON()}
}

// target returns the URL of the token endpoint without its query. An empty path becomes /, as it is in the request.
func target(url string) string {
	url, _, _ = strings.Cut(url, "?")
	if strings.Count(url, "/") == len("//") { // those behind the scheme
		url += "/"
	}
	return url
}
