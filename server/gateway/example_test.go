package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// This gateway has one connector. The caller has no key, and the API receives one.
func Example() {
	ctx := context.Background()
	h, err := host.New(ctx, host.Config{
		Secrets: host.MapSecrets{"weather": "a-key-of-the-api"}, // host.EnvSecrets() reads secrets from the environment
		Observe: gateway.Observe,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close(ctx)
	weather, err := gateway.NewConnector(ctx, h, gateway.Definition{
		Name:      "Weather",
		Permalink: "weather",
		URL:       "https://api.example.com/v1",
		Auth: []host.Auth{{Type: "api_key", Config: map[string]any{
			"key": "X-API-Key", "value": "{{ get_secret('weather') }}", "in": "header",
		}}},
		Paths:    []string{"/forecast/*"},
		Query:    []gateway.Parameter{{Name: "units", Value: "metric", Overridable: true}},
		Response: gateway.Response{Body: "{degrees: response.body.temperature}"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	g := gateway.New(gateway.Config{
		Base: testworld.Answer(api), // leave it out to send over the network
	})
	g.Use(gateway.Setup{Connectors: []*gateway.Connector{weather}})
	server := httptest.NewServer(g.Handler()) // in place of http.ListenAndServe
	defer server.Close()

	for _, path := range []string{"/connectors/weather/forecast/oslo?units=imperial&key=mine", "/connectors/weather/users"} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("the caller gets", response.StatusCode, response.Header.Get("Content-Type"))
		if response.StatusCode == http.StatusOK {
			fmt.Println(string(body))
		}
	}
	// Output:
	// the API gets GET https://api.example.com/v1/forecast/oslo?units=imperial with X-API-Key a-key-of-the-api
	// the caller gets 200 application/json
	// {"degrees":51}
	// the caller gets 404 application/problem+json
}

// api is the API. It replaces the network.
func api(r *http.Request) (*http.Response, error) {
	fmt.Println("the API gets", r.Method, r.URL, "with X-API-Key", r.Header.Get("X-Api-Key"))
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"station":7,"temperature":51}`)), Request: r,
	}, nil
}

// NewConnector reports all problems of a definition at once.
func ExampleNewConnector() {
	ctx := context.Background()
	h, err := host.New(ctx, host.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close(ctx)
	_, err = gateway.NewConnector(ctx, h, gateway.Definition{
		Permalink: "weather",
		URL:       "http://api.example.com/v1",
		Auth:      []host.Auth{{Type: "apikye"}},
		Paths:     []string{"forecast"},
	})
	var wrong *host.ConfigError
	if errors.As(err, &wrong) {
		for _, problem := range wrong.Problems {
			fmt.Printf("%s: %s\n", problem.Path, problem.Message)
		}
	}
	// Output:
	// url: is plain http, which sends everything in the open: use https, or name the host in PlainHTTP of the Egress
	// auth.type: there is no auth type "apikye"; did you mean "apikey"?
	// paths[0]: does not begin with a slash, as in /users/* or /**
}
