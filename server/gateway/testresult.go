package gateway

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/view"
)

// TestResult describes the request of an operator's test and its answer. It is for operators only. It holds no credential.
type TestResult struct {
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
	// Remedy says what to do if the request failed ([Event.Remedy]), or is "".
	Remedy string `json:"remedy,omitempty"`
	// Refused describes the refusal that the gateway remembers, if it has therefore not asked the token endpoint. Otherwise it is nil.
	Refused *TestRefusal `json:"refused,omitempty"`
	// Request is the request for the API, masked. It is nil if the test's request was refused.
	Request *TestRequest `json:"request"`
	// Exchanges are the requests to token endpoints. There are none if the token is from the cache.
	Exchanges []view.Exchange `json:"exchanges"`
	// Answers are the API's answers, one for each time that the request was sent.
	Answers []view.Answer `json:"api_answers"`
	// Stages are those that the request has reached, in order, with their times.
	Stages []Step `json:"stages"`
	// Milliseconds is the time of the whole test.
	Milliseconds float64 `json:"milliseconds"`
	// Event describes the request as that of a caller. Observe of the gateway's [Config] has had it.
	Event Event `json:"-"`
}

// TestRefusal is a refusal of a token endpoint that the gateway remembers.
type TestRefusal struct {
	// Status and Code are those of the endpoint's answer, as in [host.TokenError].
	Status int    `json:"status"`
	Code   string `json:"code,omitempty"`
	// AgeSeconds is the time since the answer, and RetrySeconds the time until requests of callers make the gateway ask again.
	AgeSeconds   float64 `json:"age_seconds"`
	RetrySeconds float64 `json:"retry_after_seconds"`
}

// refusalOf returns the remembered refusal that is the reason of an error, or nil.
func refusalOf(err error) *TestRefusal {
	var tokenErr *host.TokenError
	if !errors.As(err, &tokenErr) || !tokenErr.Remembered {
		return nil
	}
	return &TestRefusal{tokenErr.Status, tokenErr.Code, tokenErr.Age.Seconds(), tokenErr.RetryAfter.Seconds()}
}

// String returns what a person needs to know, in a line.
func (r *TestRefusal) String() string {
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
func (r *TestRefusal) JustAsked() bool { return r.AgeSeconds < 1 }

// TestRequest is a request as it is sent to the API, with expressions in place of secrets, and <token> in place of a token.
type TestRequest struct {
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

// setStages sets the stages that the request has reached. It has failed at one of them only if there was a problem. The times of
// exchanges are in the trace, whether or not the host has [Observe].
func (r *TestResult) setStages() {
	e := r.Event
	if e.Exchanges == 0 {
		for _, exchange := range r.Exchanges {
			e.Exchanges++
			e.Spent.Token += time.Duration(math.Round(exchange.Answer.Milliseconds*1000)) * time.Microsecond
		}
	}
	for _, step := range e.Way() {
		if step.Failed = step.Failed && r.Problem != ""; !step.Skipped {
			r.Stages = append(r.Stages, step)
		}
	}
}

// pairsOf returns headers, sorted by name.
func pairsOf(header http.Header) []abi.Pair {
	all := []abi.Pair{}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			all = append(all, abi.Pair{Name: name, Value: strings.ToValidUTF8(value, "\uFFFD")})
		}
	}
	return all
}

// milliseconds returns a time with microseconds.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
