package console

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
	Time      time.Time
	RequestID string
	// Stage is the stage of the host at which it failed, the problem, or API if the API refused it.
	Stage string
	// At is the step of Way at which it failed, with the stage if that has another name.
	At string
	// Status is that of the answer.
	Status int
	// Method and Pattern are those of the event, and Tenant the ID of the tenant.
	Method, Pattern, Tenant string
	// Cause is the error in the log.
	Cause string
	// Remedy says what to do about it, or is "".
	Remedy string
	// Way is the way of the request, in order.
	Way []Step
	// Remembered reports whether a token endpoint was not asked, because it had refused the same request before. Until is the time
	// until which it is not asked, or zero.
	Remembered bool
	Until      time.Time
}

// Step is a part of the way of a request, with a note, such as the fuel.
type Step struct {
	trial.Step
	Note string
}

// Took returns the time of the step.
func (s Step) Took() time.Duration { return time.Duration(s.Milliseconds * float64(time.Millisecond)) }

func failureOf(e *gateway.Event, stage string, end time.Time) Failure {
	const maxCause = 1000 // the maximum number of bytes of an error that is kept
	f := Failure{
		Time: end, RequestID: e.ID, Stage: stage, Status: e.Status, Method: e.Method, Pattern: e.Pattern, Tenant: host.Printable(e.Tenant),
		Remedy: e.Remedy(), Way: wayOf(e),
	}
	for _, step := range f.Way {
		if step.Failed {
			f.At = step.Name
		}
	}
	if e.Err != nil {
		f.Cause = host.Printable(lasting(e.Err))
		if tokenErr, ok := errors.AsType[*host.TokenError](e.Err); ok && tokenErr.RetryAfter > 0 {
			f.Remembered, f.Until = tokenErr.Remembered, end.Add(tokenErr.RetryAfter)
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
	return f
}

// lasting returns the text of an error without the ID of the user whose grant it is about, and without the time until which a
// token endpoint is not asked, which would soon be wrong.
func lasting(err error) string {
	text := err.Error()
	if grant, ok := errors.AsType[*host.GrantError](err); ok {
		nobody := *grant
		nobody.User = ""
		text = strings.ReplaceAll(text, grant.Error(), nobody.Error())
	}
	if tokenErr, ok := errors.AsType[*host.TokenError](err); ok {
		timeless := *tokenErr
		timeless.RetryAfter = 0
		text = strings.ReplaceAll(text, tokenErr.Error(), timeless.Error())
	}
	return text
}

// wayOf returns the way of a request. The name of the step that failed has the stage or the problem, too, if that is another word.
func wayOf(e *gateway.Event) (way []Step) {
	stage := cmp.Or(e.Stage, e.FailedAt())
	for _, step := range trial.Way(e) {
		entry := Step{Step: step}
		switch step.Name {
		case trial.StepAuthentication:
			var notes []string
			if e.Attempt.Fuel > 0 {
				notes = append(notes, fmt.Sprintf("%d units of fuel in %s", e.Attempt.Fuel, took(e.Attempt.SandboxTime)))
			} else if !e.Sent.IsZero() {
				notes = append(notes, "result of an earlier call")
			}
			if e.Attempt.Cached && e.Attempt.Exchanges == 0 && !step.Failed {
				notes = append(notes, "token from the cache")
			}
			entry.Note = strings.Join(notes, ", ")
		case trial.StepKey:
			entry.Note = fmt.Sprintf("%d uses of keys of the store", e.Attempt.KeyRequests)
		case trial.StepToken:
			if e.Attempt.Exchanges == 1 {
				entry.Note = "1 request to the token endpoint"
			} else if e.Attempt.Exchanges > 1 {
				entry.Note = fmt.Sprintf("%d requests to the token endpoint", e.Attempt.Exchanges)
			}
		case trial.StepAPI:
			if e.UpstreamStatus != 0 {
				entry.Note = fmt.Sprintf("%d %s", e.UpstreamStatus, http.StatusText(e.UpstreamStatus))
			}
		}
		if step.Failed && !strings.EqualFold(stage, step.Name) && stage != "" {
			entry.Name += " (" + stage + ")"
		}
		way = append(way, entry)
	}
	return way
}
