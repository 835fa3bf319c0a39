// Plugin awsassumerole signs requests for AWS with the credentials of a role, which it gets from AWS STS.
package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/plugins/internal/sigv4"
	"github.com/keywright/keywright/sdk"
)

const (
	// margin is the time before the expiration of credentials in which they are not used, in seconds.
	margin = 60
	// grace is the age of credentials, in seconds, from which on a refusal of the API drops them. An API that refuses what the
	// role may not do has STS asked no more often.
	grace = 300
	// longest is the maximum of duration_seconds, 12 hours, which AWS has set.
	longest = 43200
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

// Describe separates the base credentials, whose signatures reach STS only, from those of the role, whose signatures reach the
// API only.
func (plugin) Describe() sdk.Description {
	token, digested := []sdk.Sink{sdk.ToToken}, []sdk.Sink{sdk.ToToken, sdk.ToDigest}
	signed := []sdk.Condition{{Field: "web_identity_token", Absent: true}}
	return sdk.Description{
		ABI: sdk.ABI, Type: "aws_assume_role", Version: "1.0.0",
		Summary: "A signature of AWS, Signature Version 4, with the credentials of an assumed role, cached until a minute before they expire.",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign, sdk.UsesBody},
		Fields: sdk.Fields([]sdk.Field{
			{Name: "access_key_id", Kind: sdk.String, RequiredIf: signed, OnlyIf: signed, Sinks: token, Doc: "Access key ID of the credentials that assume the role."},
			{
				Name: "secret_access_key", Kind: sdk.String, RequiredIf: signed, OnlyIf: signed, Sealed: true,
				Sinks: []sdk.Sink{sdk.ToSign}, Derived: []sdk.Sink{sdk.ToSign, sdk.ToToken}, Doc: "Their secret access key.",
			},
			{Name: "session_token", Kind: sdk.String, OnlyIf: signed, Sealed: true, Sinks: digested, Doc: "Their session token, if they are temporary."},
			{Name: "web_identity_token", Kind: sdk.String, Sealed: true, Sinks: token, Doc: "Token of an OpenID provider, in place of these credentials."},
			{
				Name: "role_arn", Kind: sdk.String, Required: true, Sinks: digested, Doc: "ARN of the role.",
				Pattern: `arn:[^\n]*:role/[^\n]*`, PatternMessage: "is not the ARN of a role: write it as in arn:aws:iam::123456789012:role/reports",
			},
			{Name: "role_session_name", Kind: sdk.String, Default: "keywright", Sinks: digested, Doc: "Name of the session, which AWS logs."},
			{Name: "external_id", Kind: sdk.String, OnlyIf: signed, Sinks: digested, Doc: "External ID that the role's trust policy asks for."},
			{Name: "duration_seconds", Kind: sdk.Integer, Default: "3600", Minimum: sdk.Limit(900), Maximum: sdk.Limit(longest), Doc: "Lifetime of the session in seconds, at most that of the role."},
			{Name: "policy", Kind: sdk.String, Sinks: digested, Doc: "Session policy in JSON, which narrows what the role may do."},
			{
				Name: "sts_url", Kind: sdk.URL, Required: true, Sinks: token, Doc: "Endpoint of AWS STS.",
				Suggested: []string{"https://sts.us-east-1.amazonaws.com/", "https://sts.eu-central-1.amazonaws.com/"},
			},
			{Name: "sts_region", Kind: sdk.String, Pattern: sigv4.Name, PatternMessage: sigv4.NotName, Doc: "Region of sts_url; region unless given."},
		}, sigv4.Fields()),
		Answers: answers(), Challenge: sigv4.Challenge(),
	}
}

// Actions of STS. The second takes a token in place of a signature
// (docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html).
const assumeRole, withWebIdentity = "AssumeRole", "AssumeRoleWithWebIdentity"

// answers returns what STS answers with. It documents XML, and sends JSON to who accepts that. The secret access key only signs.
func answers() []sdk.Answer {
	used, signs := []sdk.Sink{sdk.ToHeader, sdk.ToQuery, sdk.ToDigest}, []sdk.Sink{sdk.ToSign, sdk.ToHeader, sdk.ToQuery}
	all := make([]sdk.Answer, 0, 10) // not grown, so that TinyGo can run it while it compiles
	for _, member := range []sdk.Answer{
		{Name: "access_key_id", From: "AccessKeyId", Kind: sdk.AnswerSealed, Sinks: used},
		{Name: "secret_access_key", From: "SecretAccessKey", Kind: sdk.AnswerSealed, Sinks: signs[:1], Derived: signs},
		{Name: "session_token", From: "SessionToken", Kind: sdk.AnswerSealed, Sinks: used},
		{Name: "expiration", From: "Expiration", Kind: sdk.AnswerTime},
	} {
		for _, action := range []sdk.Pair{{Name: "", Value: assumeRole}, {Name: "web_", Value: withWebIdentity}} {
			a, path := member, ":/"+action.Value+"Response/"+action.Value+"Result/Credentials/"+member.From
			a.Name, a.From, a.Alternative, a.Required = action.Name+a.Name, "json"+path, "xml"+path, true
			all = append(all, a)
		}
	}
	return append(all, sdk.Answer{Name: "date", From: "header:Date", Kind: sdk.AnswerTime}, sdk.Answer{
		Name: "error", From: "json:/Error/Code", Alternative: "xml:/ErrorResponse/Error/Code", Kind: sdk.AnswerEnum, Enum: []string{
			"AccessDenied", "ExpiredToken", "ExpiredTokenException", "IDPCommunicationError", "IDPRejectedClaim", "InvalidClientTokenId",
			"InvalidIdentityToken", "MalformedPolicyDocument", "PackedPolicyTooLarge", "RegionDisabledException", "SignatureDoesNotMatch", "ValidationError",
		},
	})
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if sigv4.Refused(c) && !dropped(c) {
		return sdk.Mutation{Pass: true}, nil
	}
	key, err := assumed(c)
	if err != nil {
		return sdk.Mutation{}, err
	}
	return sigv4.Request(c, key)
}

