package hosttest

import (
	"context"
	"net/url"

	"github.com/keywright/keywright/host"
)

// redirectURI is the URL to which browsers come back.
const redirectURI = "https://gateway.test/connect/test/callback"

// Consent has the user of [Harness.As] give consent to a connector with the configuration. server stands for the authorization
// server: it gets the URL to which the browser goes, and returns the query with which the browser comes back. Consent adds
// state, unless server has set it. The error is that of the host, if the connector has problems or the consent does not count. The token endpoint is that of
// [Harness.TokenEndpoint].
func (h *Harness) Consent(config Config, server func(request *url.URL) url.Values) error {
	h.tb.Helper()
	connector, err := h.connect(config, GET("https://api.test"))
	if err != nil {
		return err
	}
	h.evidence.begin()
	defer h.evidence.end()
	const binding = "the cookie of the browser"
	ctx := h.context(context.Background())
	target, err := connector.BeginConsent(ctx, host.ConsentRequest{RedirectURI: redirectURI, Binding: binding})
	if err != nil {
		h.evidence.failure("the error of Consent", err)
		return err
	}
	h.evidence.text("the URL to which the browser goes", target)
	request, err := url.Parse(target)
	if err != nil {
		h.tb.Fatalf("hosttest: the host sends browsers to what is no URL: %v", err)
	}
	answer := server(request)
	if !answer.Has("state") {
		answer.Set("state", request.Query().Get("state"))
	}
	if code := answer.Get("code"); code != "" {
		h.evidence.secret("the code", code)
	}
	_, err = h.live().Callback(ctx, host.AuthorizationResponse{RedirectURI: redirectURI, Response: answer, Binding: binding},
		func(string) *host.Connector { return connector })
	h.evidence.failure("the error of Callback", err)
	return err
}

// Connection returns the condition of the connection of the user of [Harness.As].
func (h *Harness) Connection(config Config) host.Connection {
	h.tb.Helper()
	connector, err := h.connect(config, GET("https://api.test"))
	if err != nil {
		h.tb.Fatalf("%v", err)
	}
	connection, err := connector.Connection(h.context(context.Background()))
	if err != nil {
		h.tb.Fatalf("%v", err)
	}
	return connection
}

// Disconnect takes the grant of the user of [Harness.As] back, and returns the host's error.
func (h *Harness) Disconnect(config Config) error {
	h.tb.Helper()
	connector, err := h.connect(config, GET("https://api.test"))
	if err != nil {
		return err
	}
	h.evidence.begin()
	defer h.evidence.end()
	err = connector.Disconnect(h.context(context.Background()))
	h.evidence.failure("the error of Disconnect", err)
	return err
}
