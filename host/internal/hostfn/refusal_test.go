package hostfn

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/internal/testworld"
)

// roundTrip is an HTTP transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// callTo returns a call that sends token requests to an endpoint that answers {}.
func callTo(t *testing.T, plan *Plan) *Call {
	t.Helper()
	plan.ExchangeTime, plan.Limits.TokenBytes = time.Minute, 100
	plan.Client = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
	})}
	return New(context.Background(), plan, &Inputs{}, Detached)
}

func posted(t *testing.T, address string) *http.Request {
	t.Helper()
	return testworld.Must(http.NewRequestWithContext(context.Background(), http.MethodPost, address, http.NoBody))(t)
}

// The endpoint of a call is the origin that the configuration names. It is not shown if a secret is a part of it, not even its
// scheme.
func TestEndpointOfACall(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for reference, want := range map[string]string{"https://login.test/token": "https://login.test", "https://kw_secret.test/token": ""} {
		c := callTo(t, planWithCache(&now))
		c.urlReference = reference
		c.exchange(posted(t, "https://login.test/token"), &answer.Reply{}, func() *TokenError { return nil })
		if got := c.Endpoint; got != want {
			t.Errorf("%s: %q, want %q", reference, got, want)
		}
	}
}
