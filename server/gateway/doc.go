// Package gateway runs connectors over HTTP: a caller's request becomes the connector's, is authenticated on the server, is
// sent, and its answer shaped. The caller, a browser or a service, never has the credential. The command keywright serve is
// this package with a file, and docs/gateway.md says what callers and operators meet.
//
// A [Definition] says what a connector's requests and answers are like. [Connect] checks it, and connects it with a
// [host.Host], which has the secrets. [New] makes a [Gateway], and [Gateway.Use] puts connectors in use.
//
//	h, err := host.New(ctx, host.Config{Secrets: host.EnvSecrets(), Observe: gateway.Observe})
//	weather, err := gateway.Connect(ctx, h, gateway.Definition{
//		Name:      "Weather",
//		Permalink: "weather",
//		URL:       "https://api.example.com/v1",
//		Auth: host.Auth{Type: "api_key", Config: map[string]any{
//			"key": "X-API-Key", "value": "{{ get_secret('weather') }}", "in": "header",
//		}},
//		Paths:  []string{"/forecast/*"},
//		Limits: gateway.Limits{PerUser: 5},
//	})
//	g := gateway.New(gateway.Config{})
//	g.Use(gateway.Setup{Connectors: []*gateway.Connector{weather}, Hosts: []string{"gateway.example.com"}})
//	err = http.ListenAndServe("localhost:8080", g.Handler())
//
// A caller then asks for /connectors/weather/forecast/oslo. Nothing of a request passes but what the definition names: its
// methods, its paths, the parameters that are overridable, and the body. Package connectors reads definitions from files, in
// YAML or JSON, with their plugins and stores of secrets.
//
// # Who is calling
//
// Users of the [Setup] says who the user of a request is. Package identity has one for session tokens (JWT) and one for
// headers of a proxy. Without users, whoever reaches the handler may use the connectors: bind it to an address that only your
// own programs reach.
//
// # Change while running
//
// Use may be called again at any time, with other connectors. Requests in flight finish on what they began with, and what
// limits have counted goes on. A host may be closed once the requests of its connectors have ended: what Use returns waits
// for that.
//
// # Errors
//
// Callers get problem documents (RFC 9457), which say nothing that could hold a secret: not the cause, but a request_id, with
// which the log has the cause. [Config].Observe is called with each request, for metrics.
package gateway
