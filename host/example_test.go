package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
)

// offline replaces the network: it answers 200, and prints the request that it would send.
var offline = answer(func(r *http.Request) (*http.Response, error) {
	fmt.Println(r.Method, r.URL, "with X-API-Key", r.Header.Get("X-Api-Key"))
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
})

// A connector's transport authenticates each request of an http.Client.
func Example() {
	ctx := context.Background()
	h, err := host.New(ctx, host.Config{
		Secrets: host.MapSecrets{"crm": "a-key"}, // host.EnvSecrets() reads them from the environment
		Base:    offline,                         // leave Base out to send over the network
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close(ctx)
	crm, err := h.NewConnector(ctx, host.ConnectorConfig{
		Name:    "crm",
		Origins: []string{"https://api.example.com"},
		Auth: []host.Auth{{Type: "api_key", Config: map[string]any{
			"key": "X-API-Key", "value": "{{ get_secret('crm') }}", "in": "header",
		}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: crm.Transport(nil)}
	response, err := client.Get("https://api.example.com/v1/contacts")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()

	if response, err = client.Get("https://elsewhere.example.com/"); err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()

	// Output:
	// GET https://api.example.com/v1/contacts with X-API-Key a-key
	// Get "https://elsewhere.example.com/": connector "crm" (api_key): origin: https://elsewhere.example.com:443 is not an origin of this connector, so it gets no credential
}

// Templates can name fields of the user in the request's context.
func ExampleWithUser() {
	ctx := context.Background()
	h, err := host.New(ctx, host.Config{Base: offline})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close(ctx)
	crm, err := h.NewConnector(ctx, host.ConnectorConfig{
		Name:    "crm",
		Origins: []string{"https://api.example.com"},
		Auth: []host.Auth{{Type: "api_key", Config: map[string]any{
			"key": "X-API-Key", "value": "{{ user.id }}@{{ tenant_id }}", "in": "header",
		}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: crm.Transport(nil)}
	for _, user := range []host.User{{ID: "ann", TenantID: "acme"}, {ID: "bob", TenantID: "acme"}} {
		r, err := http.NewRequestWithContext(host.WithUser(ctx, user), http.MethodGet, "https://api.example.com/me", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		response, err := client.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = response.Body.Close()
	}
	// Output:
	// GET https://api.example.com/me with X-API-Key ann@acme
	// GET https://api.example.com/me with X-API-Key bob@acme
}

// Authenticate returns a clone with the credential, to send with any client.
func ExampleConnector_Authenticate() {
	ctx := context.Background()
	h, err := host.New(ctx, host.Config{Secrets: host.MapSecrets{"maps": "a-key"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close(ctx)
	maps, err := h.NewConnector(ctx, host.ConnectorConfig{
		Name:    "maps",
		Origins: []string{"https://maps.example.com"},
		Auth: []host.Auth{{Type: "api_key", Config: map[string]any{
			"key": "key", "value": "{{ get_secret('maps') }}", "in": "query",
		}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://maps.example.com/tile?x=1", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	authenticated, err := maps.Authenticate(r)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(authenticated.URL)
	fmt.Println(r.URL)
	// Output:
	// https://maps.example.com/tile?x=1&key=a-key
	// https://maps.example.com/tile?x=1
}

// A ConfigError lists all problems of a connector.
func ExampleConfigError() {
	ctx := context.Background()
	h, err := host.New(ctx, host.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close(ctx)
	_, err = h.NewConnector(ctx, host.ConnectorConfig{
		Name:    "crm",
		Origins: []string{"https://api.example.com"},
		Auth: []host.Auth{{Type: "oauth_client_credentials", Config: map[string]any{
			"client_id": "{{ get_secert('id') }}", "client_secret": "{{ get_secret('crm') }}",
			"token_url": "http://login.example.com/token", "scopes": "read",
		}}},
	})
	if wrong, ok := errors.AsType[*host.ConfigError](err); ok {
		for _, problem := range wrong.Problems {
			fmt.Printf("%s: %s\n", problem.Path, problem.Message)
		}
	}
	// Output:
	// auth.config.client_id: unknown function "get_secert": there are get_secret, get_key, get_variable, identity, discover, now, uuid, default, base64_encode, base64_decode, json_encode, json_get
	// auth.config.token_url: is plain http, which would send the credential in the open: use https
	// auth.config.scopes: is not a field of auth type oauth_client_credentials; did you mean "scope"?
}

// A client retries only errors that may pass, and waits as long as the token endpoint asks.
func ExampleError_Retryable() {
	ctx, now := context.Background(), time.Now()
	sleep := func(d time.Duration) { now = now.Add(d) } // replaces time.Sleep
	h, err := host.New(ctx, host.Config{
		Secrets: host.MapSecrets{"crm": "a-secret"},
		Base:    busyAtFirst(),                   // leave Base out to send over the network
		Clock:   func() time.Time { return now }, // leave Clock out to use time.Now
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close(ctx)
	crm, err := h.NewConnector(ctx, host.ConnectorConfig{
		Name:    "crm",
		Origins: []string{"https://api.example.com"},
		Auth: []host.Auth{{Type: "oauth_client_credentials", Config: map[string]any{
			"client_id": "app", "client_secret": "{{ get_secret('crm') }}", "token_url": "https://login.example.com/token",
		}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: crm.Transport(nil)}
	for range 5 {
		response, err := client.Get("https://api.example.com/v1/contacts")
		if err == nil {
			_ = response.Body.Close()
			fmt.Println("answered", response.StatusCode)
			return
		}
		fmt.Println(err)
		if failed, ok := errors.AsType[*host.Error](err); !ok || !failed.Retryable() {
			return // an error of the API's network, or one that a retry does not fix
		}
		wait := time.Second
		if refused := (*host.TokenError)(nil); errors.As(err, &refused) {
			wait = max(wait, refused.RetryAfter)
		}
		sleep(wait)
	}
	// Output:
	// Get "https://api.example.com/v1/contacts": connector "crm" (oauth_client_credentials): token: the token endpoint answered 503; it is asked again in 1s
	// answered 200
}

// busyAtFirst replaces the network: the token endpoint refuses the first request and issues a token to the second.
func busyAtFirst() http.RoundTripper {
	asked := 0
	return answer(func(r *http.Request) (*http.Response, error) {
		answer := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}}
		if r.URL.Host != "login.example.com" {
			return answer, nil
		}
		if asked++; asked == 1 {
			answer.StatusCode = http.StatusServiceUnavailable
			answer.Header.Set("Retry-After", "1")
			return answer, nil
		}
		answer.Body = io.NopCloser(strings.NewReader(`{"access_token":"a-token","token_type":"Bearer","expires_in":300}`))
		return answer, nil
	})
}

// printing is a Tracer that prints each span at its end.
type printing struct{}

func (printing) Start(ctx context.Context, s host.Span) (context.Context, func(host.SpanEnd)) {
	return ctx, func(e host.SpanEnd) {
		fmt.Println(s.Name)
		for _, a := range append(s.Attributes(), e.Attributes()...) {
			if a.Key != "keywright.fuel" { // which is another after each change of a plugin
				fmt.Println(" ", a)
			}
		}
	}
}

// A Tracer sees what becomes of a request, and nothing of its credential: neither the path nor the query, which has an API key here.
func ExampleTracer() {
	ctx := context.Background()
	teapot := answer(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, nil
	})
	h, err := host.New(ctx, host.Config{Secrets: host.MapSecrets{"crm": "a-key"}, Base: teapot, Tracer: printing{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close(ctx)
	crm, err := h.NewConnector(ctx, host.ConnectorConfig{
		Name:    "crm",
		Origins: []string{"https://api.example.com"},
		Auth:    []host.Auth{{Type: "api_key", Config: map[string]any{"key": "key", "value": "{{ get_secret('crm') }}", "in": "query"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	response, err := (&http.Client{Transport: crm.Transport(nil)}).Get("https://api.example.com/v1/contacts")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()

	// Output:
	// authenticate
	//   keywright.connector=crm
	//   keywright.type=api_key
	//   keywright.reused=false
	//   keywright.cached=false
	//   keywright.token_exchanges=0
	//   keywright.runs=1
	// send
	//   keywright.connector=crm
	//   keywright.type=api_key
	//   http.request.method=GET
	//   url.scheme=https
	//   server.address=api.example.com
	//   server.port=443
	//   error.type=418
	//   http.response.status_code=418
	// request
	//   keywright.connector=crm
	//   keywright.type=api_key
	//   http.response.status_code=418
}
