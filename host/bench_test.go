package host_test

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strconv"
	"testing"

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

func benchmarkRoundTrip(b *testing.B, auth host.Auth, noReuse bool) {
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
	defer h.Close(b.Context())
	c := must(h.NewConnector(b.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{apiOrigin}, Auth: auth}))(b)
	transport := c.Transport(nil)
	r := get(ann(b.Context()))
	r.Header = http.Header{"Accept": {"application/json"}, "User-Agent": {"bench"}, "X-Request-Id": {"1"}}
	b.ReportAllocs()
	for b.Loop() {
		_ = must(transport.RoundTrip(r))(b).Body.Close()
	}
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
			c := must(h.NewConnector(b.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{apiOrigin}, Auth: host.Auth{Type: "oauth_client_credentials", Config: oauth("{{ get_secret('s') }}")}}))(b)
			transport := c.GuardedTransport(nil)
			b.ReportAllocs()
			for b.Loop() {
				_ = must(transport.RoundTrip(get(b.Context())))(b).Body.Close()
			}
		})
	}
}
