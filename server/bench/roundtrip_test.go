package bench

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// roundTripRows returns the rows for the cost of each request to an application: RoundTrip over a base that responds at once.
func roundTripRows() (all []row) {
	for _, authType := range []string{"api_key", "oauth_client_credentials", "oauth_jwt_bearer"} {
		work, exchanges := "RoundTrip, "+authType, int64(0)
		if authType != "api_key" {
			work, exchanges = work+", cached token", 1
		}
		all = append(all, row{
			work: work, against: "x/oauth2 v0.37.0, valid token", unit: nanoseconds, goal: 0.7,
			measure: func(s session) result {
				b := &base{}
				c, r := connected(s, b, authOf(authType)), request(s.Context())
				defer b.check(s, exchanges)
				return s.pair(roundTrip(c.Transport(b), r), roundTrip(&oauth2.Transport{Base: b, Source: validToken()}, r))
			},
		})
	}
	return append(all, longTokenRow())
}

// check fails the test unless the token endpoint had so many requests.
func (b *base) check(t testing.TB, want int64) {
	t.Helper()
	if got := b.exchanges.Load(); got != want {
		t.Errorf("tokens were asked for %d times, want %d", got, want)
	}
}

// validToken returns the source of a token with an expiry, so that each request checks the time.
func validToken() oauth2.TokenSource {
	token := &oauth2.Token{AccessToken: accessToken, TokenType: "Bearer", Expiry: time.Now().Add(time.Hour)}
	return oauth2.ReuseTokenSource(token, noTokens{})
}

type noTokens struct{}

func (noTokens) Token() (*oauth2.Token, error) { return nil, errors.New("the token was to be valid") }

// longTokenRow returns the row for what the search of the answer costs with a long credential.
func longTokenRow() row {
	return row{
		work: "RoundTrip with a search of the answer, a token of 8,000 bytes", against: "the same with 200 bytes", unit: nanoseconds, goal: 1.2,
		measure: func(s session) result {
			var sides [2]op
			for i, length := range []int{8000, 200} {
				b := &base{body: weather, answer: strings.Replace(bearerToken, accessToken, textOf(length), 1)}
				transport := connected(s, b, authOf("oauth_client_credentials")).GuardedTransport(authorized{b})
				sides[i].run = func() error { return fetch(s.Context(), transport, apiURL, io.Discard) }
			}
			return s.pair(sides[0], sides[1])
		},
	}
}

// textOf returns random text of a length in bytes.
func textOf(length int) string {
	text := ""
	for len(text) < length {
		text += rand.Text()
	}
	return text[:length]
}

// allocationRows returns the row for garbage: the allocations of RoundTrip minus those of cloning and sending the request, and
// at least 0.
func allocationRows() []row {
	return []row{{
		work: "RoundTrip, api_key: allocations beyond the request's clone ÷ 2", against: "2 allocations", unit: number, goal: 1,
		measure: func(s session) result {
			b := &base{}
			transport, r := connected(s, b, apiKeyAuth).Transport(b), request(s.Context())
			return s.bound(2, func() float64 {
				all := testing.AllocsPerRun(1000, func() { testworld.Check(s, send(transport, r)) })
				clone := testing.AllocsPerRun(1000, func() { testworld.Check(s, send(b, r.Clone(s.Context()))) })
				return max(all-clone, 0)
			})
		},
	}}
}

// answer is an answer of the token endpoint with all members that the exchanging types look for.
const answer = `{"access_token":"` + accessToken + `","token_type":%q,"expires_in":3600,"token":"` + accessToken + `","expires_at":"2099-01-01T00:00:00Z",` +
	`"AssumeRoleResponse":{"AssumeRoleResult":{"Credentials":{"AccessKeyId":"ASIAEXAMPLE","SecretAccessKey":"` + accessToken +
	`","SessionToken":"` + accessToken + `","Expiration":"2099-01-01T00:00:00Z"}}}}`

// exchanging holds configurations of the types that get a credential in exchange for another, beside oauth_client_credentials.
var exchanging = []host.Auth{
	authOf("oauth_jwt_bearer"),
	withClient("oauth_password", map[string]any{"username": "ann", "password": "{{ get_secret('key') }}"}),
	withClient("token_exchange", map[string]any{"subject_token": "{{ get_secret('key') }}"}),
	{Type: "login", Config: map[string]any{
		"login_url": tokenURL, "login_body": map[string]any{"password": "{{ get_secret('key') }}"}, "token_from": "json:/token",
		"key": "Authorization", "prefix": "Bearer",
	}},
	{Type: "github_app", Config: map[string]any{
		"client_id": "me", "installation_id": 1, "private_key": "{{ get_secret('RS256') }}", "api_url": "https://" + loginHost,
	}},
	{Type: "google_service_account", Config: map[string]any{
		"client_email": "me@project.test", "private_key": "{{ get_secret('RS256') }}", "token_url": tokenURL, "scope": "read",
	}},
	withClient("dpop", nil),
	authOfRole,
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
func exchangingRows() (all []row) {
	for _, a := range exchanging {
		work := "RoundTrip, " + a.Type + ", cached token"
		if a.Type == "dpop" || a.Type == authOfRole.Type {
			work = "RoundTrip, " + a.Type + " signing each request"
		}
		all = append(all, row{
			work: work, against: "the same of oauth_client_credentials", unit: nanoseconds, goal: 1.1,
			measure: func(s session) result {
				ours, theirs := &base{answer: fmt.Sprintf(answer, map[bool]string{true: "DPoP", false: "Bearer"}[a.Type == "dpop"])}, &base{}
				defer theirs.check(s, 1)
				defer ours.check(s, 1)
				return s.pair(cachedRoundTrip(s, ours, a), cachedRoundTrip(s, theirs, authOf("oauth_client_credentials")))
			},
		})
	}
	return all
}

func cachedRoundTrip(t testing.TB, b *base, a host.Auth) op {
	return roundTrip(connected(t, b, a).Transport(authorized{b}), request(t.Context()))
}

// authorized is a base that refuses requests without a credential.
type authorized struct{ *base }

func (b authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != loginHost && len(r.Header["Authorization"]) != 1 {
		return nil, errors.New("the request has no credential")
	}
	return b.base.RoundTrip(r)
}

// exchangeRows returns the row for 10,000 concurrent requests with the same expired token.
func exchangeRows() []row {
	return []row{{
		work: "10,000 requests at once on an expired token: exchanges ÷ 1", against: "1 exchange", unit: number, goal: 1,
		measure: func(s session) result { return s.bound(1, func() float64 { return exchanges(s) }) },
	}}
}

func exchanges(s session) float64 {
	var later atomic.Int64 // how far the clock is ahead
	clock := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	b := &base{}
	transport := connected(s, b, authOf("oauth_client_credentials"), func(config *host.Config) { config.Clock = clock }).Transport(b)
	testworld.Check(s, send(transport, request(s.Context())))
	b.check(s, 1)
	later.Store(int64(2 * time.Hour))
	b.answering = make(chan struct{}) // all requests come during the exchange
	var starts, wait sync.WaitGroup
	errs, start := make([]error, 10_000), make(chan struct{})
	starts.Add(len(errs))
	for i := range errs {
		wait.Go(func() {
			<-start
			starts.Done()
			errs[i] = send(transport, request(s.Context()))
		})
	}
	close(start)
	starts.Wait()
	close(b.answering)
	wait.Wait()
	testworld.Check(s, errors.Join(errs...))
	return float64(b.exchanges.Load() - 1)
}
