// Package gateway serves connectors over HTTP. It makes the API's request from the caller's, authenticates and sends it, and
// shapes the answer. The caller, a browser or a service, never has the credential. The command keywright serve runs this
// package with a configuration file. docs/gateway.md describes it for callers and operators.
//
// A [Definition] describes a connector's requests and answers. [NewConnector] checks it and connects it with a [host.Host], which
// has the secrets. [New] makes a [Gateway], and [Gateway.Use] sets the connectors that it serves.
//
//	h, err := host.New(ctx, host.Config{Secrets: host.EnvSecrets(), Observe: gateway.Observe})
//	weather, err := gateway.NewConnector(ctx, h, gateway.Definition{
//		Name:      "Weather",
//		Permalink: "weather",
//		URL:       "https://api.example.com/v1",
//		Auth: []host.Auth{{Type: "api_key", Config: map[string]any{
//			"key": "X-API-Key", "value": "{{ get_secret('weather') }}", "in": "header",
//		}}},
//		Paths:  []string{"/forecast/*"},
//		Limits: gateway.Limits{PerUser: 5},
//	})
//	g := gateway.New(gateway.Config{})
//	g.Use(gateway.Setup{Connectors: []*gateway.Connector{weather}, Hosts: []string{"gateway.example.com"}})
//	err = http.ListenAndServe("localhost:8080", g.Handler())
//
// A caller then requests /connectors/weather/forecast/oslo. Of a caller's request, only this reaches the API: a method and a
// path that the definition allows, the overridable parameters, the headers Accept and Content-Type, and the body. Package
// connectors reads definitions from files, in YAML or JSON, with their plugins and stores of secrets.
//
// # Users
//
// Users of the [Setup] identifies the user of a request. Package identity implements it for session tokens (JWT) and for
// headers of a proxy. If Users is nil, everybody who reaches the handler may use the connectors. Bind it then to an address
// that only your own programs reach.
//
// # Reload
//
// Use may be called again at any time, with other connectors. Requests in flight finish with the connectors that they began with, and the
// counts of limits stay. A host may be closed once the requests of its connectors have ended. The function that Use returns waits for that.
//
// # Errors
//
// Callers get problem documents (RFC 9457). They contain no cause, since a cause could contain a secret. They contain a
// request_id; the log has the cause under the same id. [Config].Observe is called for each request, for metrics.
package gateway
