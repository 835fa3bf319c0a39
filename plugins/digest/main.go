// Plugin digest answers the challenges of HTTP Digest, RFC 7616.
package main

import (
	"strings"
	"time"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

// Describe lists the nonce twice: as one that later requests use again, and as a sign that the answer to this request has a
// challenge.
func (plugin) Describe() sdk.Description {
	hashed, both := []string{sdk.ToDigest}, []string{sdk.ToHeader, sdk.ToDigest}
	return sdk.Description{
		ABI:       sdk.ABI,
		Type:      "digest",
		Version:   "1.0.0",
		Summary:   "HTTP Digest (RFC 7616): the answer to the API's challenge, which is also used for later requests.",
		Uses:      []string{sdk.UsesBody, sdk.UsesCache},
		Anonymous: true, // the first request has no challenge to answer
		Fields: []sdk.Field{
			{Name: "username", Kind: sdk.String, Required: true, Sinks: both, Doc: "User name."},
			{Name: "password", Kind: sdk.String, Required: true, Sealed: true, Sinks: hashed, Derived: both, Doc: "Password, which is hashed and never sent."},
		},
		Challenge: &sdk.Challenge{
			Statuses: []int{401},
			Keep:     int64(keep / time.Second), // a server that refuses an older nonce sends a new one with its answer
			Answers: []sdk.Answer{
				{
					Name: "algorithm", From: "auth:Digest/algorithm", Kind: sdk.Enum, Keep: true,
					Enum: []string{"SHA-256", "SHA-256-sess", "SHA-512-256", "SHA-512-256-sess", "MD5", "MD5-sess"},
				},
				{Name: "qop", From: "auth:Digest/qop", Kind: sdk.Enum, Enum: []string{"auth", "auth-int"}, Keep: true},
				{Name: "stale", From: "auth:Digest/stale", Kind: sdk.Enum, Enum: []string{"true", "false"}},
				{Name: "userhash", From: "auth:Digest/userhash", Kind: sdk.Enum, Enum: []string{"false", "true"}, Keep: true},
				{Name: "charset", From: "auth:Digest/charset", Kind: sdk.Enum, Enum: []string{"UTF-8"}, Keep: true},
				{Name: "realm", From: "auth:Digest/realm", Kind: sdk.Sealed, Sinks: both, Keep: true},
				{Name: "nonce", From: "auth:Digest/nonce", Kind: sdk.Sealed, Sinks: both, Keep: true},
				{Name: "opaque", From: "auth:Digest/opaque", Kind: sdk.Sealed, Sinks: []string{sdk.ToHeader}, Keep: true},
				{Name: "nextnonce", From: "info:nextnonce", Kind: sdk.Sealed, Sinks: both, Keep: true},
				{Name: "challenged", From: "auth:Digest/nonce", Kind: sdk.Sealed, Sinks: []string{sdk.ToHeader}},
			},
		},
	}
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	known := c.Challenge()
	if known.Status != 0 && known.Answers["challenged"] == "" {
		c.Warn("the API answered 401 without a challenge of HTTP Digest that this type knows: check whether the API wants another auth type")
		return sdk.Mutation{Pass: true}, nil
	}
	if repeats(c, &known) {
		return sdk.Mutation{Pass: true}, nil
	}
	body := c.Body() // in any case, so that the host keeps a body that can be read only once for another attempt
	if known.Answers["nonce"] == "" {
		return sdk.Mutation{}, nil
	}
	r, err := c.Request()
	if err != nil {
		return sdk.Mutation{}, err
	}
	return sdk.Header("Authorization", credentials(c, &known, &r, body)), nil
}

// keep is the time for which a challenge is kept.
const keep = 24 * time.Hour

// repeats reports whether the API has refused the very answer that this call would send again. That is so if neither a count nor
// another nonce makes the second answer differ. If the first attempt had no answer, the call begins anew, and sends its first one: an
// entry of the cache that each answer reads shows which attempts had one.
func repeats(c *sdk.Call, known *sdk.Challenged) bool {
	const answered = "answered"
	a := known.Answers
	if a["nonce"] == "" || a["qop"] != "" || strings.HasSuffix(a["algorithm"], "-sess") {
		return false
	}
	if known.Status != 0 {
		if known.Count < 2 || a["stale"] == "true" {
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
func credentials(c *sdk.Call, known *sdk.Challenged, r *sdk.Request, body string) string {
	answers := known.Answers
	algorithm, session := strings.CutSuffix(answers["algorithm"], "-sess")
	h := func(text string) string { return c.Hex(c.Digest(hash(algorithm), text)) }
	realm, nonce, qop := answers["realm"], answers["nonce"], answers["qop"]
	if next := answers["nextnonce"]; next != "" {
		nonce = next
	}
	nc, cnonce := count(max(known.Count, 1)), c.Random(16)
	_, _, uri := r.Split()

	a1 := h(c.Config("username") + ":" + realm + ":" + c.Config("password"))
	if session {
		a1 = h(a1 + ":" + nonce + ":" + cnonce)
	}
	a2 := r.Method + ":" + uri
	if qop == "auth-int" {
		a2 += ":" + h(body)
	}
	counted := ""
	if qop != "" { // servers of RFC 2069 do not count
		counted = nc + ":" + cnonce + ":" + qop + ":"
	}
	response := h(a1 + ":" + nonce + ":" + counted + h(a2))

	parameters := []string{username(c, answers, h), "realm=" + c.Quoted(realm), "uri=" + c.Quoted(uri)}
	if answers["algorithm"] != "" {
		parameters = append(parameters, "algorithm="+answers["algorithm"])
	}
	parameters = append(parameters, "nonce="+c.Quoted(nonce))
	switch {
	case qop != "":
		parameters = append(parameters, "nc="+nc, `cnonce="`+cnonce+`"`, "qop="+qop)
	case session:
		parameters = append(parameters, `cnonce="`+cnonce+`"`)
	}
	parameters = append(parameters, `response="`+response+`"`)
	if opaque := answers["opaque"]; opaque != "" {
		parameters = append(parameters, "opaque="+c.Quoted(opaque))
	}
	if answers["userhash"] == "true" {
		parameters = append(parameters, "userhash=true")
	}
	return "Digest " + strings.Join(parameters, ", ")
}

// hash returns the hash function of an algorithm. It is MD5 for a challenge without an algorithm, section 3.3.
func hash(algorithm string) string {
	switch algorithm {
	case "SHA-256":
		return sdk.DigestSHA256
	case "SHA-512-256":
		return sdk.DigestSHA512256
	}
	return sdk.DigestMD5
}

// username returns the parameter username, or username*, sections 3.4.3 and 3.4.4.
func username(c *sdk.Call, answers sdk.Answers, h func(string) string) string {
	user := c.Config("username")
	ascii := true
	for i := 0; i < len(user); i++ {
		ascii = ascii && user[i] < 0x80
	}
	switch {
	case answers["userhash"] == "true":
		return `username="` + h(user+":"+answers["realm"]) + `"`
	case !ascii && answers["charset"] != "":
		return "username*=UTF-8''" + c.Percent(user)
	}
	return "username=" + c.Quoted(user)
}

// count returns the parameter nc: the number of requests with a nonce, in hex.
func count(n int64) string {
	digits := []byte("00000000")
	for i := 7; i >= 0; i, n = i-1, n>>4 {
		digits[i] = "0123456789abcdef"[n&15]
	}
	return string(digits)
}
