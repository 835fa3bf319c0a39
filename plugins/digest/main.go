// Plugin digest answers the challenges of HTTP Digest, RFC 7616.
package main

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

// Describe lists the nonce twice: as one that later requests use again, and as a sign that the answer to this request has a
// challenge.
func (plugin) Describe() sdk.Description {
	hashed, both := []sdk.Sink{sdk.ToDigest}, []sdk.Sink{sdk.ToHeader, sdk.ToDigest}
	algorithms := []string{"SHA-256", "SHA-256-sess", "SHA-512-256", "SHA-512-256-sess", "MD5", "MD5-sess"}
	return sdk.Description{
		ABI: sdk.ABI, Type: "digest", Version: "1.0.0",
		Summary:   "HTTP Digest (RFC 7616): the answer to the API's challenge, which is also used for later requests.",
		Uses:      []sdk.Group{sdk.UsesBody, sdk.UsesCache, sdk.UsesTurn},
		Anonymous: true, // the first request has no challenge to answer
		Fields: []sdk.Field{
			{Name: "username", Kind: sdk.String, Required: true, Sinks: both, Doc: "User name."},
			{Name: "password", Kind: sdk.String, Required: true, Sealed: true, Sinks: hashed, Derived: both, Doc: "Password, which is hashed and never sent."},
			{Name: "ordered", Kind: sdk.Boolean, Default: "false", Doc: "Whether requests go one at a time, for a server that wants their count in order."},
		},
		Challenge: &sdk.Challenge{
			Statuses: []int{401},
			Keep:     keep, // a server that refuses an older nonce sends a new one with its answer
			Answers: []sdk.Answer{
				{Name: "algorithm", From: "auth:Digest/algorithm", Kind: sdk.AnswerEnum, Enum: algorithms, Keep: true},
				{Name: "qop", From: "auth:Digest/qop", Kind: sdk.AnswerEnum, Enum: []string{"auth", "auth-int"}, Keep: true},
				{Name: "stale", From: "auth:Digest/stale", Kind: sdk.AnswerEnum, Enum: []string{"true", "false"}},
				{Name: "userhash", From: "auth:Digest/userhash", Kind: sdk.AnswerEnum, Enum: []string{"false", "true"}, Keep: true},
				{Name: "charset", From: "auth:Digest/charset", Kind: sdk.AnswerEnum, Enum: []string{"UTF-8"}, Keep: true},
				{Name: "realm", From: "auth:Digest/realm", Kind: sdk.AnswerSealed, Sinks: both, Keep: true},
				{Name: "nonce", From: "auth:Digest/nonce", Kind: sdk.AnswerSealed, Sinks: both, Keep: true},
				{Name: "opaque", From: "auth:Digest/opaque", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToHeader}, Keep: true},
				{Name: "nextnonce", From: "info:nextnonce", Kind: sdk.AnswerSealed, Sinks: both, Keep: true},
				{Name: "challenged", From: "auth:Digest/nonce", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToHeader}},
			},
		},
	}
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if c.Config("ordered") == "true" {
		c.Counter(0) // what counts is the turn: Challenge has a count of each nonce
	}
	challenge := c.Challenge()
	if challenge.Status != 0 && challenge.Answers["challenged"] == "" {
		c.Warn("the API answered 401 without a challenge of HTTP Digest that this type knows: check whether the API wants another auth type")
		return sdk.Mutation{Pass: true}, nil
	}
	if repeats(c, &challenge) {
		return sdk.Mutation{Pass: true}, nil
	}
	body := c.Body() // in any case, so that the host keeps a body that can be read only once for another attempt
	if challenge.Answers["nonce"] == "" {
		return sdk.Mutation{}, nil
	}
	return sdk.Header("Authorization", credentials(c, &challenge, body)), nil
}

// keep is the time for which a challenge is kept.
const keep = 24 * time.Hour

// repeats reports whether the API has refused the very answer that this call would send again. That is so if neither a count nor
// another nonce makes the second answer differ. If the first attempt had no answer, the call begins anew, and sends its first one: an
// entry of the cache that each answer reads shows which attempts had one.
func repeats(c *sdk.Call, challenge *sdk.Challenged) bool {
	const answered = "answered"
	a := challenge.Answers
	if a["nonce"] == "" || a["qop"] != "" || strings.HasSuffix(a["algorithm"], "-sess") {
		return false
	}
	if challenge.Status != 0 {
		if challenge.Count < 2 || a["stale"] == "true" {
			return false
		}
		_, had := c.Cached(answered)
		return had
	}
	if _, there := c.Cached(answered); !there {
		c.Cache(answered, "yes", keep)
		c.Cached(answered)
	}
	return false
}

// credentials returns the value of the header Authorization, section 3.4. With an algorithm -sess, each request has a session
// of its own, as servers without a memory of sessions expect it.
func credentials(c *sdk.Call, challenge *sdk.Challenged, body string) string {
	answers, hash := challenge.Answers, sdk.DigestMD5 // also that of a challenge without an algorithm, section 3.3
	algorithm, session := strings.CutSuffix(answers["algorithm"], "-sess")
	switch algorithm {
	case "SHA-256":
		hash = sdk.DigestSHA256
	case "SHA-512-256":
		hash = sdk.DigestSHA512256
	}
	h := func(text string) string { return c.Hex(c.Digest(hash, text)) }
	realm, nonce, qop, cnonce := answers["realm"], answers["nonce"], answers["qop"], c.Random(16)
	if next := answers["nextnonce"]; next != "" {
		nonce = next
	}
	a1 := h(c.Config("username") + ":" + realm + ":" + c.Config("password"))
	if session {
		a1 = h(a1 + ":" + nonce + ":" + cnonce)
	}
	a2 := c.Compose("{method}:{target}")
	if qop == "auth-int" {
		a2 += ":" + h(body)
	}
	hashed, parameters := "", ""
	switch n := max(challenge.Count, 1); {
	case qop != "": // servers of RFC 2069 do not count
		nc := c.Hex(string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}))
		hashed, parameters = nc+":"+cnonce+":"+qop+":", ", nc="+nc+`, cnonce="`+cnonce+`", qop=`+qop
	case session:
		parameters = `, cnonce="` + cnonce + `"`
	}
	parameters += `, response="` + h(a1+":"+nonce+":"+hashed+h(a2)) + `"`
	if opaque, there := answers["opaque"]; there { // also an empty one, section 3.4
		parameters += ", opaque=" + c.Quoted(opaque)
	}
	if answers["userhash"] == "true" {
		parameters += ", userhash=true"
	}
	if answers["algorithm"] != "" {
		algorithm = ", algorithm=" + answers["algorithm"]
	}
	return "Digest " + username(c, answers, h) + ", realm=" + c.Quoted(realm) + ", uri=" + c.Compose("{target|quoted}") + algorithm + ", nonce=" + c.Quoted(nonce) + parameters
}

// username returns the parameter username, or username*, sections 3.4.3 and 3.4.4.
func username(c *sdk.Call, answers sdk.Answers, h func(string) string) string {
	user := c.Config("username")
	switch {
	case answers["userhash"] == "true":
		return `username="` + h(user+":"+answers["realm"]) + `"`
	case utf8.RuneCountInString(user) < len(user) && answers["charset"] != "": // beyond ASCII
		return "username*=UTF-8''" + c.Percent(user)
	}
	return "username=" + c.Quoted(user)
}
