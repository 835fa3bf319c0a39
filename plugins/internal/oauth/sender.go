package oauth

import (
	"errors"
	"strings"
	"time"

	"github.com/keywright/keywright/sdk"
)

// DPoP is the value of the field sender for tokens that are bound to a key (RFC 9449), and boundToken is their token_type.
const DPoP, boundToken = "dpop", "DPoP"

// Error codes of servers that check proofs, RFC 9449 sections 8, 9 and 12.2.
const (
	useNonce     = "use_dpop_nonce"
	invalidProof = "invalid_dpop_proof" // of the proof, perhaps for its time, and not of the token
)

// Sender returns the fields for how a token is sent. ways are the values of sender, and the first is its default. generated reports
// whether the host makes the key of proofs if there is none.
func Sender(generated bool, ways ...string) []sdk.Field {
	bound := sends(DPoP)
	key := sdk.Field{Name: "proof_key", Kind: sdk.Key, OnlyIf: bound, AlgorithmField: "proof_algorithm", Doc: "Key of the proofs of dpop in PEM."}
	if key.Generate = generated; generated {
		key.Doc = "Key of the proofs of dpop in PEM. If it is absent, the host makes one."
	} else {
		key.RequiredIf = bound
	}
	return []sdk.Field{
		{Name: "sender", Kind: sdk.String, Enum: ways, Default: ways[0], Doc: "How the API gets the token: as a bearer, or with a proof of a key (DPoP, RFC 9449)."},
		key,
		{
			Name: "proof_algorithm", Kind: sdk.String, OnlyIf: bound, Default: "ES256", Doc: "Signature algorithm of the proofs.",
			Enum: []string{"ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"},
		},
	}
}

// Senders are the values of sender for most types.
func Senders() []string { return []string{bearerToken, DPoP} }

// sends returns the condition that a token is sent in a way.
func sends(way string) []sdk.Condition {
	return []sdk.Condition{{Field: "sender", Values: []string{way}}}
}

// Challenge returns what a plugin with [Sender] learns from the API's answers.
func Challenge() *sdk.Challenge {
	return &sdk.Challenge{OnlyIf: sends(DPoP), Statuses: []int{401}, Keep: time.Hour, Answers: []sdk.Answer{
		{Name: "nonce", From: "header:DPoP-Nonce", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToClaim}, Keep: true},
		{Name: "error", From: "auth:DPoP/error", Kind: sdk.AnswerEnum, Enum: []string{useNonce, invalidProof, "invalid_token"}},
	}}
}

// entry is the key of the cache's entry.
const entry = "access_token"

// Authenticate returns the mutation that sends the token of the cache, or else the one that issue requests, which is cached until a
// minute before it ends.
func Authenticate(c *sdk.Call, issue func() (sdk.Token, error)) (sdk.Mutation, error) {
	bound := c.Config("sender") == DPoP
	if bound && isRefused(c) && !c.Drop(entry) {
		return sdk.Mutation{Pass: true}, nil // another token would not help
	}
	text, ok := c.Cached(entry)
	if !ok {
		token, err := issue()
		if err == nil {
			err = CheckType(c, token)
		}
		if err != nil {
			return sdk.Mutation{}, err
		}
		text = token.AccessToken
		c.CacheToken(entry, text, token.ExpiresIn)
	}
	token, url, _ := strings.Cut(text, "\n")
	if bound {
		return prove(c, token), nil
	}
	m := sdk.Header(c.Config("key"), strings.TrimPrefix(c.Config("prefix")+" "+token, " "))
	if m.URL = url; url == "" && c.Config("url_from") != "" {
		return m, errors.New("the grant has no URL of the API: it needs a refresh token, whose answers name one")
	}
	return m, nil
}

// isRefused reports whether the API has refused the token, and not the proof.
func isRefused(c *sdk.Call) bool {
	challenge := c.Challenge()
	code := challenge.Answers["error"]
	return challenge.Status != 0 && code != useNonce && code != invalidProof
}

// prove returns the mutation that sends a token that is bound to a key, with a proof, RFC 9449 section 7.1.
func prove(c *sdk.Call, token string) sdk.Mutation {
	nonce := c.Challenge().Answers["nonce"]
	method, url, _ := strings.Cut(c.Compose("{method} {scheme}://{host}{path}"), " ")
	proof := c.SignJWT(proofOf(c, method, url, c.Base64URL(c.Digest(sdk.DigestSHA256, token)), nonce))
	return sdk.Mutation{Headers: []sdk.Pair{{Name: "Authorization", Value: "DPoP " + token}, {Name: "DPoP", Value: proof}}}
}

// proofOf returns a proof for a request, RFC 9449 section 4.2. ath is the hash of the token, or "". Its time is that of the server,
// which refuses another (section 11.1).
func proofOf(c *sdk.Call, method, url, ath, nonce string) sdk.JWT {
	var header, claims sdk.Members
	header.String("typ", "dpop+jwt")
	header.Raw("jwk", c.PublicKey("proof_key", sdk.JWK))
	claims.String("jti", c.Random(16))
	claims.String("htm", method)
	claims.String("htu", url)
	claims.Integer("iat", c.Now()+c.ClockOffset())
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
