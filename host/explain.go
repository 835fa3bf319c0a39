package host

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/request"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
)

// Explanation describes the request that would be sent, for people to read. Credentials are masked: a token is shown as
// <token>, a JWT as its header and claims, a secret as its template.
type Explanation struct {
	// Connector is the name of the connector, and Type is its auth type.
	Connector string `json:"connector"`
	AuthType  string `json:"type"`
	// Method and URL are those of the request. URL includes the query that would be appended, masked.
	Method string `json:"method"`
	URL    string `json:"url"`
	// Headers are the headers of the request and those that would be set, which are masked. They are sorted by name.
	Headers []abi.Pair `json:"headers"`
	// Added is the mutation that the plugin would make, masked.
	Added Mutation `json:"-"`
	// Steps are the endpoints that were discovered on the way, the texts that were signed or hashed, and the requests that would
	// be sent to token endpoints, in order.
	Steps []view.Step `json:"steps,omitempty"`
	// TLS is the connector's part in TLS connections, or nil.
	TLS *ExplainedTLS `json:"tls,omitempty"`
	// Fuel is the work of the guest, in the units of [Limits].Fuel.
	Fuel int64 `json:"fuel"`
}

// ExplainedTLS describes the TLS of a connector.
type ExplainedTLS struct {
	// For lists what it is for.
	For []string `json:"for"`
	// ClientCertificate is nil if there is none.
	*ClientCertificate
	// CA reports whether the connector has authorities of its own.
	CA bool `json:"ca"`
}

// Mutation is the change of a request by a plugin.
type Mutation struct {
	// Headers replace the headers of the request with the same names.
	Headers []abi.Pair
	// Query is appended to the query of the URL. It is percent-encoded, such as a=1&b=2.
	Query string
	// Cookies replace the cookies of the request with the same names.
	Cookies []abi.Pair
	// Path replaces placeholders in the path.
	Path []abi.Pair
	// Form is appended to the body, which is a form.
	Form string
	// URL takes the place of scheme and host, and stands in front of the path. It is empty if the plugin leaves them.
	URL string
}

func added(m *hostfn.Mutation) Mutation {
	return Mutation{Headers: m.Headers, Query: m.Query, Cookies: m.Cookies, Path: m.Path, Form: m.Form, URL: m.MaskedURL}
}

// String returns the mutation for people to read, with two spaces before each line.
func (m Mutation) String() string {
	var b strings.Builder
	line := func(text string) { b.WriteString("  " + Printable(text) + "\n") }
	if m.URL != "" {
		line("url: " + m.URL)
	}
	for _, pair := range m.Headers {
		line(pair.Name + ": " + pair.Value)
	}
	for _, cookie := range m.Cookies {
		line("Cookie: " + cookie.Name + "=" + cookie.Value)
	}
	for _, pair := range m.Path {
		line("path: " + pair.Value + " for " + pair.Name)
	}
	if m.Query != "" {
		line("query: " + m.Query)
	}
	if m.Form != "" {
		line("form: " + m.Form)
	}
	return b.String()
}

func (c *Connector) explanation(call *hostfn.Call, output []byte, err error) string {
	text := "auth type " + c.auth.Type + "\n"
	for _, step := range call.Steps {
		text += step.String()
	}
	if err != nil {
		return text + "the call fails\n"
	}
	masked := call.Masked(output)
	if masked.Pass {
		return text + "the caller gets the API's answer\n"
	}
	return text + "the request gets\n" + added(masked).String()
}

