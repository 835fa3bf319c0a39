// Package sigv4 signs requests for AWS, Signature Version 4. The plugins awssigv4 and awsassumerole share it.
package sigv4

import (
	"errors"
	"strings"
	"time"

	"github.com/keywright/keywright/sdk"
)

const (
	algorithm = "AWS4-HMAC-SHA256"
	// leastOffset is the least difference between two clocks, in seconds, for which a refused request is signed again. AWS
	// accepts differences of five minutes or more.
	leastOffset = 60
	// maxExpires is the maximum of expires_seconds, a week, which AWS has set.
	maxExpires = 604800
)

// Name is the pattern of a region and of a service, and NotName its message.
const (
	Name    = `[^/ \t\r\n]*`
	NotName = "has a slash or a space: write only the name, such as eu-central-1 or execute-api"
)

// Key is the credential of an AWS principal. Secret must be a sealed value with the sink [sdk.ToSign]. ID and Token may be
// sealed. Token is empty unless the credential is temporary. Secret may be empty for [Request]: then it is that of the field
// secret_access_key, and the signing key of the day is kept in the cache.
type Key struct{ ID, Secret, Token string }

// Fields returns the fields that say how requests are signed.
func Fields() []sdk.Field {
	return []sdk.Field{
		{Name: "region", Kind: sdk.String, Required: true, Pattern: Name, PatternMessage: NotName, Doc: "Region of the API, such as eu-central-1."},
		{
			Name: "service", Kind: sdk.String, Required: true, Pattern: Name, PatternMessage: NotName, Doc: "The service's name in signatures, such as execute-api.",
			Suggested: []string{"execute-api", "s3", "es", "lambda", "dynamodb", "bedrock"},
		},
		{Name: "in", Kind: sdk.String, Enum: []string{"header", "query"}, Default: "header", Doc: "Where the signature goes: into Authorization, or into the query as in a presigned URL."},
		{Name: "expires_seconds", Kind: sdk.Integer, Default: "300", Minimum: sdk.AtLeast(1), Maximum: sdk.AtMost(maxExpires), Doc: "Seconds for which a signature in the query is valid, at most a week."},
		{Name: "sign_session_token", Kind: sdk.Boolean, Default: "true", Doc: "False for services that want the session token unsigned, such as AWS IoT."},
		{Name: "unsigned_payload", Kind: sdk.Boolean, Default: "false", Doc: "True if the signature does not cover the body."},
		{Name: "content_sha256_header", Kind: sdk.Boolean, Doc: "Whether X-Amz-Content-Sha256 is sent; true for S3, and otherwise false unless given."},
		{Name: "normalize_path", Kind: sdk.Boolean, Doc: "Whether the path is signed without dot segments and empty segments; false for S3, and otherwise true unless given."},
		{Name: "double_encode_path", Kind: sdk.Boolean, Doc: "Whether the path is percent-encoded once more to be signed; false for S3, and otherwise true unless given."},
	}
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

// settings is a template of fields, so that one call of the host returns all of them. The last two have no line break.
const settings = "{time:" + stampFormat + "} {config:in} {config:unsigned_payload} {config:sign_session_token} {config:content_sha256_header}" +
	" {config:normalize_path} {config:double_encode_path}\n{config:region}\n{config:service}"

// Request signs the outgoing request, as the fields of the configuration say.
func Request(c *sdk.Call, k Key) (sdk.Mutation, error) {
	all := strings.SplitN(c.Compose(settings), "\n", 3)
	set := strings.Split(all[0], " ")
	t := newScope(set[0], all[1], all[2])
	if k.Secret != "" {
		t.derive(c, k.Secret)
	} else if name := "signing key " + t.text; !t.cached(c, name) {
		t.derive(c, c.Config("secret_access_key"))
		c.Cache(name, t.key, time.Duration(day-(c.Now()+c.ClockOffset())%day)*time.Second)
	}
	s3, query := isS3(t.service), set[1] == "query"
	body, err := payload(c, s3 && query || set[2] == "true")
	if err != nil {
		return sdk.Mutation{}, err
	}
	path := "{path"
	if flag(set[5], !s3) {
		path += "|path_normalized"
	}
	if flag(set[6], !s3) {
		path += "|path_percent}"
	} else {
		path += "|path_reencoded}"
	}
	m := message{c, k, t, path, body}
	signsToken := k.Token == "" || set[3] == "true"
	if query {
		return m.presign(signsToken), nil
	}
	return m.authorize(signsToken, body == unsigned || flag(set[4], s3)), nil
}

// Form returns the headers that sign a POST of a form to a URL of AWS. now is in Unix seconds.
func Form(c *sdk.Call, k Key, url, region, service string, form []sdk.Pair, now int64) []sdk.Pair {
	t := newScope(sdk.FormatTime(now*1000, stampFormat), region, service)
	t.derive(c, k.Secret)
	r := sdk.Request{URL: url}
	_, _, target := r.Split()
	path, query, _ := strings.Cut(target, "?")
	body := ""
	for _, p := range form {
		body += "&" + c.FormEncode(p.Name) + "=" + c.FormEncode(p.Value)
	}
	names := "content-type;host;x-amz-date"
	lines := "content-type:application/x-www-form-urlencoded\nhost:" + r.Host() + "\nx-amz-date:" + t.stamp
	if k.Token != "" {
		names, lines = names+";x-amz-security-token", lines+"\nx-amz-security-token:"+k.Token
	}
	canonical := "POST\n" + c.Encode("path_percent", c.Encode("path_normalized", path)) + "\n" + c.Encode("query_sorted", query) + "\n" + lines + "\n\n" + names +
		"\n" + c.Hex(c.Digest(sdk.DigestSHA256, strings.TrimPrefix(body, "&")))
	return append(t.headers(k), t.authorization(c, k, names, canonical))
}

// signable are the headers that are signed: all but those that a proxy or an HTTP client may set, change or leave out.
const signable = "*;!accept-encoding;!connection;!expect;!keep-alive;!te;!trailer;!transfer-encoding;!upgrade;!user-agent;!baggage;!forwarded;" +
	"!traceparent;!tracestate;!via;!x-amzn-trace-id;!x-forwarded-*;!proxy-*;!sec-*"

// message is a request that is to be signed.
type message struct {
	*sdk.Call
	key   Key
	scope *scope
	// path and payload are templates of the path, and of what stands for the body.
	path, payload string
}

// canonical returns the canonical request, with the changes so far. selection lists the headers.
func (m *message) canonical(selection string, changes sdk.Mutation) string {
	template := strings.Join([]string{
		"{method}\n", m.path, "\n{query|query_sorted}\n{headers:", selection, "}\n\n{header_names:", selection, "}\n", m.payload,
	}, "")
	return m.ComposeWith(template, changes)
}

// authorize signs a message with headers, and returns them.
func (m *message) authorize(signsToken, sendsPayload bool) sdk.Mutation {
	selection, headers := signable, m.scope.headers(m.key)
	if !signsToken {
		selection += ";!x-amz-security-token"
	}
	if sendsPayload {
		m.payload = m.Compose(m.payload)
		headers = append([]sdk.Pair{{Name: "X-Amz-Content-Sha256", Value: m.payload}}, headers...)
	}
	canonical := m.canonical(selection, sdk.Mutation{Headers: headers})
	names := canonical[:strings.LastIndexByte(canonical, '\n')] // the payload has no line break
	names = names[strings.LastIndexByte(names, '\n')+1:]
	return sdk.Mutation{Headers: append(headers, m.scope.authorization(m.Call, m.key, names, canonical))}
}

// presign signs a message with parameters of the query, and returns them.
func (m *message) presign(signsToken bool) sdk.Mutation {
	own := []sdk.Pair{
		{Name: "X-Amz-Algorithm", Value: algorithm},
		{Name: "X-Amz-Credential", Value: m.key.ID + "/" + m.scope.text},
		{Name: "X-Amz-Date", Value: m.scope.stamp},
		{Name: "X-Amz-Expires", Value: m.Config("expires_seconds")},
		{Name: "X-Amz-SignedHeaders", Value: m.Compose("{header_names:" + signable + "}")},
	}
	token := []sdk.Pair{{Name: tokenName, Value: m.key.Token}}
	switch {
	case m.key.Token == "":
		token = nil
	case signsToken:
		own, token = append(own, token...), nil
	}
	canonical := m.canonical(signable, sdk.Mutation{Query: own})
	own = append(own, sdk.Pair{Name: "X-Amz-Signature", Value: m.scope.sign(m.Call, canonical)})
	return sdk.Mutation{Query: append(own, token...)}
}

const (
	tokenName = "X-Amz-Security-Token"
	unsigned  = "UNSIGNED-PAYLOAD"
	trailer   = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	// ofNothing is the SHA-256 of an empty body.
	ofNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	// day is the time for which a signing key is valid, in seconds.
	day = 24 * 60 * 60
	// stampFormat is the format of the time of a signature.
	stampFormat = "%Y%m%dT%H%M%SZ"
)

// payload returns a template of the text that stands for the body in a signature. leftOut is set if the body is not signed, such
// as that of a presigned request to S3. A request that is presigned already is an error.
func payload(c *sdk.Call, leftOut bool) (string, error) {
	length, rest, _ := strings.Cut(c.Compose("{content_length}\n{query|query_sorted}\n{header:X-Amz-Content-Sha256}"), "\n")
	query, stated, _ := strings.Cut(rest, "\n")
	for _, name := range []string{"Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature", "Security-Token"} {
		if query != "" && strings.Contains("&"+query, "&X-Amz-"+name+"=") {
			return "", errors.New("the request's query has X-Amz-" + name + ": the type signs requests, send it one that is not presigned")
		}
	}
	switch {
	case stated == unsigned, stated == trailer, isDigest(stated):
		return stated, nil
	case stated != "":
		return "", errors.New("the request's X-Amz-Content-Sha256 is neither a SHA-256 in hex nor " + unsigned + " nor " + trailer +
			": chunks with signatures of their own need the secret, send one of these")
	case leftOut:
		return unsigned, nil
	case length == "0":
		return ofNothing, nil
	}
	return "{body|sha256|hex}", nil
}

// isDigest reports whether text is a SHA-256 in hex, in lower case.
func isDigest(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(text) == 64
}

// flag returns the value of a boolean field, or usual if it is absent.
func flag(value string, usual bool) bool { return value == "true" || value == "" && usual }

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

func newScope(stamp, region, service string) *scope {
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

// headers returns the time and the session token.
func (t *scope) headers(k Key) []sdk.Pair {
	headers := []sdk.Pair{{Name: "X-Amz-Date", Value: t.stamp}}
	if k.Token != "" {
		headers = append(headers, sdk.Pair{Name: tokenName, Value: k.Token})
	}
	return headers
}

// authorization returns the header with the signature of a canonical request.
func (t *scope) authorization(c *sdk.Call, k Key, names, canonical string) sdk.Pair {
	return sdk.Pair{Name: "Authorization", Value: strings.Join([]string{
		algorithm, " Credential=", k.ID, "/", t.text, ", SignedHeaders=", names, ", Signature=", t.sign(c, canonical),
	}, "")}
}

// sign returns the signature of a canonical request.
func (t *scope) sign(c *sdk.Call, canonical string) string {
	digest := c.Hex(c.Digest(sdk.DigestSHA256, canonical))
	return c.Hex(c.MAC(sdk.SHA256, t.key, algorithm+"\n"+t.stamp+"\n"+t.text+"\n"+digest))
}
