package run

import (
	"errors"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/sandbox"
)

// The ways in which a plugin fails, see host.PluginFailure, but for the limits of the sandbox, which have names there.
const (
	FailureTrap   = "trap"
	FailureAnswer = "answer"
)

// FailureOf returns the way in which the plugin has failed, or "".
func FailureOf(f *hostfn.Failure) string {
	var stopped *sandbox.Error
	switch {
	case !errors.As(f.Err, &stopped):
		if !f.Guest && (f.Stage == hostfn.StagePlugin || f.Stage == hostfn.StageMutation) {
			return FailureAnswer
		}
		return ""
	case stopped.Limit != "":
		return stopped.Limit
	case stopped.Kind == sandbox.ErrTrap, stopped.Kind == sandbox.ErrExit:
		return FailureTrap
	case stopped.Kind == sandbox.ErrLimit, stopped.Kind == sandbox.ErrUse:
		return FailureAnswer
	}
	return "" // the caller has gone away, or a bug of the host
}
