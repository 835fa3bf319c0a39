// Package sigv4 signs requests for AWS, Signature Version 4. The plugins awssigv4 and awsassumerole share it.
package sigv4

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/sdk"
)

const (
	algorithm = "AWS4-HMAC-SHA256"
	// leastOffset is the least difference between two clocks, in seconds, for which a refused request is signed again. AWS
	// accepts differences of five minutes or more.
	leastOffset = 60
	// maxExpires is the maximum of expires_seconds, a week.
	maxExpires = "604800"
)

// Key is the credential of an AWS principal. Secret must be a sealed value with the sink [sdk.ToSign]. ID and Token may be
// sealed. Token is empty unless the credential is temporary. Secret may be empty for [Request]: then it is that of the field
// secret_access_key, and the signing key of the day is kept in the cache.
type Key struct{ ID, Secret, Token string }

// Fields returns the fields that say how requests are signed.
func Fields() []sdk.Field {
	return []sdk.Field{
		{Name: "region", Kind: sdk.String, Required: true, Doc: "Region of the API, such as eu-central-1."},
		{Name: "service", Kind: sdk.String, Required: true, Suggested: []string{"execute-api", "s3", "es", "lambda", "dynamodb", "bedrock"}, Doc: "The service's name in signatures, such as execute-api."},
		{Name: "in", Kind: sdk.String, Enum: []string{"header", "query"}, Default: "header", Doc: "Where the signature goes: into Authorization, or into the query as in a presigned URL."},
		{Name: "expires_seconds", Kind: sdk.Integer, Default: "300", Minimum: sdk.AtLeast(1), Doc: "Seconds for which a signature in the query is valid, at most 604800."},
		{Name: "sign_session_token", Kind: sdk.Boolean, Default: "true", Doc: "False for services that want the session token unsigned, such as AWS IoT."},
		{Name: "unsigned_payload", Kind: sdk.Boolean, Default: "false", Doc: "True if the signature does not cover the body."},
		{Name: "content_sha256_header", Kind: sdk.Boolean, Doc: "Whether X-Amz-Content-Sha256 is sent; true for S3, and otherwise false unless given."},
		{Name: "normalize_path", Kind: sdk.Boolean, Doc: "Whether the path is signed without dot segments and empty segments; false for S3, and otherwise true unless given."},
		{Name: "double_encode_path", Kind: sdk.Boolean, Doc: "Whether the path is percent-encoded once more to be signed; false for S3, and otherwise true unless given."},
	}
}

// Validate returns the problems of the fields that [Fields] returns.
func Validate(c *sdk.Config) (problems []sdk.Problem) {
	for _, name := range []string{"region", "service"} {
		if text, literal := c.Literal(name); literal && strings.ContainsAny(text, "/ \t") {
			problems = append(problems, sdk.Problem{Field: name, Message: "has a slash or a space: write only the name, such as eu-central-1 or execute-api"})
		}
	}
	if n, literal := c.Literal("expires_seconds"); literal && (len(n) > len(maxExpires) || len(n) == len(maxExpires) && n > maxExpires) {
		problems = append(problems, sdk.Problem{Field: "expires_seconds", Message: "is more than a week, which AWS refuses: write " + maxExpires + " or less"})
	}
	return problems
}

// Challenge returns the answers of the API after which a request may be signed again: AWS refuses a wrong time with 400 or 403.
// After a 401 the host would drop the signing key that is cached and send the request again, as it does with a token.
func Challenge() *sdk.Challenge { return &sdk.Challenge{Statuses: []int{400, 401, 403}} }

// Refused reports whether the API has refused this request for another reason than the time of its signature. It must be
// called before [Request].
func Refused(c *sdk.Call) bool {
	challenge := c.Challenge()
	return challenge.Status != 0 && !Apart(challenge.ClockChange, 0)
}

// Apart reports whether two times, in seconds, differ so much that a signature of one is not valid at the other.
func Apart(a, b int64) bool { return a-b >= leastOffset || b-a >= leastOffset }

// Request signs the outgoing request, as the fields of the configuration say.
func Request(c *sdk.Call, k Key) (sdk.Mutation, error) {
	now := c.Now() + c.ClockOffset()
	t := newScope(now, c.Config("region"), c.Config("service"))
	if k.Secret != "" {
		t.derive(c, k.Secret)
	} else if name := "signing key " + t.text; !t.cached(c, name) {
		t.derive(c, c.Config("secret_access_key"))
		c.Cache(name, t.key, time.Duration(day-now%day)*time.Second)
	}
	r, err := c.Request()
	if err != nil {
		return sdk.Mutation{}, err
	}
	s3, query := isS3(t.service), c.Config("in") == "query"
	m := newMessage(&r)
	m.path = canonicalPath(m.path, flag(c, "normalize_path", !s3), flag(c, "double_encode_path", !s3))
	if r.ContentLength > 0 {
		m.set("content-length", strconv.FormatInt(r.ContentLength, 10))
	}
	if m.payload, err = payload(c, &r, s3 && query); err != nil {
		return sdk.Mutation{}, err
	}
	for _, p := range m.query {
		if reserved(p.Name) {
			return sdk.Mutation{}, errors.New("the request's query has " + p.Name + ": the type signs requests, send it one that is not presigned")
		}
	}
	signsToken := k.Token == "" || flag(c, "sign_session_token", true)
	if query {
		return sdk.Mutation{Query: m.presign(c, k, t, signsToken)}, nil
	}
	if m.payload == unsigned || flag(c, "content_sha256_header", s3) {
		return sdk.Mutation{Headers: m.authorize(c, k, t, signsToken, sdk.Pair{Name: "X-Amz-Content-Sha256", Value: m.payload})}, nil
	}
	return sdk.Mutation{Headers: m.authorize(c, k, t, signsToken)}, nil
}

