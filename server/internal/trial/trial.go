// Package trial lets commands and the console use internals of package gateway.
package trial

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/view"
)

// Package gateway sets these functions. A gateway is a *gateway.Gateway, a connector a *gateway.Connector, and an event a *gateway.Event.
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

// Try is the JSON body of a request to Test of a gateway, which refuses further members. It describes a caller's request to the connector.
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
	// User is the user for whom the request is made.
	User User `json:"user"`
	// ErrorDescription asks for what token endpoints say about a refusal ([host.Trace].Descriptions).
	ErrorDescription bool `json:"error_description"`
	// AskAnew asks token endpoints although the gateway remembers that they have refused the same request ([host.Trace].AskAnew).
	AskAnew bool `json:"ask_anew"`
	// ClientAuths tries each other client_auth that the auth type has, if a token endpoint refuses the client: each may count a failed login.
	ClientAuths bool `json:"client_auths,omitempty"`
}

// User is a [host.User] whose JSON members have the names of its fields in templates.
type User struct {
	ID           string    `json:"id"`
	Email        string    `json:"email"`
	Username     string    `json:"username"`
	FirstName    string    `json:"first_name"`
	LastName     string    `json:"last_name"`
	TenantID     string    `json:"tenant_id"`
	Token        string    `json:"token"`
	TokenExpires time.Time `json:"-"`
}

// Format hides the token, as [host.User] does.
func (u User) Format(f fmt.State, verb rune) { host.User(u).Format(f, verb) }

// Result describes the request of an operator's test and its answer. It is for operators only. It holds no credential.
type Result struct {
	// Connector is the permalink. RequestID is the X-Request-Id, which is in the log too.
	Connector string `json:"connector"`
	RequestID string `json:"request_id"`
	// Status, Headers and Body are the answer that a caller gets, but for Date and the headers of the connection. Headers are sorted by
	// name. In JSON, the body is base64.
	Status  int        `json:"status"`
	Headers []abi.Pair `json:"headers"`
	Body    []byte     `json:"body"`
	// NoRecords says that the API's answer has null in place of the records for response.filter, or no such member, or is "". That is
	// an empty list, and so is a misspelt response.records.
	NoRecords string `json:"no_records,omitempty"`
	// Cut says why Body is not the whole body, or is "".
	Cut string `json:"cut,omitempty"`
	// Problem is the last part of the problem's type, and Stage the [host.Stage] at which authentication failed. Cause is the error
	// that is in the log, and that no caller gets. All are "" if there was no problem.
	Problem string `json:"problem,omitempty"`
	Stage   string `json:"stage,omitempty"`
	Cause   string `json:"cause,omitempty"`
	// Remedy says what to do if the request failed (Remedy of its event), or is "".
	Remedy string `json:"remedy,omitempty"`
	// Refusal describes the refusal that the gateway remembers, if it has therefore not asked the token endpoint. Otherwise it is nil.
	Refusal *EarlierRefusal `json:"refused,omitempty"`
	// ClientAuths has the values of client_auth that the test used, the configured one first, if it asked for that.
	ClientAuths []ClientAuth `json:"client_auths,omitempty"`
	// Request is the request for the API, masked. It is nil if the test's request was refused.
	Request *Request `json:"request"`
	// Exchanges are the requests to token endpoints. There are none if the token is from the cache.
	Exchanges []view.Exchange `json:"exchanges"`
	// Answers are the API's answers, one for each time that the request was sent.
	Answers []view.Answer `json:"api_answers"`
	// Stages are those that the request has reached, in order, with their times.
	Stages []Step `json:"stages"`
	// Milliseconds is the time of the whole test.
	Milliseconds float64 `json:"milliseconds"`
	// Event is the gateway.Event that describes the request as that of a caller. Observe of the gateway has had it.
	Event any `json:"-"`
}

// ClientAuth is a value of the field client_auth, and what came of it.
type ClientAuth struct {
	Value string `json:"value"`
	// Wrong reports whether the token endpoint refused the client, with Status and Code.
	Wrong  bool   `json:"refused"`
	Status int    `json:"status,omitempty"`
	Code   string `json:"code,omitempty"`
}

// EarlierRefusal is a refusal of a token endpoint that the gateway remembers.
type EarlierRefusal struct {
	// Status and Code are those of the endpoint's answer, as in [host.TokenError].
	Status int    `json:"status"`
	Code   string `json:"code,omitempty"`
	// AgeSeconds is the time since the answer, and RetrySeconds the time until requests of callers make the gateway ask again.
	AgeSeconds   float64 `json:"age_seconds"`
	RetrySeconds float64 `json:"retry_after_seconds"`
}

// String returns what a person needs to know, in a line.
func (r *EarlierRefusal) String() string {
	code := ""
	if r.Code != "" && r.Code != "other" {
		code = " (" + r.Code + ")"
	}
	ago := fmt.Sprintf("%.0f s ago", r.AgeSeconds)
	if r.JustAsked() {
		ago = "less than 1 s ago"
	}
	return fmt.Sprintf("the token endpoint was not asked: it answered %d%s %s, and requests of callers ask it again in %.0f s", r.Status, code, ago, math.Ceil(r.RetrySeconds))
}

// JustAsked reports whether the endpoint was asked less than a second ago, so that AskAnew of a [Try] does not ask it either.
func (r *EarlierRefusal) JustAsked() bool { return r.AgeSeconds < 1 }

// Request is a request as it is sent to the API, with expressions in place of secrets, and <token> in place of a token.
type Request struct {
	Method  string     `json:"method"`
	URL     string     `json:"url"`
	Headers []abi.Pair `json:"headers"`
	// Body is the beginning of the body. Authentication appends Form to it.
	Body string `json:"body,omitempty"`
	Form string `json:"form,omitempty"`
	// Dropped has the names of the test's query parameters that were not sent.
	Dropped []string `json:"dropped_query_parameters,omitempty"`
	// TLS describes the connector's tls. It is nil without one.
	TLS *host.ExplainedTLS `json:"tls,omitempty"`
}

// Step is a part of the way of a request.
type Step struct {
	// Name is one of the constants whose names begin with Step.
	Name         string  `json:"name"`
	Milliseconds float64 `json:"milliseconds"`
	// Failed reports whether the request ended here, and Skipped whether it did not come to this.
	Failed  bool `json:"failed,omitempty"`
	Skipped bool `json:"skipped,omitempty"`
	// Note says more, such as the fuel, or is "".
	Note string `json:"note,omitempty"`
}

// Time returns the time of the step.
func (s Step) Time() time.Duration { return time.Duration(s.Milliseconds * float64(time.Millisecond)) }

// The steps of a request, in order.
const (
	// StepRequest checks the caller's request, and makes that to the API of it.
	StepRequest = "request"
	// StepAuthentication runs the plugin.
	StepAuthentication = "authentication"
	// StepKey uses keys of a store that keeps them.
	StepKey = "key"
	// StepToken asks token endpoints.
	StepToken = "token"
	// StepAPI waits until the API's answer begins. If it was asked twice, both are in it.
	StepAPI = "api"
	// StepAnswer makes the caller's answer of the API's.
	StepAnswer = "answer"
)
