package host_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/contract"
)

// A base transport may answer without a body, although it should not. Such an answer is discarded, passed on or kept like others.
func TestAnswersWithoutABody(t *testing.T) {
	for name, do := range map[string]func(contract.ChallengeReply) string{
		"answered":  func(c contract.ChallengeReply) string { return header("X-Nonce", fmt.Sprint(c.Status)) },
		"passed on": func(c contract.ChallengeReply) string { return marshal(contract.Mutation{Pass: c.Status != 0}) },
	} {
		for _, location := range []string{"", "/there"} {
			w, connector := challengeWorld(t, func(env contract.Env) (string, error) { return do(challengeOf(env)), nil })
			w.api.Answer(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Location": {location}}}, nil
			})
			if status, err := w.try(connector, get(t.Context())); status != http.StatusUnauthorized || err != nil {
				t.Errorf("%s: status = %d, err = %v", name, status, err)
			}
		}
	}
}

// A request that is refused for its token returns its connection before the token endpoint is asked, which may need that one.
func TestRefusalReleasesConnection(t *testing.T) {
	w := newWorld(t)
	connector := w.connect("oauth_client_credentials", config{"token_url": tokenURL, "client_id": "c", "client_secret": "{{ get_secret('s') }}"})
	w.canary("s")
	var order []string
	w.login.Answer(func(r *http.Request) (*http.Response, error) {
		order = append(order, "token")
		return token(fmt.Sprint("token-", len(order)), 3600)(r)
	})
	w.get(connector)
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.Header.Get("Authorization"), "token-1") {
			response, err := status(http.StatusUnauthorized)(r)
			response.Body = &closing{response.Body, func() { order = append(order, "closed") }}
			return response, err
		}
		return status(http.StatusOK)(r)
	})
	w.get(connector)
	equal(t, []string{"token", "closed", "token"}, order)
}

// closing is a body that reports its Close.
type closing struct {
	io.ReadCloser
	closed func()
}

func (c *closing) Close() error {
	c.closed()
	return c.ReadCloser.Close()
}
