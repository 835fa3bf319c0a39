package trial

import (
	"fmt"
	"math"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/view"
)

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
	Skipped bool `json:"-"`
}

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
