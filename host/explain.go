package host

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
)

// Explanation describes the request that would be sent, for a person to read: a token shows as <token>, a JWT as its header
// and claims, a secret as its template.
type Explanation struct {
	// Connector is the name of the connector, and Type its auth type.
	Connector, Type string
	// Method and URL are those of the request. The URL has the query that would be appended, masked.
	Method, URL string
	// Headers are those of the request, and those that would be set, masked. They are sorted by name.
	Headers []abi.Pair
	// Added is the change that the plugin would make, masked.
	Added Mutation
	// Fuel is how many units of work the plugin used.
	Fuel int64
}

// Mutation is the change of a request by a plugin.
type Mutation struct {
	// Headers are set, and replace those of the request.
	Headers []abi.Pair
	// Query is appended to that of the URL, percent-encoded: a=1&b=2.
	Query string
}

// Explain runs the plugin without asking any token endpoint, without the cache, and without sending the request. It
// fails where the request would fail before the token endpoint is asked: a secret that is missing, a key that does not
// fit.
func (c *Connector) Explain(r *http.Request) (*Explanation, error) {
	headers, err := c.check(r)
	if err != nil {
		return nil, err
	}
	if err := c.host.enter(); err != nil {
		return nil, c.fail(StagePlugin, err)
	}
	defer c.host.calls.Done()
	ctx, cancel := context.WithTimeout(r.Context(), c.host.config.Limits.CallTime)
	defer cancel()
	secrets, err := c.secrets(ctx, nil)
	if err != nil {
		return nil, err
	}
	in := c.inputs(secrets, c.subject(ctx), r)
	call := hostfn.New(ctx, c.plan, in, hostfn.Explaining)
	result, failure := run(ctx, c.plugin.guest, abi.ExportAuthenticate, call)
	if failure != nil {
		return nil, c.failure(failure)
	}
	masked, err := call.Explanation(result.Output)
	if err != nil {
		if errors.As(err, &failure) {
			return nil, c.failure(failure)
		}
		return nil, c.fail(StageMutation, err)
	}
	if err := checkConnectionHeader(headers.connection, masked); err != nil {
		return nil, c.fail(StageMutation, err)
	}
	target := *r.URL
	target.User, target.Fragment, target.RawFragment = nil, "", ""
	e := &Explanation{
		Connector: c.config.Name, Type: c.config.Auth.Type, Method: r.Method, URL: target.String(),
		Added: Mutation{Headers: masked.Headers, Query: masked.Query}, Fuel: result.Fuel,
	}
	clone := changed(r, headers, masked)
	for _, name := range slices.Sorted(maps.Keys(clone.Header)) {
		for _, value := range clone.Header[name] {
			e.Headers = append(e.Headers, abi.Pair{Name: name, Value: value})
		}
	}
	if masked.Query != "" {
		if target.RawQuery == "" {
			e.URL = strings.TrimSuffix(e.URL, "?") + "?" + masked.Query
		} else {
			e.URL += "&" + masked.Query
		}
	}
	return e, nil
}