// dropped drops the credentials that the API has refused, and reports whether others may help. A session that was revoked is
// refused like anything that the role may not do.
func dropped(c *sdk.Call) bool {
	cached, ok := c.Cached("credentials")
	since := strconv.FormatInt(c.Now()-grace, 10) // has as many digits as other times until the year 2286
	return ok && cached[strings.LastIndexByte(cached, ' ')+1:] <= since && c.Drop("credentials")
}

// assumed returns the credentials of the role.
func assumed(c *sdk.Call) (sigv4.Key, error) {
	if key, ok := cachedKey(c); ok {
		return key, nil
	}
	now := c.Now() + c.ClockOffset()
	status, answers := assume(c, now)
	if date := answers.Time("date"); date != 0 {
		if status >= 400 && sigv4.Apart(date, now) && webPrefix(c) == "" { // STS may have refused the time of the signature
			status, answers = assume(c, date)
		}
		now = date
	}
	if status/100 != 2 {
		if code := answers["error"]; code != "" {
			c.Warn("AWS STS does not let these credentials assume the role: " + code)
		}
		return sigv4.Key{}, errors.New("AWS STS answered " + strconv.Itoa(status) + " to AssumeRole")
	}
	prefix := webPrefix(c)
	key := sigv4.Key{ID: answers[prefix+"access_key_id"], Secret: answers[prefix+"secret_access_key"], Token: answers[prefix+"session_token"]}
	ttl := time.Duration(answers.Time(prefix+"expiration")-now-margin) * time.Second
	c.Cache("credentials", strings.Join([]string{key.ID, key.Secret, key.Token, c.Random(8), strconv.FormatInt(c.Now(), 10)}, " "), ttl)
	if entry, ok := cachedKey(c); ok { // only an entry that a call has read can be dropped after the API's answer
		key = entry
	}
	return key, nil
}

// cachedKey returns the credentials that are in the cache. A random text beside them names their signing key.
func cachedKey(c *sdk.Call) (key sigv4.Key, ok bool) {
	cached, ok := c.Cached("credentials")
	if !ok {
		return sigv4.Key{}, false
	}
	parts := strings.Split(cached, " ")
	return sigv4.Key{ID: parts[0], Secret: parts[1], Token: parts[2], CachedAs: "signing key " + parts[3]}, true
}

// webPrefix returns what the names of the answers to the action begin with.
func webPrefix(c *sdk.Call) string {
	if c.Config("web_identity_token") != "" {
		return "web_"
	}
	return ""
}

// assume asks STS for credentials of the role. now is the time of the signature.
func assume(c *sdk.Call, now int64) (status int, answers sdk.Answers) {
	action, prefix, web := assumeRole, webPrefix(c), c.Config("web_identity_token")
	if web != "" {
		action = withWebIdentity
	}
	form := sdk.Present([]sdk.Pair{
		{Name: "Action", Value: action},
		{Name: "Version", Value: "2011-06-15"},
		{Name: "RoleArn", Value: c.Config("role_arn")},
		{Name: "RoleSessionName", Value: c.Config("role_session_name")},
		{Name: "DurationSeconds", Value: c.Config("duration_seconds")},
		{Name: "ExternalId", Value: c.Config("external_id")},
		{Name: "Policy", Value: c.Config("policy")},
		{Name: "WebIdentityToken", Value: web},
	})
	exchange := sdk.Exchange{URL: c.Config("sts_url"), Form: form, Answers: []string{
		prefix + "access_key_id", prefix + "secret_access_key", prefix + "session_token", prefix + "expiration", "date", "error",
	}}
	if web == "" {
		base := sigv4.Key{ID: c.Config("access_key_id"), Secret: c.Config("secret_access_key"), Token: c.Config("session_token")}
		exchange.Headers = sigv4.Form(c, base, exchange.URL, c.First("sts_region", "region"), "sts", form, now)
	}
	return c.Exchange(exchange)
}
