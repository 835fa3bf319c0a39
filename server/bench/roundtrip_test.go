package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

const oauth2Name = "golang.org/x/oauth2 v0.37.0: Transport with a valid token"

// roundTripRows returns the rows for the cost of each request to an application: RoundTrip over a base that responds at once.
func roundTripRows() []row {
	var all []row
	for _, authType := range []string{"api_key", "oauth_client_credentials", "oauth_jwt_bearer"} {
		work := "RoundTrip, " + authType
		if authType != "api_key" {
			work += " with a cached token"
		}
		all = append(all, row{
			work: work, against: oauth2Name, unit: nanoseconds, goal: 0.7,
			measure: func(ctx context.Context, s session) (result, error) { return roundTrip(ctx, s, authType) },
		})
	}
	return append(all, longTokenRow())
}

// longTokenRow returns the row for what the search of the answer costs with a long credential.
func longTokenRow() row {
	return row{
		work: "RoundTrip with a search of the answer, a cached token of 8,000 bytes", against: "a token of 200 bytes", unit: nanoseconds, goal: 1.2,
		measure: func(ctx context.Context, s session) (result, error) {
			var sides [2]op
			for i, length := range []int{8000, 200} {
				b := &base{body: weather, answer: strings.Replace(bearerToken, accessToken, textOf(length), 1)}
				h, c, err := connected(ctx, b, authOf("oauth_client_credentials"))
				if err != nil {
					return result{}, err
				}
				defer h.Close(ctx)
				transport := c.GuardedTransport(authorized{b})
				sides[i].run = func() error { return fetch(ctx, transport, apiURL, io.Discard) }
			}
			return s.pair(ctx, sides[0], sides[1])
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

func roundTrip(ctx context.Context, s session, authType string) (result, error) {
	b := &base{}
	h, c, err := connected(ctx, b, authOf(authType))
	if err != nil {
		return result{}, err
	}
	defer h.Close(ctx)
	r := request(ctx)
	ours := op{run: roundTripOf(c.Transport(b), r)}
	peer := op{run: roundTripOf(&oauth2.Transport{Base: b, Source: validToken()}, r)}
	measured, err := s.pair(ctx, ours, peer)
	if want := authType != "api_key"; err == nil && want != (b.exchanges.Load() == 1) {
		err = fmt.Errorf("the token was to be cached, and was asked for %d times", b.exchanges.Load())
	}
	return measured, err
}

func roundTripOf(transport http.RoundTripper, r *http.Request) func() error {
	return func() error { return send(transport, r) }
}

// validToken returns the source of a token with an expiry, so that each request checks the time.
func validToken() oauth2.TokenSource {
	token := &oauth2.Token{AccessToken: accessToken, TokenType: "Bearer", Expiry: time.Now().Add(time.Hour)}
	return oauth2.ReuseTokenSource(token, noTokens{})
}

type noTokens struct{}

func (noTokens) Token() (*oauth2.Token, error) { return nil, errors.New("the token was to be valid") }
