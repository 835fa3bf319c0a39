package hostfn

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// memoryOfNodes is a shared memory of refusals with a number of them, and counts how often they are removed.
type memoryOfNodes struct {
	count, accepted int
}

func (m *memoryOfNodes) Refusal(context.Context, [32]byte) (tokencache.Refusal, int) {
	return tokencache.Refusal{}, m.count
}

func (m *memoryOfNodes) Refuse(context.Context, [32]byte, tokencache.Refusal, func(int) time.Duration) time.Duration {
	return 0
}

func (m *memoryOfNodes) Accept(context.Context, [32]byte) { m.accepted++ }

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
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// An answer with a token removes what the nodes remember of refusals, and costs no request to the store if they remember none.
func TestAcceptedAfterRefusalsElsewhere(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for count, want := range map[int]int{0: 0, 1: 1, 7: 1} {
		memory := &memoryOfNodes{count: count}
		plan := planWithCache(&now)
		plan.SharedRefusals = memory
		callTo(t, plan).exchange(posted(t, "https://login.test/token"), &answer.Reply{}, func() *TokenError { return nil })
		if memory.accepted != want {
			t.Errorf("after %d refusals: removed %d times, want %d", count, memory.accepted, want)
		}
	}
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
