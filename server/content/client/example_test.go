package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/content/client"
	"github.com/keywright/keywright/server/content/httpapi"
)

// key implements httpapi.Callers with one API key. Its caller may moderate.
type key string

func (k key) Caller(r *http.Request) (httpapi.Caller, error) {
	if r.Header.Get("X-API-Key") != string(k) {
		return httpapi.Caller{}, &httpapi.UnauthenticatedError{Challenges: []string{"ApiKey"}}
	}
	return httpapi.Caller{Name: "example", Moderate: true}, nil
}

// titles writes the titles of all articles.
func titles(ctx context.Context, config host.Config, origin string) error {
	h, err := host.New(ctx, config)
	if err != nil {
		return err
	}
	defer h.Close(ctx)
	connector, err := h.NewConnector(ctx, host.ConnectorConfig{
		Name:    "community",
		Origins: []string{origin},
		Auth: []host.Auth{{Type: "api_key", Config: map[string]any{
			"key": "X-API-Key", "value": "{{ get_secret('community') }}", "in": "header",
		}}},
	})
	if err != nil {
		return err
	}
	community, err := client.New(origin+"/community/v1", &http.Client{Transport: connector.Transport(nil)})
	if err != nil {
		return err
	}
	for article, err := range community.AllArticles(ctx) {
		if err != nil {
			return err
		}
		fmt.Println(article.Title)
	}
	return nil
}

// A connector authenticates the requests, and the client needs no credentials. This is the example of docs/content.md.
func ExampleClient_AllArticles() {
	api, err := httpapi.New(httpapi.Config{Store: sample(), Base: "/community/v1", Callers: key("a-key")})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(api)
	defer server.Close()
	config := host.Config{
		Secrets: host.MapSecrets{"community": "a-key"},
		Egress:  host.Egress{AllowHTTP: true, AllowPrivate: true},
	}
	if err := titles(context.Background(), config, server.URL); err != nil {
		fmt.Println(err)
	}

	// Output:
	// How do I export?
}
