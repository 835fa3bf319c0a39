package console

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
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

// Step is a part of the way of a request.
type Step struct {
	Name string
	Took time.Duration
	// Note has more about it, such as the fuel.
	Note string
	// Failed reports whether the request ended here, and Skipped whether it did not come to this.
	Failed, Skipped bool
}

// maxCause is the maximum number of bytes of an error that is kept.
const maxCause = 1000

// failureOf returns the failure of a request.
func failureOf(e *gateway.Event, stage string, ended time.Time) Failure {
	f := Failure{
		Time: ended, RequestID: e.ID, Stage: stage, Status: e.Status, Method: e.Method, Pattern: e.Pattern, Tenant: host.Printable(e.Tenant),
		Remedy: e.Remedy(), Way: wayOf(e, stage),
	}
	for _, step := range f.Way {
		if step.Failed {
			f.At = step.Name
		}
	}
	if e.Err != nil {
		f.Cause = host.Printable(lasting(e.Err))
		var refused *host.TokenError
		if errors.As(e.Err, &refused) && refused.RetryAfter > 0 {
			f.Remembered, f.Until = refused.Remembered, ended.Add(refused.RetryAfter)
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
	var grant *host.GrantError
	if errors.As(err, &grant) {
		nobody := *grant
		nobody.User = ""
		text = strings.ReplaceAll(text, grant.Error(), nobody.Error())
	}
	var refused *host.TokenError
	if errors.As(err, &refused) {
		timeless := *refused
		timeless.RetryAfter = 0
		text = strings.ReplaceAll(text, refused.Error(), timeless.Error())
	}
	return text
}

// Names of the steps, in order.
const (
	stepRequest = "request"
	stepPlugin  = "plugin"
	stepToken   = "token"
	stepKey     = "key"
	stepAPI     = "API"
	stepAnswer  = "answer"
)

// wayOf returns the way of a request.
func wayOf(e *gateway.Event, stage string) []Step {
	before := e.Total
	if !e.Ready.IsZero() {
		before = e.Ready.Sub(e.Began)
	}
	failed := stepOf(stage, e)
	way := []Step{{Name: stepRequest, Took: before, Skipped: false}}
	plugin := Step{Name: stepPlugin, Took: e.Spent.Sandbox, Skipped: e.Ready.IsZero() || failed == stepRequest}
	switch {
	case e.Spent.Fuel > 0:
		plugin.Note = strconv.FormatInt(e.Spent.Fuel, 10) + " units of fuel"
	case !plugin.Skipped && !e.Sent.IsZero():
		plugin.Note = "result of an earlier call"
	}
	way = append(way, plugin)
	token := Step{Name: stepToken, Took: e.Spent.Token}
	switch {
	case e.Exchanges == 1:
		token.Note = "1 request to the token endpoint"
	case e.Exchanges > 1:
		token.Note = strconv.Itoa(e.Exchanges) + " requests to the token endpoint"
	case e.Spent.Cached && failed != stepRequest && failed != stepPlugin:
		token.Note = "from the cache"
	}
	if token.Note != "" || stage == string(host.StageToken) {
		way = append(way, token)
	}
	if e.KeyRequests > 0 {
		way = append(way, Step{Name: stepKey, Took: e.Spent.Keys, Note: strconv.Itoa(e.KeyRequests) + " uses of keys of the store"})
	}
	api := Step{Name: stepAPI, Took: e.Upstream, Skipped: e.Sent.IsZero()}
	if e.UpstreamStatus != 0 {
		api.Note = fmt.Sprintf("%d %s", e.UpstreamStatus, http.StatusText(e.UpstreamStatus))
	}
	answer := Step{Name: stepAnswer, Skipped: e.UpstreamStatus == 0}
	if !answer.Skipped {
		answer.Took = max(0, e.Total-before-e.Spent.Sandbox-e.Spent.Token-e.Spent.Keys-e.Upstream)
	}
	way = append(way, api, answer)
	for i := range way {
		if way[i].Name == failed {
			way[i].Failed = true
			if failed != stage {
				way[i].Name += " (" + stage + ")"
			}
		}
	}
	return way
}

// stepOf returns the step at which a request failed at a stage, or "" if it did not fail.
func stepOf(stage string, e *gateway.Event) string {
	switch host.Stage(stage) {
	case "":
		return ""
	case host.StageOrigin, host.StageClosed, host.StageTemplate, host.StageConfig, host.StageBody:
		if e.Spent.Fuel > 0 { // a template is rendered when the plugin asks for it
			return stepPlugin
		}
		return stepRequest
	case host.StagePlugin, host.StageMutation:
		return stepPlugin
	case host.StageSign:
		return stepPlugin
	case host.StageToken:
		return stepToken
	case host.StageResponse:
		return stepAnswer
	}
	if stage == gateway.FailedAtAPI || e.UpstreamStatus == 0 {
		return stepAPI
	}
	return stepAnswer
}
