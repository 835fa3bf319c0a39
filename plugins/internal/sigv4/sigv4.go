// Package sigv4 signs requests for AWS, Signature Version 4. The plugins awssigv4 and awsassumerole share it.
package sigv4

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/keywright/keywright/sdk"
)

const (
	algorithm = "AWS4-HMAC-SHA256"
	tokenName = "X-Amz-Security-Token"
	unsigned  = "UNSIGNED-PAYLOAD"
	trailer   = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	// day is the time for which a signing key is valid, in seconds.
	day = 24 * 60 * 60
	// stampFormat is the format of the time of a signature.
	stampFormat = "%Y%m%dT%H%M%SZ"
	// leastOffset is the least difference between two clocks, in seconds, for which a refused request is signed again. AWS
	// accepts differences of five minutes or more.
	leastOffset = 60
)

// Name is the pattern of a region and of a service, and NotName its message.
const (
	Name    = `[^/ \t\r\n]*`
	NotName = "has a slash or a space: write only the name, such as eu-central-1 or execute-api"
)

// Regions returns the codes of the regions that each account of AWS has ("Enable or disable AWS Regions in your account" of its
// documentation). Other services with these signatures have regions of any names.
func Regions() []string {
	return []string{
		"us-east-1", "us-east-2", "us-west-1", "us-west-2", "ap-south-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-southeast-1",
		"ap-southeast-2", "ca-central-1", "eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3", "sa-east-1",
	}
}

// Key is the credential of an AWS principal. Secret must be a sealed value with the sink [sdk.ToSign]. ID and Token may be
// sealed. Token is empty unless the credential is temporary. For [Request], Secret may be empty: then it is that of the field
// secret_access_key. If CachedAs is not empty, Request keeps the signing key of the day in the cache, under names that begin so. They
// must differ for each Secret.
type Key struct{ ID, Secret, Token, CachedAs string }

