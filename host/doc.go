// Package host runs connectors: it authenticates the requests that a platform sends to external APIs, with auth types
// that are WebAssembly plugins in a sandbox.
//
// A [Host] is made once, with the secrets and the plugins. [Host.Connect] checks a connector's configuration and loads
// it. [Connector.Transport] is an [http.RoundTripper] that authenticates each request, or fails: a request is never sent
// without its credential, and never to an origin that the connector does not name.
//
//	h, err := host.New(ctx, host.Config{Secrets: host.EnvSecrets()})
//	crm, err := h.Connect(ctx, host.Connector{
//		Name:    "crm",
//		Origins: []string{"https://api.example.com"},
//		Auth: host.Auth{Type: "api_key", Config: map[string]any{
//			"key": "X-API-Key", "value": "{{ get_secret('crm') }}", "in": "header",
//		}},
//	})
//	client := &http.Client{Transport: crm.Transport(nil)}
//
// Everything is safe for concurrent use.
package host
