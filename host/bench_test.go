package host_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
)

// BenchmarkRoundTrip measures requests over a base that answers at once, with and without the reuse of mutations.
func BenchmarkRoundTrip(b *testing.B) {
	for _, auth := range []host.Auth{
		{Type: "none"},
		{Type: "api_key", Config: config{"key": "Authorization", "value": "Bearer {{ get_secret('s') }}", "in": "header"}},
		{Type: "oauth_client_credentials", Config: oauth("{{ get_secret('s') }}")},
		{Type: "oauth_jwt_bearer", Config: with(bearer("{{ get_secret('s') }}"), "subject", "{{ user.email }}")},
		{Type: "jwt", Config: config{"private_key": "{{ get_secret('s') }}", "algorithm": "HS256", "claims": config{"sub": "{{ user.email }}", "exp": "{{ now(300) }}"}}},
	} {
		b.Run(auth.Type+"/reuse", func(b *testing.B) { benchmarkRoundTrip(b, auth, false) })
		b.Run(auth.Type+"/run", func(b *testing.B) { benchmarkRoundTrip(b, auth, true) })
	}
}

// BenchmarkList measures requests with a token and a key, one after the other. It reports their time by that of a request with the token
// and one with the key: a list may cost at most 1.1 of the sum.
func BenchmarkList(b *testing.B) {
	token := host.Auth{Type: "oauth_client_credentials", Config: oauth("{{ get_secret('s') }}")}
	key := host.Auth{Type: "api_key", Config: config{"key": "X-Key", "value": "{{ get_secret('s') }}", "in": "header"}}
	signed := host.Auth{Type: "jwt", Config: config{"private_key": "{{ get_secret('s') }}", "algorithm": "HS256", "claims": config{"sub": "{{ user.email }}", "exp": "{{ now(300) }}"}}}
	for name, list := range map[string][]host.Auth{"token+key": {token, key}, "key+jwt": {key, signed}} {
		b.Run(name, func(b *testing.B) {
			requests := []func(){roundTrip(b, false, list...), roundTrip(b, false, list[0]), roundTrip(b, false, list[1])}
			took := make([]time.Duration, len(requests))
			for b.Loop() {
				for i, request := range requests {
					began := time.Now()
					request()
					took[i] += time.Since(began)
				}
			}
			b.ReportMetric(float64(took[0])/float64(took[1]+took[2]), "of-the-sum")
		})
	}
}

func benchmarkRoundTrip(b *testing.B, auth host.Auth, noReuse bool) {
	request := roundTrip(b, noReuse, auth)
	b.ReportAllocs()
	for b.Loop() {
		request()
	}
}

// roundTrip returns a function that makes a request.
func roundTrip(b *testing.B, noReuse bool, auths ...host.Auth) func() {
	noContent := &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}
	h := must(host.New(b.Context(), host.Config{
		Secrets: host.MapSecrets{"s": "a-secret-of-a-benchmark-0123456789"}, NoReuse: noReuse,
		Base: answer(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "login.test" {
				return token("a-token", 3600)(r)
			}
			return noContent, nil
		}),
	}))(b)
	b.Cleanup(func() { _ = h.Close(context.WithoutCancel(b.Context())) })
	c := must(h.NewConnector(b.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{apiOrigin}, Auth: auths}))(b)
	transport := c.Transport(nil)
	r := get(ann(b.Context()))
	r.Header = http.Header{"Accept": {"application/json"}, "User-Agent": {"bench"}, "X-Request-Id": {"1"}}
	return func() { _ = must(transport.RoundTrip(r))(b).Body.Close() }
}

// BenchmarkGuarded measures requests with a cached token whose answers are searched for it. A token of 8 kB may cost at most 1.2 times
// what one of 200 bytes does.
func BenchmarkGuarded(b *testing.B) {
	for _, length := range []int{200, 2400, 8000} {
		b.Run(strconv.Itoa(length), func(b *testing.B) {
			text := make([]byte, length*3/4)
			_, _ = rand.Read(text)
			issued := base64.RawURLEncoding.EncodeToString(text)
			header := http.Header{"Content-Type": {"application/json"}, "Date": {"Fri, 27 Nov 2026 01:00:00 GMT"}}
			h := must(host.New(b.Context(), host.Config{
				Secrets: host.MapSecrets{"s": "a-secret-of-a-benchmark-0123456789"},
				Base: answer(func(r *http.Request) (*http.Response, error) {
					if r.URL.Host == "login.test" {
						return token(issued, 3600)(r)
					}
					return &http.Response{StatusCode: http.StatusNoContent, Status: "204 No Content", Header: header, Body: http.NoBody, Request: r}, nil
				}),
			}))(b)
			defer h.Close(b.Context())
			c := must(h.NewConnector(b.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{apiOrigin}, Auth: []host.Auth{{Type: "oauth_client_credentials", Config: oauth("{{ get_secret('s') }}")}}}))(b)
			transport := c.GuardedTransport(nil)
			b.ReportAllocs()
			for b.Loop() {
				_ = must(transport.RoundTrip(get(b.Context())))(b).Body.Close()
			}
		})
	}
}
