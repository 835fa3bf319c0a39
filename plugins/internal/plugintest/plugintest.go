// Package plugintest has what the tests of several plugins share.
package plugintest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/sdk"
)

// Runner runs a test of a plugin in the sandbox and natively.
type Runner func(t *testing.T, test func(*testing.T, *hosttest.Harness))

// Of returns the runner of a plugin, whose module is at the path wasm. prepare, if any, runs first in each harness.
func Of(p sdk.Plugin, wasm string, prepare ...func(*hosttest.Harness)) Runner {
	return func(t *testing.T, test func(*testing.T, *hosttest.Harness)) {
		t.Helper()
		hosttest.Run(t, p, wasm, func(t *testing.T, h *hosttest.Harness) {
			for _, f := range prepare {
				f(h)
			}
			test(t, h)
		})
	}
}

// Case runs a test as a subtest of a name.
func (run Runner) Case(t *testing.T, name string, test func(*testing.T, *hosttest.Harness)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { run(t, test) })
}

// With returns a configuration with fields added or replaced: pairs of a name and a value. A field whose value is nil is removed.
func With(c hosttest.Config, pairs ...any) hosttest.Config {
	for i := 0; i < len(pairs); i += 2 {
		if c[pairs[i].(string)] = pairs[i+1]; pairs[i+1] == nil {
			delete(c, pairs[i].(string))
		}
	}
	return c
}

// Problems compares the fields of a configuration that have problems, in the order of the problems. want has their names.
func Problems(t *testing.T, h *hosttest.Harness, c hosttest.Config, want string) {
	t.Helper()
	var paths []string
	for _, problem := range h.Problems(c) {
		paths = append(paths, strings.TrimPrefix(problem.Path, "auth.config."))
	}
	if got := strings.Join(paths, " "); got != want {
		t.Errorf("problems at %q, want %q", got, want)
	}
}

// Refuses sends a request that the plugin or its host refuses, and compares the stage of the error, unless it is "", and its text.
func Refuses(t *testing.T, h *hosttest.Harness, c hosttest.Config, r *http.Request, stage host.Stage, text string) {
	t.Helper()
	if err := h.AuthenticateError(c, r); stage != "" && err.Stage != stage || !strings.Contains(err.Error(), text) {
		t.Errorf("stage %s: err = %v, want %s: %q", err.Stage, err, stage, text)
	}
}

// Use is a request that follows the last one after a time. Sends is the number of exchanges so far.
type Use struct {
	After time.Duration
	Sends int
}

// Uses sends requests with the value of Authorization, and compares the numbers of exchanges.
func Uses(t *testing.T, h *hosttest.Harness, c hosttest.Config, r *http.Request, authorization string, uses ...Use) {
	t.Helper()
	for i, use := range uses {
		h.Advance(use.After)
		if got := h.Authenticate(c, r.Clone(r.Context())).Header("Authorization"); got != authorization {
			t.Errorf("request %d: Authorization = %s, want %s", i, got, authorization)
		}
		if n := len(h.Exchanges()); n != use.Sends {
			t.Errorf("request %d: %d exchanges, want %d", i, n, use.Sends)
		}
	}
}

// Sends sends a request, and compares its header Authorization.
func Sends(t *testing.T, h *hosttest.Harness, c hosttest.Config, r *http.Request, authorization string) {
	t.Helper()
	if got := h.Authenticate(c, r).Header("Authorization"); got != authorization {
		t.Errorf("Authorization = %s, want %s", got, authorization)
	}
}

// Answers sends a request, and compares the status of the answer and the number of attempts.
func Answers(t *testing.T, h *hosttest.Harness, c hosttest.Config, r *http.Request, status, attempts int) {
	t.Helper()
	if got := h.Authenticate(c, r); got.Response.StatusCode != status || got.Attempts != attempts {
		t.Errorf("status = %d after %d attempts, want %d after %d", got.Response.StatusCode, got.Attempts, status, attempts)
	}
}

// Exchanges compares the number of exchanges so far.
func Exchanges(t *testing.T, h *hosttest.Harness, want int) {
	t.Helper()
	if n := len(h.Exchanges()); n != want {
		t.Errorf("%d exchanges, want %d", n, want)
	}
}

// Warns checks that there is one warning, which has a text, or none if text is "".
func Warns(t *testing.T, h *hosttest.Harness, text string) {
	t.Helper()
	if w := h.Warnings(); text == "" && len(w) != 0 || text != "" && (len(w) != 1 || !strings.Contains(w[0], text)) {
		t.Errorf("warnings = %q, want %q", w, text)
	}
}
