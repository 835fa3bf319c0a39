package gateway

import (
	"errors"
	"net/http"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/operate/remedy"
)

// failedAtAPI is the result of [Event.FailedAt] for a request that the API refused, or at which it failed itself.
const failedAtAPI = "API"

// FailedAt returns where a request failed: the [host.Stage] of authentication, [failedAtAPI], or the problem, such as upstream-failed. It
// returns "" if the request did not fail, if the mistake is the caller's, or if the user has not connected.
func (e *Event) FailedAt() string {
	switch {
	case e.NotConnected():
		return ""
	case e.Stage != "":
		return e.Stage
	case e.Problem != "" && e.Status >= http.StatusInternalServerError:
		return e.Problem
	case e.Problem != "":
		return ""
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden, e.Status == http.StatusTooManyRequests, e.Status >= http.StatusInternalServerError,
		e.Refusal != Refused{}:
		return failedAtAPI
	}
	return ""
}

// NotConnected reports whether the request was refused because its user has not connected an account. A grant that was revoked or lost
// is another matter.
func (e *Event) NotConnected() bool {
	return e.Problem == "not-connected" && !errors.As(e.Err, new(*host.GrantError))
}

// Remedy says in a sentence or two what the likely reason of a failure is, and what to do about it. It returns "" if it knows none, or if
// FailedAt does, unless an operator's test named a path that the connector does not have. It is for operators, and has nothing of the user.
func (e *Event) Remedy() string {
	if e.NotConnected() {
		return remedy.Of(remedy.Fault{Err: &host.GrantError{User: e.User, Condition: host.ConditionNotConnected}})
	}
	if e.Test && e.Problem == "unknown-path" {
		return "No path of the connector matches: add the path to the connector's paths, or send another one."
	}
	step := e.FailedAt()
	if step == "" {
		return ""
	}
	fault := remedy.Fault{
		Err: e.Err, Plugin: e.Failure, Stage: host.Stage(e.Stage), Late: e.Problem == "upstream-timeout", Status: e.Status, Code: e.Refusal.Code, Offset: e.Refusal.Offset,
	}
	return remedy.Of(fault)
}
