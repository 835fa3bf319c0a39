package host

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/contract"
)

// run calls an export of the plugin. The guest's output is valid only if there is no failure. The error of a limit that the
// plugin has of its own is a [LimitError].
func (p *plugin) run(ctx context.Context, export string, call *hostfn.Call) (sandbox.Result, *hostfn.Failure) {
	result, failure := p.call(ctx, export, call)
	if failure == nil {
		return result, nil
	}
	limit := ""
	var stopped *sandbox.Error
	switch {
	case failure.TokenRequests:
		limit = limitTokenRequests
	case errors.As(failure.Err, &stopped):
		limit = limitsOfSandbox[stopped.Limit]
	}
	failure.Err = p.overOwn(limit, failure.Err)
	return result, failure
}

// limitsOfSandbox has the names of limits that the sandbox enforces, as fields of [PluginLimits].
var limitsOfSandbox = map[string]string{
	sandbox.LimitFuel: limitFuel, sandbox.LimitMemory: limitMemory, sandbox.LimitTime: limitTime,
}

func (p *plugin) call(ctx context.Context, export string, call *hostfn.Call) (sandbox.Result, *hostfn.Failure) {
	result, err := p.Guest.Call(ctx, export, call)
	switch {
	case call.Restart != nil:
		return result, nil
	case call.Failure != nil:
		return result, hostFailure(call.Failure)
	case err != nil:
		if context.Cause(ctx) != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			err = context.Cause(ctx)
		}
		return result, &hostfn.Failure{Stage: hostfn.StagePlugin, Err: err}
	case result.Code != 0:
		failure := guestFailure(export, call, result.Message)
		failure.Guest = true
		return result, failure
	case !result.OutputSet && contract.HasOutput(export):
		return result, &hostfn.Failure{Stage: hostfn.StagePlugin, Err: errors.New(export + " succeeded without an output")}
	}
	return result, nil
}

// hostFailure returns the failure with which the host ended a call. It converts an error of a token endpoint to the
// public type.
func hostFailure(f *hostfn.Failure) *hostfn.Failure {
	var answer *hostfn.TokenError
	if errors.As(f.Err, &answer) && !errors.As(f.Err, new(*GrantError)) {
		return &hostfn.Failure{Stage: f.Stage, Err: (*TokenError)(answer)}
	}
	return f
}

// refusalText matches the text of the SDKs for a refusal.
var refusalText = regexp.MustCompile(`^the token endpoint answered \d+( \([a-z_]+\))?$`)

// guestFailure returns the failure for a guest's own error. If a token endpoint had refused the call, that refusal is the
// cause, and the error wraps it. The guest's text follows, unless it is the one of the SDKs for a refusal. That has the status of a
// refusal in place of a 2xx.
func guestFailure(export string, call *hostfn.Call, message string) *hostfn.Failure {
	if message == "" {
		message = export + " failed without a message"
	}
	err := call.Message(message)
	if answer := call.TokenError; answer != nil {
		refusal := (*TokenError)(answer)
		if refusalText.MatchString(err.Error()) {
			return &hostfn.Failure{Stage: hostfn.StageToken, Err: refusal}
		}
		return &hostfn.Failure{Stage: hostfn.StageToken, Err: fmt.Errorf("%w: %w", refusal, err)}
	}
	stage := hostfn.StagePlugin
	if call.OtherType { // the plugin cannot use a token that is not a bearer token
		stage = hostfn.StageToken
	}
	return &hostfn.Failure{Stage: stage, Err: err}
}

// overTime returns err, the error of an exchange or nil. It is a [LimitError] if the plugin's own time was over.
func (c *Connector) overTime(err error) error {
	var e *Error
	own := c.plugin.info.Limits.CallTime
	if own == 0 || own != c.exchangeTime() || !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*LimitError)) || !errors.As(err, &e) {
		return err
	}
	return c.fail(e.Stage, c.plugin.limitError(limitTime, e.Err))
}
