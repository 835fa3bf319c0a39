package host_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

type rt func(*http.Request) (*http.Response, error)

func (f rt) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	h, err := host.New(ctx, host.Config{
		Secrets: host.MapSecrets{"s": "hunter2hunter2"},
		Base: rt(func(r *http.Request) (*http.Response, error) {
			b := ""
			if r.Body != nil {
				x, _ := io.ReadAll(r.Body)
				b = string(x)
			}
			fmt.Println(r.Method, r.URL, r.Header, b)
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(`{"access_token":"tok","token_type":"Bearer","expires_in":3600}`))}, nil
		}),
		Observe: func(_ context.Context, c host.Call) { fmt.Printf("%+v\n", c) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(ctx)
	for _, a := range []host.Auth{
		{Type: "none"},
		{Type: "apikey", Config: map[string]any{"key": "X-K", "value": "{{ get_secret('s') }}", "in": "header"}},
		{Type: "api_key", Config: map[string]any{"key": "X-K", "value": "{{ get_secret('s') }}", "in": "query"}},
		{Type: "oauth_client_credentials", Config: map[string]any{"client_id": "me", "client_secret": "{{ get_secret('s') }}", "token_url": "https://login.test/token"}},
		{Type: "jwt", Config: map[string]any{"private_key": "{{ get_secret('s') }}", "algorithm": "HS256", "claims": map[string]any{"exp": "{{ now(60) }}", "n": 5}}},
		{Type: "oauth_jwt_bearer", Config: map[string]any{"client_id": "me", "private_key": "{{ get_secret('s') }}", "algorithm": "HS256", "token_url": "https://login.test/token", "subject": "u", "audience": "a"}},
	} {
		c, err := h.Connect(ctx, host.Connector{Name: "c-" + a.Type, Origins: []string{"https://api.test"}, Auth: a})
		if err != nil {
			t.Error(err)
			continue
		}
		for range 2 {
			r, _ := http.NewRequest("GET", "https://api.test/x?a=b", nil)
			if _, err := c.Transport(nil).RoundTrip(r); err != nil {
				t.Error(err)
			}
		}
		r, _ := http.NewRequest("GET", "https://api.test/x?a=b", nil)
		e, err := c.Explain(r)
		fmt.Printf("%+v %v\n", e, err)
	}
}
