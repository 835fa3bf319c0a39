// Package host runs connectors: it authenticates the requests that a platform sends to external APIs. Its auth types
// are WebAssembly plugins, which run in a sandbox.
//
// Make one [Host] with [New], and pass it the secrets and the plugins. [Host.NewConnector] checks a connector's
// configuration and returns the connector. [Connector.Transport] returns an [http.RoundTripper] that authenticates each
// request or fails. It never sends a request without its credential, or to an origin that the connector does not name.
//
//	h, err := host.New(ctx, host.Config{Secrets: host.EnvSecrets()})
//	crm, err := h.NewConnector(ctx, host.ConnectorConfig{
//		Name:    "crm",
//		Origins: []string{"https://api.example.com"},
//		Auth: []host.Auth{{Type: "api_key", Config: map[string]any{
//			"key": "X-API-Key", "value": "{{ get_secret('crm') }}", "in": "header",
//		}}},
//	})
//	client := &http.Client{Transport: crm.Transport(nil)}
//
// A request that is not sent fails with an [Error], which has the stage that the request reached. [Error.Retryable]
// reports whether another attempt may succeed; a wrapped [TokenError] has the time to wait. Host.NewConnector refuses an
// invalid connector with a [ConfigError], which lists all its problems.
//
// Auth types with grants, such as oauth_refresh_token, need Config.State: [NewState] makes it of a store of package
// [github.com/keywright/keywright/host/state]. For oauth_authorization_code, each user has to give consent. [Connector.BeginConsent]
// returns the URL to which the user's browser goes. [Host.Callback] takes the request with which the browser comes back. A request of a
// user who has not given consent fails with a [GrantError]. Neither type is among the five that a host has unless it is configured
// otherwise; see Config.Plugins and package [github.com/keywright/keywright/plugins].
//
// Config.Observe and Config.Tracer are for metrics and spans of requests. [WithTrace] shows one request in full, masked.
//
// All methods are safe for concurrent use.
package host
