// Package trial lets commands and the console use internals of package gateway.
package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
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

// Try is the JSON body of a request to Test of a gateway. It describes a caller's request to the connector.
type Try struct {
	// Method is the method. If it is empty, the first one of the definition is used.
	Method string `json:"method"`
	// Path is the path below the connector, optionally with a query, such as /forecast/oslo?units=metric.
	Path string `json:"path"`
	// Headers are the headers, by name.
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	// BodyBytes is a body that is no text. In JSON, it is base64.
	BodyBytes []byte `json:"body_base64"`
	// User is the user for whom the request is made. In JSON, it is the member user, whose members have the names of templates.
	User host.User `json:"-"`
	// ErrorDescription asks for what token endpoints say about a refusal ([host.Trace].Descriptions).
	ErrorDescription bool `json:"error_description"`
	// AskAnew asks token endpoints although the gateway remembers that they have refused the same request ([host.Trace].AskAnew).
	AskAnew bool `json:"ask_anew"`
}

type plainTry Try

// tryDocument is a Try with its user, as JSON has it.
type tryDocument struct {
	plainTry
	User triedUser `json:"user"`
}

// triedUser is a [host.User] whose JSON members have the names of its fields in templates.
type triedUser struct {
	ID           string    `json:"id"`
	Email        string    `json:"email"`
	Username     string    `json:"username"`
	FirstName    string    `json:"first_name"`
	LastName     string    `json:"last_name"`
	TenantID     string    `json:"tenant_id"`
	Token        string    `json:"token"`
	TokenExpires time.Time `json:"-"`
}

// MarshalJSON writes the user's token too, for Test of a gateway.
func (t Try) MarshalJSON() ([]byte, error) {
	return json.Marshal(tryDocument{plainTry(t), triedUser(t.User)})
}

// UnmarshalJSON refuses members that a Try does not have.
func (t *Try) UnmarshalJSON(text []byte) error {
	var d tryDocument
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return err
	}
	*t = Try(d.plainTry)
	t.User = host.User(d.User)
	return nil
}