// Explain runs the plugin without token endpoints and without the cache, and does not send the request. It reads the metadata of issuers
// that discover names. If the plugin answers challenges of the API, the request is shown as it would be sent after one, such as with a
// nonce. If the plugin would pass that challenge on to the caller, the request is shown as it is sent at first. Explain returns an error if
// authenticating the request would fail before a token endpoint is asked, such as for a missing secret or an invalid key.
func (c *Connector) Explain(r *http.Request) (*Explanation, error) {
	if c.transport == nil {
		return nil, c.fail(StageOrigin, errNotConnected)
	}
	headers, err := c.transport.Check(r)
	if err != nil {
		return nil, err
	}
	if err := c.runner.Gate.Enter(); err != nil {
		return nil, c.fail(StagePlugin, err)
	}
	defer c.runner.Gate.Leave()
	e := &Explanation{Connector: c.config.Name, AuthType: c.config.Auth.Type(), Method: r.Method}
	clone, outgoing := r, request.NewOutgoing(0)
	var all *hostfn.Mutation
	for _, element := range c.elements {
		masked, err := element.explainOn(clone, headers, all, e)
		if err != nil {
			return nil, err
		}
		clone = outgoing.Apply(clone, headers, masked)
		if all, err = all.And(masked); err != nil {
			return nil, element.fail(StageMutation, err)
		}
	}
	e.Added = added(all)
	target, path := clone.URL, clone.URL.EscapedPath()
	if len(all.Path) > 0 { // EscapedPath would encode the masks
		_, path, _ = request.ReplacePath(r.URL, all.Path) // Check has refused any other
	}
	e.URL = cmp.Or(all.MaskedURL, target.Scheme+"://"+target.Host) + path
	if target.RawQuery != "" || target.ForceQuery {
		e.URL += "?" + target.RawQuery
	}
	for _, name := range slices.Sorted(maps.Keys(clone.Header)) {
		for _, value := range clone.Header[name] {
			e.Headers = append(e.Headers, abi.Pair{Name: name, Value: value})
		}
	}
	return e, nil
}

// explainOn returns the masked mutation of an authentication for a request that has the mutation of earlier ones, and adds to e.
func (c *Connector) explainOn(r *http.Request, h request.Headers, earlier *hostfn.Mutation, e *Explanation) (*hostfn.Mutation, error) {
	ctx, cancel := context.WithTimeout(r.Context(), c.plugin.limits.CallTime)
	defer cancel()
	in, failure := c.runner.Reader.ReadAll(ctx, r, &event.Attempt{})
	if failure == nil {
		e.TLS, failure = c.explainTLS(ctx, in)
	}
	if failure != nil {
		return nil, c.failure(failure)
	}
	in.Earlier = earlier
	masked, call, fuel, err := c.explained(ctx, in)
	if err == nil && masked.Pass {
		in.Unanswered = true
		masked, call, fuel, err = c.explained(ctx, in)
	}
	if err != nil {
		return nil, err
	}
	e.Steps, e.Fuel = append(e.Steps, call.Steps...), e.Fuel+fuel
	if err := request.Check(r, h, masked); err != nil {
		return nil, c.fail(StageMutation, err)
	}
	return masked, nil
}

// explainTLS returns what the connector's TLS adds, or nil without TLS. The failure is that of a request.
func (c *Connector) explainTLS(ctx context.Context, in *hostfn.Inputs) (*ExplainedTLS, *hostfn.Failure) {
	if c.plan.TLS == nil {
		return nil, nil
	}
	certificate, failure := c.transport.TLS.Read(ctx, in)
	if failure != nil {
		return nil, failure
	}
	if err := certificate.Ended(c.plan.Clock()); err != nil {
		return nil, &hostfn.Failure{Stage: hostfn.StageConfig, Err: err}
	}
	e := &ExplainedTLS{ClientCertificate: certificate, CA: c.plan.TLS.Templates[connect.CA] != nil}
	if c.plan.TLS.API {
		e.For = append(e.For, TLSForAPI)
	}
	if c.plan.TLS.Token {
		e.For = append(e.For, TLSForToken)
	}
	return e, nil
}

// explained runs a call that is explained, and returns its masked mutation and its fuel.
func (c *Connector) explained(ctx context.Context, in *hostfn.Inputs) (*hostfn.Mutation, *hostfn.Call, int64, error) {
	call := hostfn.New(ctx, c.plan.Plan, in, hostfn.Explaining)
	result, failure := c.plugin.run(ctx, contract.ExportAuthenticate, call)
	call.FlushWarnings()
	if failure != nil {
		return nil, nil, 0, c.failure(failure)
	}
	if _, failure = call.Mutation(result.Output); failure != nil {
		return nil, nil, 0, c.failure(failure)
	}
	return call.Masked(result.Output), call, result.Fuel, nil
}
