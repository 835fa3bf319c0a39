package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/keywright/keywright/host"
)

// answer is an answer of the token endpoint with all members that the exchanging types look for.
const answer = `{"access_token":"` + accessToken + `","token_type":%q,"expires_in":3600,"token":"` + accessToken + `","expires_at":"2099-01-01T00:00:00Z",` +
	`"AssumeRoleResponse":{"AssumeRoleResult":{"Credentials":{"AccessKeyId":"ASIAEXAMPLE","SecretAccessKey":"` + accessToken +
	`","SessionToken":"` + accessToken + `","Expiration":"2099-01-01T00:00:00Z"}}}}`

// exchanging holds configurations of the types that get a credential in exchange for another, beside oauth_client_credentials.
var exchanging = []struct {
	auth host.Auth
	// own is set if each request needs a signature of its own.
	own bool
}{
	{auth: authOf("oauth_jwt_bearer")},
	{auth: withClient("oauth_password", map[string]any{"username": "ann", "password": "{{ get_secret('key') }}"})},
	{auth: withClient("token_exchange", map[string]any{"subject_token": "{{ get_secret('key') }}"})},
	{auth: host.Auth{Type: "login", Config: map[string]any{
		"login_url": tokenURL, "login_body": map[string]any{"password": "{{ get_secret('key') }}"}, "token_from": "json:/token",
		"key": "Authorization", "prefix": "Bearer",
	}}},
	{auth: host.Auth{Type: "github_app", Config: map[string]any{
		"client_id": "me", "installation_id": 1, "private_key": "{{ get_secret('RS256') }}", "api_url": "https://" + loginHost,
	}}},
	{auth: host.Auth{Type: "google_service_account", Config: map[string]any{
		"client_email": "me@project.test", "private_key": "{{ get_secret('RS256') }}", "token_url": tokenURL, "scope": "read",
	}}},
	{own: true, auth: withClient("dpop", nil)},
	{own: true, auth: authOfRole},
}

var authOfRole = host.Auth{Type: "aws_assume_role", Config: map[string]any{
	"access_key_id": awsKeyID, "secret_access_key": "{{ get_secret('key') }}", "role_arn": "arn:aws:iam::123456789012:role/bench",
	"sts_url": "https://" + loginHost + "/", "region": awsRegion, "service": awsService,
}}

func withClient(authType string, fields map[string]any) host.Auth {
	config := map[string]any{"client_id": "me", "client_secret": "{{ get_secret('client') }}", "token_url": tokenURL}
	maps.Copy(config, fields)
	return host.Auth{Type: authType, Config: config}
}

// exchangingRows returns the rows that compare RoundTrip of each exchanging type with that of oauth_client_credentials. Both
// have a cached credential.
func exchangingRows() []row {
	all := make([]row, 0, len(exchanging))
	for _, e := range exchanging {
		work := "RoundTrip, " + e.auth.Type + " with a cached token"
		if e.own {
			work += ", and a signature of each request"
		}
		all = append(all, row{
			work: work, against: "RoundTrip, oauth_client_credentials with a cached token", unit: nanoseconds, goal: 1.1,
			measure: func(ctx context.Context, s session) (result, error) {
				return besideClientCredentials(ctx, s, e.auth)
			},
		})
	}
	return all
}

func besideClientCredentials(ctx context.Context, s session, a host.Auth) (result, error) {
	b := &base{answer: fmt.Sprintf(answer, map[bool]string{true: "DPoP", false: "Bearer"}[a.Type == "dpop"])}
	ours, closeOurs, err := cachedRoundTrip(ctx, b, a)
	if err != nil {
		return result{}, err
	}
	defer closeOurs()
	theirBase := &base{}
	theirs, closeTheirs, err := cachedRoundTrip(ctx, theirBase, authOf("oauth_client_credentials"))
	if err != nil {
		return result{}, err
	}
	defer closeTheirs()
	measured, err := s.pair(ctx, op{run: ours}, op{run: theirs})
	if n, m := b.exchanges.Load(), theirBase.exchanges.Load(); err == nil && (n != 1 || m != 1) {
		err = fmt.Errorf("the tokens were to be cached, and were asked for %d and %d times", n, m)
	}
	return measured, err
}

// cachedRoundTrip returns a function that does one round trip, and one that closes the host.
func cachedRoundTrip(ctx context.Context, b *base, a host.Auth) (run func() error, done func(), err error) {
	h, c, err := connected(ctx, b, a)
	if err != nil {
		return nil, nil, err
	}
	r := request(ctx)
	transport := c.Transport(authorized{b})
	return func() error { return send(transport, r) }, func() { _ = h.Close(ctx) }, nil
}

// authorized is a base that refuses requests without a credential.
type authorized struct{ *base }

func (b authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != loginHost && len(r.Header["Authorization"]) != 1 {
		return nil, errors.New("the request has no credential")
	}
	return b.base.RoundTrip(r)
}
