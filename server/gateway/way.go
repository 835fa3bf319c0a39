package gateway

import (
	"time"

	"github.com/keywright/keywright/host"
)

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

// Way returns the steps of the request, in order. Keys and token endpoints are among them if they were used, which needs [Observe], or
// if the request failed there.
func (e *Event) Way() (way []Step) {
	end := e.Began.Add(e.Total)
	ready, answered := e.Ready, e.Sent.Add(e.Upstream)
	if e.Ready.IsZero() {
		ready = end
	}
	if e.Sent.IsZero() {
		answered = end
	}
	failed := e.failedStep()
	add := func(name string, reached bool, took time.Duration) {
		reached = reached || failed == name
		if reached || name != StepKey && name != StepToken {
			way = append(way, Step{name, milliseconds(max(0, took)), failed == name, !reached})
		}
	}
	add(StepRequest, true, ready.Sub(e.Began))
	add(StepAuthentication, !e.Ready.IsZero(), answered.Sub(ready)-e.API-e.Spent.Token-e.Spent.Keys)
	add(StepKey, e.KeyRequests > 0, e.Spent.Keys)
	add(StepToken, e.Exchanges > 0, e.Spent.Token)
	add(StepAPI, !e.Sent.IsZero(), e.API)
	add(StepAnswer, e.UpstreamStatus != 0, end.Sub(answered))
	return way
}

// failedStep returns the name of the step at which the request failed, or at which the API refused it. It returns "" for neither.
func (e *Event) failedStep() string {
	switch {
	case e.Problem == "" && e.FailedAt() == "":
		return ""
	case e.Stage == string(host.StageToken):
		return StepToken
	case e.Problem != "" && e.Ready.IsZero():
		return StepRequest
	case e.Stage != "" && e.Stage != string(host.StageResponse):
		return StepAuthentication
	case e.Problem != "" && e.UpstreamStatus != 0:
		return StepAnswer
	}
	return StepAPI
}
