package activity

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/trial"
)

// Failure is a request that failed. It has nothing of the user, the path or the headers.
type Failure struct {
	Time      time.Time `json:"time"`
	RequestID string    `json:"request_id"`
	Connector string    `json:"connector"`
	// Node is the name of the machine, or "", and Group the ID of the group.
	Node  string `json:"node,omitempty"`
	Group string `json:"group"`
	// Stage is the stage of the host at which it failed, the problem, or API if the API refused it. Problem is that of the event.
	Stage   string `json:"stage"`
	Problem string `json:"problem,omitempty"`
	// Place is the step of Way at which it failed, with the stage if that has another name.
	Place string `json:"place"`
	// Status is that of the answer, UpstreamStatus that of the API, or 0, and Code the error code of the token endpoint or of the API.
	Status         int    `json:"status"`
	UpstreamStatus int    `json:"upstream_status,omitempty"`
	Code           string `json:"code,omitempty"`
	// Host, Method and Pattern are those of the event, and Tenant the ID of the tenant.
	Host    string `json:"host,omitempty"`
	Method  string `json:"method"`
	Pattern string `json:"pattern,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	// Cause is the error in the log, and Remedy says what to do about it, or is "".
	Cause  string `json:"cause"`
	Remedy string `json:"remedy,omitempty"`
	// Way is the way of the request, in order. It is nil if it is not kept.
	Way []Step `json:"way"`
	// Remembered reports whether a token endpoint was not asked, because it had refused the same request before. Until is the time
	// until which it is not asked, or zero.
	Remembered bool      `json:"remembered,omitempty"`
	Until      time.Time `json:"until,omitzero"`
}

// A Step is a part of the way of a request.
type Step = trial.Step

// Took returns a short duration for people, such as 1.2 ms.
func Took(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < 10*time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func failureOf(e *gateway.Event, stage string, end time.Time) *Failure {
	const maxCause = 1000 // the maximum number of bytes of an error that is kept
	f := &Failure{
		Time: end, RequestID: e.ID, Connector: e.Connector, Stage: stage, Problem: e.Problem, Status: e.Status, UpstreamStatus: e.UpstreamStatus, Code: e.Refusal.Code,
		Host: e.Host, Method: e.Method, Pattern: e.Pattern, Tenant: host.Printable(e.Tenant), Remedy: e.Remedy(), Way: Way(e),
	}
	for _, step := range f.Way {
		if step.Failed {
			f.Place = step.Name
		}
	}
	if e.Err != nil {
		f.Cause = host.Printable(lasting(e.Err))
		if tokenErr, ok := errors.AsType[*host.TokenError](e.Err); ok {
			if f.Code = tokenErr.Code; tokenErr.RetryAfter > 0 {
				f.Remembered, f.Until = tokenErr.Remembered, end.Add(tokenErr.RetryAfter)
			}
		}
	} else {
		f.Cause = fmt.Sprintf("the API answered %d %s", e.Status, http.StatusText(e.Status))
		if e.Refusal.Code != "" {
			f.Cause += " (" + e.Refusal.Code + ")"
		}
	}
	if len(f.Cause) > maxCause {
		f.Cause = host.Printable(f.Cause[:maxCause]) + "…"
	}
	if f.unreached() {
		f.Cause = f.Host + ": " + f.Cause
		if f.Remedy != "" {
			f.Remedy = f.Host + ": " + f.Remedy
		}
	}
	f.Group = groupID(f)
	return f
}

// unreached reports whether it is the host that matters: it did not answer.
func (f *Failure) unreached() bool { return f.Host != "" && strings.HasPrefix(f.Problem, "upstream-") }

// lasting returns the text of an error without the tenant and the user whose grant it is about, and without the time until which a
// token endpoint is not asked, which would soon be wrong.
func lasting(err error) string {
	text := err.Error()
	if grant, ok := errors.AsType[*host.GrantError](err); ok {
		nobody := *grant
		nobody.User, nobody.Tenant = "", ""
		text = strings.ReplaceAll(text, grant.Error(), nobody.Error())
	}
	if tokenErr, ok := errors.AsType[*host.TokenError](err); ok {
		timeless := *tokenErr
		timeless.RetryAfter = 0
		text = strings.ReplaceAll(text, tokenErr.Error(), timeless.Error())
	}
	return text
}

// Way returns the way of a request. The name of the step that failed has the stage or the problem, too, if that is another word.
func Way(e *gateway.Event) (way []Step) {
	stage := cmp.Or(e.Stage, e.FailedAt())
	for _, step := range trial.Way(e) {
		switch step.Name {
		case trial.StepAuthentication:
			var notes []string
			if e.Attempt.Fuel > 0 {
				notes = append(notes, fmt.Sprintf("%d units of fuel in %s", e.Attempt.Fuel, Took(e.Attempt.SandboxTime)))
			} else if !e.Sent.IsZero() {
				notes = append(notes, "result of an earlier call")
			}
			if e.Attempt.Cached && e.Attempt.Exchanges == 0 && !step.Failed {
				notes = append(notes, "token from the cache")
			}
			step.Note = strings.Join(notes, ", ")
		case trial.StepKey:
			step.Note = fmt.Sprintf("%d uses of keys of the store", e.Attempt.KeyRequests)
		case trial.StepToken:
			if e.Attempt.Exchanges == 1 {
				step.Note = "1 request to the token endpoint"
			} else if e.Attempt.Exchanges > 1 {
				step.Note = fmt.Sprintf("%d requests to the token endpoint", e.Attempt.Exchanges)
			}
		case trial.StepAPI:
			if e.UpstreamStatus != 0 {
				step.Note = fmt.Sprintf("%d %s", e.UpstreamStatus, http.StatusText(e.UpstreamStatus))
			}
		}
		if step.Failed && !strings.EqualFold(stage, step.Name) && stage != "" {
			step.Name += " (" + stage + ")"
		}
		way = append(way, step)
	}
	return way
}

// maxFailures is the number of failures that are kept by their request ids, and of those that wait to be stored. maxShort is that of those
// that wait to be stored without their ways.
const maxFailures, maxShort = 10_000, 5000

// Find returns the failure with a request id, or nil if it is not among the last 10,000. It must not be modified.
func (r *Recorder) Find(id string) *Failure {
	f, _ := r.failures.Peek(id) // nil if there is none
	return f
}

// NotFound says why there is no failure with a request id. note is that of the view.
func NotFound(id, note string) string {
	where := "in 7 days"
	if note != "" {
		where = "among the last 10,000 failures of this process"
	}
	return fmt.Sprintf("there is no failure with this id %s: the request succeeded, if only slowly or with a 404 of the API, or it is a few seconds old, or older, or more failed than are kept; the log line is request_id=%s", where, host.Printable(id))
}

// Drain returns the failures since the last call that are to be stored: of each group and minute, the first 20, and others without their
// ways. They must not be modified.
func (r *Recorder) Drain() (failures, short []*Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	failures, short = r.queue, r.shortQueue
	r.queue, r.shortQueue = nil, nil
	return failures, short
}
