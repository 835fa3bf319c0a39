package host

import (
	"errors"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/sandbox"
)

// PluginFailure is the way in which a plugin failed. It is empty if it has not, or if something else has failed: a token
// endpoint, a store of secrets, a template, or a configuration that the plugin itself reports as wrong.
type PluginFailure string

// The ways in which plugins fail.
const (
	// FailureFuel means that the plugin had no fuel left.
	FailureFuel PluginFailure = "fuel"
	// FailureTime means that the time of the call was over while the plugin ran. The time of a token request that is not answered
	// counts as a failure of its endpoint.
	FailureTime PluginFailure = "time"
	// FailureMemory means that the plugin wanted more memory, or more memory blocks, than its limit.
	FailureMemory PluginFailure = "memory"
	// FailureTrap means that the plugin trapped, as after a panic.
	FailureTrap PluginFailure = "trap"
	// FailureAnswer means that the plugin returned what cannot be applied to the request, misused a host function, or was over
	// another limit.
	FailureAnswer PluginFailure = "answer"
)

// PluginFailures lists every [PluginFailure].
var PluginFailures = []PluginFailure{FailureFuel, FailureTime, FailureMemory, FailureTrap, FailureAnswer}

// ran adds a run of the guest to the attempt.
func (a *Attempt) ran(result sandbox.Result) {
	a.Runs++
	a.SandboxTime += result.Time
	a.Fuel += result.Fuel
	a.MostFuel = max(a.MostFuel, result.Fuel)
}

// failureOf returns the way in which the plugin has failed.
func failureOf(f *hostfn.Failure) PluginFailure {
	var stopped *sandbox.Error
	switch {
	case !errors.As(f.Err, &stopped):
		if !f.Guest && (f.Stage == hostfn.StagePlugin || f.Stage == hostfn.StageMutation) {
			return FailureAnswer
		}
		return ""
	case stopped.Limit != "":
		return map[string]PluginFailure{
			sandbox.LimitFuel: FailureFuel, sandbox.LimitTime: FailureTime, sandbox.LimitMemory: FailureMemory,
		}[stopped.Limit]
	case stopped.Kind == sandbox.ErrTrap, stopped.Kind == sandbox.ErrExit:
		return FailureTrap
	case stopped.Kind == sandbox.ErrLimit, stopped.Kind == sandbox.ErrUse:
		return FailureAnswer
	}
	return "" // the caller has gone away, or a bug of the host
}