// Fields returns the fields that say how requests are signed.
func Fields() []sdk.Field {
	return []sdk.Field{
		{
			Name: "region", Kind: sdk.String, Required: true, Pattern: Name, PatternMessage: NotName, Doc: "Region of the API, such as eu-central-1.",
			Suggested: Regions(),
		},
		{
			Name: "service", Kind: sdk.String, Required: true, Pattern: Name, PatternMessage: NotName, Doc: "The service's name in signatures, such as execute-api.",
			Suggested: []string{"execute-api", "s3", "es", "lambda", "dynamodb", "bedrock"},
		},
		{Name: "in", Kind: sdk.String, Enum: []string{"header", "query"}, Default: "header", Doc: "Where the signature goes: into Authorization, or into the query as in a presigned URL."},
		{Name: "expires_seconds", Kind: sdk.Integer, Default: "300", Minimum: sdk.Limit(1), Maximum: sdk.Limit(7 * day), Doc: "Seconds for which a signature in the query is valid, at most a week."},
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
const settings = "{config:in} {config:unsigned_payload} {config:sign_session_token} {config:content_sha256_header}" +
	" {config:normalize_path} {config:double_encode_path}\n{config:region}\n{config:service}"

// Request signs the outgoing request, as the fields of the configuration say.
func Request(c *sdk.Call, k Key) (sdk.Mutation, error) {
	all := strings.SplitN(c.Compose(settings), "\n", 3)
	set := strings.Split(all[0], " ")
	s := newSigner(c, k, c.Compose("{time:%Y%m%d}"), all[1], all[2])
	name, cached := k.CachedAs+" "+s.scope, false
	if k.CachedAs != "" {
		s.signingKey, cached = c.Cached(name)
	}
	if !cached {
		s.derive(cmp.Or(k.Secret, c.Config("secret_access_key")))
	}
	if !cached && k.CachedAs != "" {
		c.Cache(name, s.signingKey, time.Duration(day-(c.Now()+c.ClockOffset())%day)*time.Second)
	}
	s.stamp = c.ComposeLater("{time:"+stampFormat+"}", sdk.Mutation{})
	s3, query := isS3(s.service), set[0] == "query"
	var err error
	if s.payload, err = payload(c, s3 && query || set[1] == "true"); err != nil {
		return sdk.Mutation{}, err
	}
	if s.path = "{path"; flag(set[4], !s3) {
		s.path += "|path_normalized"
	}
	if flag(set[5], !s3) {
		s.path += "|path_percent}"
	} else {
		s.path += "|path_reencoded}"
	}
	signsToken := k.Token == "" || set[2] == "true"
	if query {
		return s.presign(signsToken), nil
	}
	return s.authorize(signsToken, s.payload == unsigned || flag(set[3], s3)), nil
}

// flag returns the value of a boolean field, or usual if it is absent.
func flag(value string, usual bool) bool { return value == "true" || value == "" && usual }

// isS3 reports whether a service has the rules of S3 for paths and bodies.
func isS3(service string) bool {
	return service == "s3" || service == "s3express" || strings.HasPrefix(service, "s3-")
}

// signatureParts is a template of what says that the request is signed already, or what its payload is.
const signatureParts = "{header:X-Amz-Content-Sha256}\n{query_names:" +
	"X-Amz-Algorithm;X-Amz-Credential;X-Amz-Date;X-Amz-Expires;X-Amz-Security-Token;X-Amz-Signature;X-Amz-SignedHeaders}"

// payload returns a template of the text that stands for the body in a signature. leftOut is set if the body is not signed, such
// as that of a presigned request to S3. A request that is presigned already is an error.
func payload(c *sdk.Call, leftOut bool) (string, error) {
	stated, presigned, _ := strings.Cut(c.Compose(signatureParts), "\n")
	switch {
	case strings.Contains(";"+presigned, ";X-Amz-"):
		return "", errors.New("the request's query has " + presigned + ": the type signs requests, send it one that is not presigned")
	case isDigest(stated), stated == unsigned, stated == trailer:
		return stated, nil
	case stated != "":
		return "", errors.New("the request's X-Amz-Content-Sha256 is neither a SHA-256 in hex nor " + unsigned + " nor " + trailer +
			": chunks with signatures of their own need the secret, send one of these")
	case leftOut:
		return unsigned, nil
	}
	return "{body|sha256|hex}", nil
}

// isDigest reports whether text is a SHA-256 in hex, in lower case.
func isDigest(text string) bool {
	for i := 0; i < len(text); i++ {
		if strings.IndexByte("0123456789abcdef", text[i]) < 0 {
			return false
		}
	}
	return len(text) == 64
}

// signer signs for a time, a region and a service.
type signer struct {
	*sdk.Call
	Key
	// A signature is valid for its scope, in which all signatures have the same signingKey.
	date, stamp, region, service, scope, signingKey string
	// path and payload are templates of the path of a request, and of what stands for its body.
	path, payload string
}

func newSigner(c *sdk.Call, k Key, date, region, service string) *signer {
	return &signer{Call: c, Key: k, date: date, region: region, service: service, scope: date + "/" + region + "/" + service + "/aws4_request"}
}

// derive makes the signing key from a secret access key.
func (s *signer) derive(secret string) {
	s.signingKey = "AWS4" + secret
	for _, part := range []string{s.date, s.region, s.service, "aws4_request"} {
		s.signingKey = s.MAC(sdk.MACSHA256, s.signingKey, part)
	}
}

// headers returns the time and the session token.
func (s *signer) headers() []sdk.Pair {
	return sdk.Present([]sdk.Pair{{Name: "X-Amz-Date", Value: s.stamp}, {Name: tokenName, Value: s.Token}})
}

// authorize signs a request with headers, and returns them.
func (s *signer) authorize(signsToken, sendsPayload bool) sdk.Mutation {
	selection, headers := signable, s.headers()
	if !signsToken {
		selection += ";!x-amz-security-token"
	}
	if sendsPayload {
		headers = append([]sdk.Pair{{Name: "X-Amz-Content-Sha256", Value: s.ComposeLater(s.payload, sdk.Mutation{})}}, headers...)
		s.payload = "{header:X-Amz-Content-Sha256}"
	}
	changes := sdk.Mutation{Headers: headers}
	names := s.ComposeLater("{header_names:"+selection+"}", changes)
	return sdk.Mutation{Headers: append(headers, s.authorization(names, s.canonical(names, selection, changes)))}
}

// presign signs a request with parameters of the query, and returns them.
func (s *signer) presign(signsToken bool) sdk.Mutation {
	names := s.ComposeLater("{header_names:"+signable+"}", sdk.Mutation{})
	own, token := []sdk.Pair{
		{Name: "X-Amz-Algorithm", Value: algorithm},
		{Name: "X-Amz-Credential", Value: s.ID + "/" + s.scope},
		{Name: "X-Amz-Date", Value: s.stamp},
		{Name: "X-Amz-Expires", Value: s.Config("expires_seconds")},
		{Name: "X-Amz-SignedHeaders", Value: names},
	}, sdk.Present([]sdk.Pair{{Name: tokenName, Value: s.Token}})
	if signsToken {
		own, token = append(own, token...), nil
	}
	canonical := s.canonical(names, signable, sdk.Mutation{Query: own})
	own = append(own, sdk.Pair{Name: "X-Amz-Signature", Value: s.sign(canonical)})
	return sdk.Mutation{Query: append(own, token...)}
}

// signable are the headers that are signed: all but those that a proxy or an HTTP client may set, change or leave out.
const signable = "*;!accept-encoding;!connection;!expect;!keep-alive;!te;!trailer;!transfer-encoding;!upgrade;!user-agent;!baggage;!forwarded;" +
	"!traceparent;!tracestate;!via;!x-amzn-trace-id;!x-forwarded-*;!proxy-*;!sec-*"

// canonical returns the canonical request, with the changes so far. selection lists the headers that have these names.
func (s *signer) canonical(names, selection string, changes sdk.Mutation) string {
	return s.ComposeLater(strings.Join([]string{
		"{method}\n", s.path, "\n{query|query_sorted}\n{headers:", selection, "}\n\n{names}\n", s.payload,
	}, ""), changes, sdk.Pair{Name: "names", Value: names})
}

// authorization returns the header with the signature of a canonical request.
func (s *signer) authorization(names, canonical string) sdk.Pair {
	return sdk.Pair{Name: "Authorization", Value: strings.Join([]string{
		algorithm, " Credential=", s.ID, "/", s.scope, ", SignedHeaders=", names, ", Signature=", s.sign(canonical),
	}, "")}
}

// sign returns the signature of a canonical request.
func (s *signer) sign(canonical string) string {
	text := s.ComposeLater(algorithm+"\n{stamp}\n{scope}\n{canonical|sha256|hex}", sdk.Mutation{}, sdk.Pair{Name: "stamp", Value: s.stamp},
		sdk.Pair{Name: "scope", Value: s.scope}, sdk.Pair{Name: "canonical", Value: canonical})
	return s.Hex(s.MAC(sdk.MACSHA256, s.signingKey, text))
}

// Form returns the headers that sign a POST of a form to a URL of AWS. now is in Unix seconds.
func Form(c *sdk.Call, k Key, url, region, service string, form []sdk.Pair, now int64) []sdk.Pair {
	stamp := sdk.FormatTime(now*1000, stampFormat)
	s := newSigner(c, k, stamp[:8], region, service)
	s.stamp = stamp
	s.derive(k.Secret)
	r := sdk.Request{URL: url}
	_, _, target := r.Split()
	path, query, _ := strings.Cut(target, "?")
	body := ""
	for _, p := range form {
		body += "&" + c.FormEncode(p.Name) + "=" + c.FormEncode(p.Value)
	}
	names, lines := "content-type;host", "content-type:application/x-www-form-urlencoded\nhost:"+r.Host()
	for _, h := range s.headers() {
		names, lines = names+";"+sdk.Lower(h.Name), lines+"\n"+sdk.Lower(h.Name)+":"+h.Value
	}
	canonical := "POST\n" + c.Encode("path_percent", c.Encode("path_normalized", path)) + "\n" + c.Encode("query_sorted", query) + "\n" + lines + "\n\n" + names +
		"\n" + c.Hex(c.Digest(sdk.DigestSHA256, strings.TrimPrefix(body, "&")))
	return append(s.headers(), s.authorization(names, canonical))
}