// Form returns the headers that sign a POST of a form to a URL of AWS. now is in Unix seconds.
func Form(c *sdk.Call, k Key, url, region, service string, form []sdk.Pair, now int64) []sdk.Pair {
	m := newMessage(&sdk.Request{Method: "POST", URL: url})
	m.path = canonicalPath(m.path, true, true)
	m.set("content-type", "application/x-www-form-urlencoded")
	body := ""
	for i, p := range form {
		if i > 0 {
			body += "&"
		}
		body += c.FormEncode(p.Name) + "=" + c.FormEncode(p.Value)
	}
	m.payload = c.Hex(c.Digest(sdk.DigestSHA256, body))
	t := newScope(now, region, service)
	t.derive(c, k.Secret)
	return m.authorize(c, k, t, true)
}

// authorize signs a message. It returns the headers, Authorization and what it signs beside those of the request.
func (m *message) authorize(c *sdk.Call, k Key, t *scope, signsToken bool, headers ...sdk.Pair) []sdk.Pair {
	headers = append(headers, sdk.Pair{Name: "X-Amz-Date", Value: t.stamp})
	if k.Token != "" {
		headers = append(headers, sdk.Pair{Name: tokenName, Value: k.Token})
	}
	for _, p := range headers { // they replace those of the request
		m.set(sdk.Lower(p.Name), p.Value)
	}
	if !signsToken {
		m.drop(sdk.Lower(tokenName))
	}
	names, canonical := m.canonical()
	return append(headers, sdk.Pair{
		Name:  "Authorization",
		Value: algorithm + " Credential=" + k.ID + "/" + t.text + ", SignedHeaders=" + names + ", Signature=" + t.sign(c, canonical),
	})
}

// presign signs a message with parameters of the query, and returns them.
func (m *message) presign(c *sdk.Call, k Key, t *scope, signsToken bool) []sdk.Pair {
	names, _ := m.canonical()
	own := []sdk.Pair{
		{Name: "X-Amz-Algorithm", Value: algorithm},
		{Name: "X-Amz-Credential", Value: k.ID + "/" + t.text},
		{Name: "X-Amz-Date", Value: t.stamp},
		{Name: "X-Amz-Expires", Value: c.Config("expires_seconds")},
		{Name: "X-Amz-SignedHeaders", Value: names},
	}
	token := []sdk.Pair{{Name: tokenName, Value: k.Token}}
	switch {
	case k.Token == "":
		token = nil
	case signsToken:
		own, token = append(own, token...), nil
	}
	for _, p := range own {
		m.query = append(m.query, sdk.Pair{Name: p.Name, Value: c.Percent(p.Value)})
	}
	_, canonical := m.canonical()
	own = append(own, sdk.Pair{Name: "X-Amz-Signature", Value: t.sign(c, canonical)})
	return append(own, token...)
}

const (
	tokenName = "X-Amz-Security-Token"
	unsigned  = "UNSIGNED-PAYLOAD"
	trailer   = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	// ofNothing is the SHA-256 of an empty body.
	ofNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	// day is the time for which a signing key is valid, in seconds.
	day = 24 * 60 * 60
)

// payload returns the text that stands for the body in a signature. presigned is set for a presigned request to S3, whose body
// is never signed.
func payload(c *sdk.Call, r *sdk.Request, presigned bool) (string, error) {
	stated, _ := sdk.HeaderValue(r.Headers, "X-Amz-Content-Sha256")
	switch {
	case stated == unsigned, stated == trailer, isDigest(stated):
		return stated, nil
	case stated != "":
		return "", errors.New("the request's X-Amz-Content-Sha256 is neither a SHA-256 in hex nor " + unsigned + " nor " + trailer +
			": chunks with signatures of their own need the secret, send one of these")
	case presigned, flag(c, "unsigned_payload", false):
		return unsigned, nil
	case r.ContentLength == 0:
		return ofNothing, nil
	}
	return c.Hex(c.Digest(sdk.DigestSHA256, c.Body())), nil
}

// flag returns the value of a boolean field, or usual if it is absent.
func flag(c *sdk.Call, name string, usual bool) bool {
	if value := c.Config(name); value != "" {
		return value == "true"
	}
	return usual
}

// isS3 reports whether a service has the rules of S3 for paths and bodies.
func isS3(service string) bool {
	return service == "s3" || service == "s3express" || strings.HasPrefix(service, "s3-")
}

// scope is the time of a signature and what it is valid for.
type scope struct {
	stamp, region, service, text string
	// key is the signing key.
	key string
}

func newScope(now int64, region, service string) *scope {
	stamp := sdk.FormatTime(now*1000, "%Y%m%dT%H%M%SZ")
	return &scope{stamp: stamp, region: region, service: service, text: stamp[:8] + "/" + region + "/" + service + "/aws4_request"}
}

// cached takes the signing key from the cache, and reports whether it is there.
func (t *scope) cached(c *sdk.Call, name string) (ok bool) {
	t.key, ok = c.Cached(name)
	return ok
}

// derive makes the signing key from a secret access key.
func (t *scope) derive(c *sdk.Call, secret string) {
	t.key = "AWS4" + secret
	for _, part := range []string{t.stamp[:8], t.region, t.service, "aws4_request"} {
		t.key = c.MAC(sdk.SHA256, t.key, part)
	}
}

// sign returns the signature of a canonical request.
func (t *scope) sign(c *sdk.Call, canonical string) string {
	digest := c.Hex(c.Digest(sdk.DigestSHA256, canonical))
	return c.Hex(c.MAC(sdk.SHA256, t.key, algorithm+"\n"+t.stamp+"\n"+t.text+"\n"+digest))
}
