package host_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/keywright/keywright/host"
)

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
		Auth:    host.Auth{Type: "api_key", Config: map[string]any{"key": "key", "value": "{{ get_secret('crm') }}", "in": "query"}},
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
