package gateway

import (
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/trial"
)

// way returns the steps of the request, in order. Keys and token endpoints are among them if they were used, which needs [Observe], or
// if the request failed there.
func (e *Event) way() (way []trial.Step) {
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
		if reached || name != trial.StepKey && name != trial.StepToken {
			way = append(way, trial.Step{Name: name, Milliseconds: milliseconds(max(0, took)), Failed: failed == name, Skipped: !reached})
		}
	}
	add(trial.StepRequest, true, ready.Sub(e.Began))
	add(trial.StepAuthentication, !e.Ready.IsZero(), answered.Sub(ready)-e.API-e.Spent.Token-e.Spent.Keys)
	add(trial.StepKey, e.KeyRequests > 0, e.Spent.Keys)
	add(trial.StepToken, e.Exchanges > 0, e.Spent.Token)
	add(trial.StepAPI, !e.Sent.IsZero(), e.API)
	add(trial.StepAnswer, e.UpstreamStatus != 0, end.Sub(answered))
	return way
}

// failedStep returns the name of the step at which the request failed, or at which the API refused it. It returns "" for neither.
func (e *Event) failedStep() string {
	switch {
	case e.Problem == "" && e.FailedAt() == "":
		return ""
	case e.Stage == string(host.StageToken):
		return trial.StepToken
	case e.Problem != "" && e.Ready.IsZero():
		return trial.StepRequest
	case e.Stage != "" && e.Stage != string(host.StageResponse):
		return trial.StepAuthentication
	case e.Problem != "" && e.UpstreamStatus != 0:
		return trial.StepAnswer
	}
	return trial.StepAPI
}
