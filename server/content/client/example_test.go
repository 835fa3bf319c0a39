package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/content"
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

// A connector authenticates the requests. The client needs no credentials.
func Example() {
	ctx := context.Background()
	api, err := httpapi.New(httpapi.Config{Store: sample(), Base: "/community/v1", Callers: key("a-key")})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(api)
	defer server.Close()

	h, err := host.New(ctx, host.Config{
		Secrets: host.MapSecrets{"community": "a-key"},
		Egress:  host.Egress{AllowHTTP: true, AllowPrivate: true}, // for the server of this example
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close(ctx)
	connector, err := h.NewConnector(ctx, host.ConnectorConfig{
		Name:    "community",
		Origins: []string{server.URL},
		Auth: host.Auth{Type: "api_key", Config: map[string]any{
			"key": "X-API-Key", "value": "{{ get_secret('community') }}", "in": "header",
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	community, err := client.New(server.URL+"/community/v1", &http.Client{Transport: connector.Transport(nil)})
	if err != nil {
		fmt.Println(err)
		return
	}
	update, err := community.ProductUpdate(ctx, "u1", client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(update.Title)
	for article, err := range community.AllArticles(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(article.Title)
	}
	_, err = community.Reply(ctx, "a1", "spam", "")
	fmt.Println(err, errors.Is(err, content.ErrNotFound))
	reply, err := community.Reply(ctx, "a1", "spam", "m1")
	fmt.Println(reply.Content, err)

	// Output:
	// Search is faster
	// How do I export?
	// content client: the answer is 404 Not Found: "there is nothing at this path" true
	// Buy now <nil>
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
		Auth: host.Auth{Type: "api_key", Config: map[string]any{
			"key": "X-API-Key", "value": "{{ get_secret('community') }}", "in": "header",
		}},
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

// This is the example of docs/content.md.
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
