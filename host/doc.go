// Package host runs connectors: it authenticates the requests that a platform sends to external APIs, with auth types
// that are WebAssembly plugins in a sandbox.
//
// A [Host] is made once, with the secrets and the plugins. [Host.Connect] checks a connector's configuration and loads
// it. [Connector.Transport] is an [http.RoundTripper] that authenticates each request, or fails: a request is never sent
// without its credential, and never to an origin that the connector does not name.
//
//	h, err := host.New(ctx, host.Config{Secrets: host.EnvSecrets()})
//	crm, err := h.Connect(ctx, host.ConnectorConfig{
//		Name:    "crm",
//		Origins: []string{"https://api.example.com"},
//		Auth: host.Auth{Type: "api_key", Config: map[string]any{
//			"key": "X-API-Key", "value": "{{ get_secret('crm') }}", "in": "header",
//		}},
//	})
//	client := &http.Client{Transport: crm.Transport(nil)}
//
// A request that is not sent ends with an [Error], which says how far it came. [Error.Retryable] reports whether another try
// may help, and a [TokenError] in it says when. A connector that is wrong is refused with a [ConfigError], which lists all that
// is wrong with it.
//
// Everything is safe for concurrent use.
package host
