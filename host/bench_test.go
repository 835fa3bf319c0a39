package host_test

import (
	"net/http"
	"testing"

	"github.com/keywright/keywright/host"
)

// answering is a base that answers at once.
var answering = roundTripper(func(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
})

func BenchmarkRoundTrip(b *testing.B) {
	for name, auth := range map[string]host.Auth{
		"none":                     {Type: "none"},
		"api_key":                  {Type: "api_key", Config: config{"key": "Authorization", "value": "Bearer {{ get_secret('s') }}", "in": "header"}},
		"oauth_client_credentials": {Type: "oauth_client_credentials", Config: oauth("{{ get_secret('s') }}")},
	} {
		b.Run(name, func(b *testing.B) {
			h, err := host.New(b.Context(), host.Config{Secrets: host.MapSecrets{"s": "a-secret-of-a-benchmark"}, Base: roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.URL.Host == "login.test" {
					return token("t1", 3600)(r)
				}
				return answering(r)
			})})
			if err != nil {
				b.Fatal(err)
			}
			defer h.Close(b.Context())
			c, err := h.Connect(b.Context(), host.Connector{Name: "crm", Origins: []string{apiOrigin}, Auth: auth})
			if err != nil {
				b.Fatal(err)
			}
			transport := c.Transport(nil)
			r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, apiURL, nil)
			if err != nil {
				b.Fatal(err)
			}
			r.Header = http.Header{"Accept": {"application/json"}, "User-Agent": {"bench"}, "X-Request-Id": {"1"}}
			b.ReportAllocs()
			for b.Loop() {
				response, err := transport.RoundTrip(r)
				if err != nil {
					b.Fatal(err)
				}
				_ = response.Body.Close()
			}
		})
	}
}
