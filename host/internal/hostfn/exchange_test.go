package hostfn

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// roundTrip is an HTTP transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// callTo returns a call that sends token requests to an endpoint that answers {}.
func callTo(t *testing.T, plan *Plan) *Call {
	t.Helper()
	plan.ExchangeTime, plan.Limits.TokenBytes = time.Minute, 100
	plan.HostOf = func(*url.URL) string { return "" }
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
		c.exchange(posted(t, "https://login.test/token"), &answer.Reply{}, func() *view.TokenError { return nil })
		if got := c.Endpoint; got != want {
			t.Errorf("%s: %q, want %q", reference, got, want)
		}
	}
}

// The refusal of what was signed for another time than the endpoint's does not hold for what is signed for the endpoint's.
func TestClockOffsetOfAQuestion(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	c := callTo(t, planWithCache(&now))
	question := func(offset *int64) [32]byte { c.offset = offset; return c.question(nil) }
	if unsigned := question(nil); question(new(int64)) != unsigned || question(new(int64(3600))) == unsigned {
		t.Error("what was signed for another time is the same question, or what was signed for the same time is another")
	}
}

// The text of a TokenError rounds the wait up to whole seconds, so that nobody tries again too early.
func TestTextOfATokenError(t *testing.T) {
	const asked = "the token endpoint answered 401 (invalid_client); it is asked again in "
	for after, want := range map[time.Duration]string{
		0:                       "the token endpoint answered 401 (invalid_client)",
		1:                       asked + "1s",
		time.Second - 1:         asked + "1s",
		time.Second:             asked + "1s",
		time.Second + 1:         asked + "2s",
		2*time.Minute - 1:       asked + "2m0s",
		1500 * time.Millisecond: asked + "2s",
	} {
		if got := (&view.TokenError{Status: 401, Code: "invalid_client", RetryAfter: after}).Error(); got != want {
			t.Errorf("%v: %q, want %q", after, got, want)
		}
	}
}

// An explanation has each endpoint that was discovered once, and each member of each issuer.
func TestDiscoveriesOfAnExplanation(t *testing.T) {
	c := New(context.Background(), &Plan{Random: rand.Reader}, &Inputs{}, Explaining)
	c.explainSigned("mac HS256", "data")
	want := []string{"a.test token", "a.test jwks", "b.test token"}
	for range 2 {
		c.explainDiscovery(template.Discovery{Issuer: "a.test", Member: "token"}, "1")
		c.explainDiscovery(template.Discovery{Issuer: "a.test", Member: "jwks"}, "2")
		c.explainDiscovery(template.Discovery{Issuer: "b.test", Member: "token"}, "3")
	}
	var got []string
	for _, step := range c.Steps[1:] {
		got = append(got, step.Discovery.Issuer+" "+step.Discovery.Endpoint)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The span of an exchange names the field of kind url that the URL is from, not another field of the configuration.
func TestFieldOfAnExchange(t *testing.T) {
	c := New(context.Background(), &Plan{Random: rand.Reader, Fields: map[string]*Field{
		"name": fieldOfKind(t, "name", abi.KindString, "x"), "text": fieldOfKind(t, "text", abi.KindString, "https://b.test"),
		"first": fieldOfKind(t, "first", abi.KindURL, "https://a.test"), "url": fieldOfKind(t, "url", abi.KindURL, "https://b.test"),
	}, CheckURL: func(string) error { return nil }}, &Inputs{}, Inline)
	for _, name := range []string{"name", "text", "first", "url"} {
		c.ConfigGet(name)
	}
	for url, want := range map[string]string{"https://a.test": "first", "https://b.test": "url"} {
		if c.target(&wire{Exchange: contract.Exchange{URL: url}}); c.urlField != want {
			t.Errorf("%s is from the field %q", url, c.urlField)
		}
	}
}
