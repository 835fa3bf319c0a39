// Package trial lets commands and the console use internals of package gateway.
package trial

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Package gateway sets these functions. A gateway is a *gateway.Gateway, a connector a *gateway.Connector, and an event a
// *gateway.Event.
var (
	// Run sends the request of an operator to a connector as if a caller had sent it, and returns what happened. Limits of rates and
	// of concurrent requests do not apply, and the user is that of t. It must not be reachable for callers. An answer that is longer
	// than a MiB, or that goes on for more than ten seconds, is cut off.
	//
	// The error is a [Refusal] if t cannot be a request. A request that fails is no error.
	Run func(ctx context.Context, gateway any, permalink string, t Try) (*Result, error)
	// NewOutgoing makes the request to the API from a caller's request, for the user of ctx (see host.WithUser). The error is a
	// [Refusal] if the caller's request is the reason. Any other error is that of a template or of its value.
	NewOutgoing func(ctx context.Context, connector any, in Incoming) (*Outgoing, error)
	// Dropped returns the names of those parameters of a caller's query that are not passed on, sorted: 10 of them at most.
	Dropped func(connector any, query string) []string
	// Way returns the steps of the request of an event, in order. Keys and token endpoints are among them if they were used, which
	// needs Observe of package gateway, or if the request failed there.
	Way func(event any) []Step
	// Remedy says what to do about an answer with which the API refused a request, or is "".
	Remedy func(response *http.Response, now time.Time) string
)

// Incoming is a caller's request to a connector.
type Incoming struct {
	// Method is the method. It must be one of the definition's, or HEAD if the definition has GET. "" means the first one of
	// the definition.
	Method string
	// Path is the path below the connector, encoded as the caller wrote it.
	Path string
	// Query is the query, encoded as the caller wrote it. Only overridable parameters pass. With a method other than GET, HEAD and
	// OPTIONS, any other parameter that would be missing is a [Refusal].
	Query string
	// Header has the caller's headers. Only overridable ones, Accept and Content-Type pass.
	Header http.Header
	// Trusted is set for requests of an operator. Any method and any path is allowed then, and all headers and parameters
	// pass, except those that would replace a value of the definition that is not overridable.
	Trusted bool
	// Masked asks for expressions in place of the secrets that they name.
	Masked bool
}

// Outgoing is the request that a connector makes from an [Incoming]. It is not authenticated yet.
type Outgoing struct {
	Method string
	// URL must not be modified.
	URL    *url.URL
	Header http.Header
}

// Request returns the request with a body, which may be nil. Its only error is about the method.
func (o *Outgoing) Request(ctx context.Context, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, o.Method, "https://unknown.invalid", body)
	if err != nil {
		return nil, err
	}
	r.URL, r.Host, r.Header = o.URL, "", o.Header
	return r, nil
}

// Refusal is the error for a request that the caller may not make. Nothing was sent.
type Refusal struct {
	// Status is the HTTP status for the caller.
	Status int
	// Detail explains the refusal to the caller. It contains no values of the user or of secrets.
	Detail string
}

func (r *Refusal) Error() string { return r.Detail }

// ExamplePath returns a path that callers may append to the URL of a definition with these patterns: the first one with made-up
// segments, or "/".
func ExamplePath(paths []string) string {
	if len(paths) == 0 {
		return "/"
	}
	return strings.NewReplacer("**", "1", "*%2F*", "1", "*", "1").Replace(paths[0])
}
