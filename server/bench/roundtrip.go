package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	return all
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
