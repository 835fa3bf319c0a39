// Package plugintest has what the tests of several plugins share.
package plugintest

import (
	"net/http"
	"slices"
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

// Problem checks that a configuration has one problem. want has the field, a colon and a space, and a text of the message.
func Problem(t *testing.T, h *hosttest.Harness, c hosttest.Config, want string) {
	t.Helper()
	field, text, _ := strings.Cut(want, ": ")
	problems := h.Problems(c)
	if len(problems) != 1 || problems[0].Path != "auth.config."+field || !strings.Contains(problems[0].Message, text) {
		t.Errorf("problems = %v, want %s", problems, want)
	}
}

// Refuses sends a request that the plugin or its host refuses, and compares the stage of the error, unless it is "", and its text.
func Refuses(t *testing.T, h *hosttest.Harness, c hosttest.Config, r *http.Request, stage host.Stage, text string) {
	t.Helper()
	if err := h.AuthenticateError(c, r); stage != "" && err.Stage != stage || !strings.Contains(err.Error(), text) {
		t.Errorf("stage %s: err = %v, want %s: %q", err.Stage, err, stage, text)
	}
}

// Lasts checks that a token, which Authorization sends, is used until a time after it was issued, and that a second later there is another.
func Lasts(t *testing.T, h *hosttest.Harness, c hosttest.Config, r *http.Request, authorization string, last time.Duration) {
	t.Helper()
	for i, pause := range []time.Duration{0, last, time.Second, last, time.Second} {
		h.Advance(pause)
		Sends(t, h, c, r.Clone(r.Context()), authorization)
		Exchanges(t, h, 1+i/2)
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

// Renews sends a request whose first attempt the API refuses, and compares the header Authorization of the second, which it accepts.
func Renews(t *testing.T, h *hosttest.Harness, c hosttest.Config, r *http.Request, authorization string) {
	t.Helper()
	h.API(hosttest.JSON(http.StatusUnauthorized, `{}`), hosttest.JSON(http.StatusOK, `{}`))
	got := h.Authenticate(c, r)
	if got.Attempts != 2 || got.Header("Authorization") != authorization || got.Response.StatusCode != http.StatusOK {
		t.Errorf("status = %d after %d attempts with %s, want %s", got.Response.StatusCode, got.Attempts, got.Header("Authorization"), authorization)
	}
}

// Headed returns an answer with further headers: pairs of a name and a value.
func Headed(answer hosttest.Answer, headers ...string) hosttest.Answer {
	return func(r *http.Request) (*http.Response, error) {
		response, err := answer(r)
		for pair := range slices.Chunk(headers, 2) {
			response.Header.Add(pair[0], pair[1])
		}
		return response, err
	}
}

// Dated returns an answer with a Date of a clock that is ahead by a time when it answers.
func Dated(h *hosttest.Harness, answer hosttest.Answer, ahead time.Duration) hosttest.Answer {
	return func(r *http.Request) (*http.Response, error) {
		return Headed(answer, "Date", h.Now().Add(ahead).UTC().Format(http.TimeFormat))(r)
	}
}
