package gateway

import (
	"errors"

	"github.com/keywright/keywright/host"
)

// problemsOf returns what a template's error lists.
func problemsOf(err error) []host.Problem {
	var wrong *host.TemplateError
	if errors.As(err, &wrong) {
		return wrong.Problems
	}
	return []host.Problem{{Message: err.Error()}}
}
